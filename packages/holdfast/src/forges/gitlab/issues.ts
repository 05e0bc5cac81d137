import * as z from "zod/mini";
import type { IssueSnapshot } from "../../core/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Forge } from "../../ports/forge.ts";
import { fitBody } from "../fit-body.ts";
import { hasMarker, requireKey, withMarker } from "../marker.ts";
import { requireText } from "../require-text.ts";
import {
  absent,
  hiddenWrite,
  locationOf,
  LONGEST_BODY,
  projectPath,
  readProject,
  type GitlabPlace,
} from "./project.ts";

export async function readIssue(place: GitlabPlace, number: number): Promise<IssueSnapshot | null> {
  const found = await place.api.read(pathOf(place, number), ISSUE);
  return found === null ? await absent(place) : snapshotOf(found);
}

/** Through the list of what this login made, newest first: that is complete, and the search index is not. */
export async function findIssue(place: GitlabPlace, key: string): Promise<IssueSnapshot | null> {
  requireKey(key);
  const query = "scope=created_by_me&state=all&order_by=created_at&sort=desc";
  const all =
    (await place.api.list(`${projectPath(place.project)}/issues?${query}`, ISSUE)) ?? (await absent(place)) ?? [];
  const found = all.find(({ description }) => hasMarker(description ?? "", key));
  return found === undefined ? null : snapshotOf(found);
}

export async function createIssue(
  place: GitlabPlace,
  issue: Parameters<Forge["createIssue"]>[0],
): Promise<IssueSnapshot> {
  requireText("title", issue.title);
  const description = fitBody(issue.body, LONGEST_BODY, (text) => withMarker(text, issue.key));
  const there = await findIssue(place, issue.key);
  if (there !== null) return there;
  const path = `${projectPath(place.project)}/issues`;
  const body = { title: issue.title, description, labels: joined(issue.labels) };
  const judged = await place.api.write({ method: "POST", path, body });
  switch (judged.kind) {
    case "ok":
      return snapshotOf(place.api.parse(judged.body, ISSUE, `POST ${path}`));
    case "lost": {
      const made = await findIssue(place, issue.key);
      if (made !== null) return made;
      throw place.api.lost(`POST ${path}`, judged.reason);
    }
    case "absent":
      await readProject(place);
      throw hiddenWrite(place, "create an issue");
    case "refused":
      throw new HoldfastError({
        code: "FORGE_REFUSED",
        message: `no issue can be created in ${locationOf(place)}: ${judged.message}`,
        hint: "Look whether the project has issues turned on.",
        data: { why: "issue_refused" },
      });
  }
}

/** Equal labels are left alone: each change is an event that people see. */
export async function setLabels(place: GitlabPlace, number: number, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  const issue = await requireIssue(place, number);
  if (sameLabels(issue.labels, wanted)) return;
  const path = pathOf(place, number);
  const judged = await place.api.write({ method: "PUT", path, body: { labels: joined(wanted) } });
  switch (judged.kind) {
    case "ok":
      return;
    case "lost": {
      const after = await requireIssue(place, number);
      if (sameLabels(after.labels, wanted)) return;
      throw place.api.lost(`PUT ${path}`, judged.reason);
    }
    case "absent":
      throw hiddenWrite(place, `set labels of ${number}`);
    case "refused":
      throw new HoldfastError({
        code: "FORGE_REFUSED",
        message: `the labels of ${number} in ${locationOf(place)} cannot be set: ${judged.message}`,
        hint: "Look at the labels that were asked for.",
        data: { why: "labels", number },
      });
  }
}

export async function requireIssue(place: GitlabPlace, number: number): Promise<IssueSnapshot> {
  const issue = await readIssue(place, number);
  if (issue !== null) return issue;
  throw new HoldfastError({
    code: "FORGE_REFUSED",
    message: `there is no issue ${number} in ${locationOf(place)}`,
    hint: "Name another number.",
    data: { why: "issue_missing", number },
  });
}

const ISSUE = z.object({
  iid: z.number(),
  title: z.string(),
  description: z.nullish(z.string()),
  state: z.enum(["opened", "closed"]),
  labels: z.array(z.string()),
  updated_at: z.string(),
});

function snapshotOf(issue: z.infer<typeof ISSUE>): IssueSnapshot {
  const { iid, title, description, state, labels } = issue;
  return {
    number: iid,
    title,
    body: description ?? "",
    labels,
    state: state === "opened" ? "open" : "closed",
    updatedAt: issue.updated_at,
  };
}

/** GitLab takes them as one text, and has no way to write a comma within one. */
function joined(labels: readonly string[]): string {
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

function pathOf(place: GitlabPlace, number: number): string {
  return `${projectPath(place.project)}/issues/${number}`;
}
