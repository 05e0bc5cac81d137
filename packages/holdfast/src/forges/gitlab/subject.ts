import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import type { Subject } from "../../ports/forge.ts";
import { numberOf } from "../subject.ts";
import { absent, locationOf, projectPath, type GitlabPlace } from "./project.ts";

/** An issue or a merge request, which GitLab numbers apart: below paths of their own, with the same things there. */
export interface GitlabSubject {
  readonly number: number;
  /** For people. */
  readonly name: string;
  readonly path: string;
  readonly url: string;
}

export function subjectOf(place: GitlabPlace, on: Subject): GitlabSubject {
  const number = numberOf(on);
  const [kind, name] = typeof on === "number" ? ["issues", "issue"] : ["merge_requests", "merge request"];
  return {
    number,
    name: `${name} ${number}`,
    path: `${projectPath(place.project)}/${kind}/${number}`,
    url: `${locationOf(place)}/-/${kind}/${number}`,
  };
}

/** Throws FORGE_DENIED when the whole project cannot be seen. */
export async function requireSubject(place: GitlabPlace, on: Subject): Promise<z.infer<typeof LABELLED>> {
  const { name, path, number } = subjectOf(place, on);
  const found = await place.api.read(path, LABELLED);
  if (found !== null) return found;
  await absent(place);
  throw new HoldfastError({
    code: "FORGE_REFUSED",
    message: `there is no ${name} in ${locationOf(place)}`,
    hint: "Name another number.",
    data: { why: typeof on === "number" ? "issue_missing" : "pull_missing", number },
  });
}

const LABELLED = z.object({ labels: z.array(z.string()) });
