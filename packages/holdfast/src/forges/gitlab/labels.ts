import { HoldfastError } from "../../core/error.ts";
import type { Subject } from "../../ports/forge.ts";
import { writeOnce } from "../write-once.ts";
import { hiddenWrite, locationOf, type GitlabPlace } from "./project.ts";
import { requireSubject, subjectOf } from "./subject.ts";

/** Equal labels are left alone: each change is an event that people see. */
export async function setLabels(place: GitlabPlace, on: Subject, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  const { name, path, number } = subjectOf(place, on);
  if (sameLabels((await requireSubject(place, on)).labels, wanted)) return;
  await writeOnce(place.api, {
    request: { method: "PUT", path, body: { labels: joinedLabels(wanted) } },
    done: () => true,
    find: async () => (sameLabels((await requireSubject(place, on)).labels, wanted) ? true : null),
    hidden: () => hiddenWrite(place, `set labels of ${name}`),
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `the labels of ${name} in ${locationOf(place)} cannot be set: ${message}`,
        hint: "Look at the labels that were asked for.",
        data: { why: "labels", number },
      }),
  });
}

/** GitLab takes them as one text, and has no way to write a comma within one. */
export function joinedLabels(labels: readonly string[]): string {
  const bad = labels.find((label) => label.includes(","));
  if (bad === undefined) return [...new Set(labels)].join(",");
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(bad)} cannot be a label at GitLab`,
    hint: "Use labels without commas.",
  });
}

function sameLabels(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && b.every((label) => a.includes(label));
}
