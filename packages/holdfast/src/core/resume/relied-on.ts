import type { IssueSnapshot, Planes } from "../checkpoint/checkpoint.ts";
import { isJsonObject } from "../json.ts";
import type { Json } from "../json.ts";
import { issueShape } from "../checkpoint/issue-shape.ts";

/**
 * What in the outside world a run was built on. A workflow says it by the names of its values (`issue`, `base`, `pushed`,
 * `pullRequest`, as `impl` does); what it does not say is taken from the inputs.
 */
export interface ReliedOn {
  readonly issue: IssueSnapshot | null;
  /** `branch` is null where only the commit is known. */
  readonly base: { readonly branch: string | null; readonly commit: string } | null;
  /** What the remote has because of us. */
  readonly pushed: string | null;
  readonly pullRequest: number | null;
}

export function reliedOn(planes: Planes): ReliedOn {
  const { values } = planes.context;
  const issue = values["issue"];
  const pushed = values["pushed"];
  const opened = values["pullRequest"];
  const number = isJsonObject(opened) ? opened["number"] : undefined;
  return {
    issue: isIssue(issue) ? issue : planes.inputs.issue,
    base: baseOf(values["base"], planes.inputs.base),
    pushed: typeof pushed === "string" ? pushed : null,
    pullRequest: typeof number === "number" ? number : null,
  };
}

/** Wherever the run keeps its issue, it is the new one. */
export function withIssue(planes: Planes, issue: IssueSnapshot): Planes {
  const { values } = planes.context;
  const context = isIssue(values["issue"])
    ? { ...planes.context, values: { ...values, issue: { ...issue } } }
    : planes.context;
  return { ...planes, inputs: { ...planes.inputs, issue }, context };
}

/** The next push may replace this commit, and no other. */
export function withPushed(planes: Planes, commit: string): Planes {
  if (!Object.hasOwn(planes.context.values, "pushed")) return planes;
  return { ...planes, context: { ...planes.context, values: { ...planes.context.values, pushed: commit } } };
}

function baseOf(value: Json | undefined, input: string | null): ReliedOn["base"] {
  if (isJsonObject(value) && typeof value["branch"] === "string" && typeof value["commit"] === "string")
    return { branch: value["branch"], commit: value["commit"] };
  return input === null ? null : { branch: null, commit: input };
}

function isIssue(value: unknown): value is IssueSnapshot {
  return issueShape(value) === null;
}
