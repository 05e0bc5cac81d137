import * as z from "zod/mini";
import type { IssueSnapshot } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Forge } from "../../ports/forge.ts";
import { fitBody } from "../fit-body.ts";
import { hasMarker, requireKey, withMarker } from "../marker.ts";
import { requireText } from "../require-text.ts";
import { writeOnce } from "../write-once.ts";
import { joinedLabels } from "./labels.ts";
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
  const body = { title: issue.title, description, labels: joinedLabels(issue.labels) };
  return await writeOnce(place.api, {
    request: { method: "POST", path, body },
    done: (made, what) => snapshotOf(place.api.parse(made, ISSUE, what)),
    find: () => findIssue(place, issue.key),
    async hidden() {
      await readProject(place);
      return hiddenWrite(place, "create an issue");
    },
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `no issue can be created in ${locationOf(place)}: ${message}`,
        hint: "Look whether the project has issues turned on.",
        data: { why: "issue_refused" },
      }),
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

function pathOf(place: GitlabPlace, number: number): string {
  return `${projectPath(place.project)}/issues/${number}`;
}
