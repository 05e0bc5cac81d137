// Findings: differences between a saved run and the current issue, branch, files and settings, and
// the policy for a resume: continue, warn, ask or refuse.
import {
  type ExecutionConfig,
  type InputsPlane,
  type IssueComment,
  type IssueSnapshot,
  type Planes,
  issueShape,
} from "./checkpoint.ts";
import { type Digest, type Json, type JsonObject, isJsonObject } from "./json.ts";
import type { Position } from "./position.ts";
import { canonicalJson } from "./values.ts";

/** One difference between the checkpoint and the current situation. */
export interface Finding {
  readonly kind: FindingKind;
  readonly summary: string;
  readonly expected: Json;
  readonly actual: Json;
  /** For a changed text: removed and added lines. */
  readonly diff?: string;
  /** The run cannot keep the change and continue as planned, so the user is asked where the policy only warns. */
  readonly conflict?: true;
}

export const FINDING_KINDS = [
  "issue_title_changed",
  "issue_body_changed",
  "issue_labels_changed",
  "issue_comments_changed",
  "issue_closed",
  "issue_reopened",
  "issue_missing",
  "issue_mismatch",
  "base_moved",
  "head_moved",
  "branch_missing",
  "branch_switched",
  "branch_diverged",
  "remote_branch_missing",
  "worktree_missing",
  "worktree_moved",
  "worktree_outdated",
  "pull_request_merged",
  "work_not_merged",
  "pull_request_closed",
  "files_changed",
  "tree_missing",
  "store_damaged",
  "journal_damaged",
  "workflow_changed",
  "model_changed",
  "tools_changed",
  "effect_in_flight",
  "restore_unfinished",
  "process_left",
  "worktree_in_use",
  "forge_unreachable",
  "remote_unreachable",
] as const;
export type FindingKind = (typeof FINDING_KINDS)[number];

/** In order of severity. The worst finding decides. */
export const VERDICTS = ["resume", "warn", "ask", "refuse"] as const;
export type Verdict = (typeof VERDICTS)[number];

/** A total record, so that a new kind cannot be forgotten. */
export type FindingPolicy = Readonly<Record<FindingKind, Verdict>>;

/**
 * Decides which findings wait for the user.
 *
 * - A changed issue text changes the task, so it asks.
 * - What Holdfast can bring back (files, which a restore saves first, a worktree, a branch) warns.
 * - What leaves nothing to work on refuses.
 * - An effect in flight warns, because it is looked up before the engine acts again.
 * - An unreachable remote warns, because a push states what it expects there.
 * - An unreachable forge asks, because no later check would notice a changed task.
 * - A process that may be left of a killed run asks: two agents could change the same files.
 * - A damaged journal asks: a damaged checkpoint has an older one before it, but the journal has no second copy.
 */
export const defaultFindingPolicy: FindingPolicy = {
  issue_title_changed: "warn",
  issue_body_changed: "ask",
  issue_labels_changed: "warn",
  issue_comments_changed: "warn",
  issue_closed: "ask",
  issue_reopened: "resume",
  issue_missing: "ask",
  issue_mismatch: "refuse",
  base_moved: "warn",
  head_moved: "ask",
  branch_missing: "warn",
  branch_switched: "ask",
  branch_diverged: "ask",
  remote_branch_missing: "warn",
  worktree_missing: "warn",
  worktree_moved: "warn",
  worktree_outdated: "warn",
  pull_request_merged: "warn",
  work_not_merged: "ask",
  pull_request_closed: "ask",
  files_changed: "warn",
  tree_missing: "refuse",
  store_damaged: "warn",
  journal_damaged: "ask",
  workflow_changed: "ask",
  model_changed: "warn",
  tools_changed: "warn",
  effect_in_flight: "warn",
  restore_unfinished: "warn",
  process_left: "ask",
  worktree_in_use: "warn",
  forge_unreachable: "ask",
  remote_unreachable: "warn",
};

/** The worst verdict decides. Without findings it is "resume". */
export function worstOf(verdicts: readonly Verdict[]): Verdict {
  return VERDICTS[Math.max(0, ...verdicts.map((verdict) => VERDICTS.indexOf(verdict)))] ?? "refuse";
}

/** Lists every difference between the run's saved inputs and the current ones. No finding hides another. */
export function compareInputs(params: {
  readonly saved: InputsPlane;
  readonly current: InputsPlane;
}): readonly Finding[] {
  const { saved, current } = params;
  const findings: Finding[] = saved.issue === null ? [] : [...compareIssues(saved.issue, current.issue)];
  if (saved.base !== null && current.base !== null && saved.base !== current.base) {
    findings.push({
      kind: "base_moved",
      summary: "The base branch has moved",
      expected: saved.base,
      actual: current.base,
    });
  }
  return findings;
}

export interface Setting {
  readonly definition: Digest | null;
  readonly config: ExecutionConfig;
}

/** Compares the settings that the run used with those that would continue it. */
export function compareSettings(params: { readonly saved: Setting; readonly current: Setting }): readonly Finding[] {
  const { saved, current } = params;
  const findings: Finding[] = [];
  if (saved.definition !== current.definition) {
    const summary = "The workflow is not the one that the run began with";
    findings.push({ kind: "workflow_changed", summary, expected: saved.definition, actual: current.definition });
  }
  const [before, now] = [modelOf(saved.config), modelOf(current.config)];
  if (JSON.stringify(before) !== JSON.stringify(now)) {
    findings.push({ kind: "model_changed", summary: "Agent or model has changed", expected: before, actual: now });
  }
  const tools = compareSets("tools_changed", "Tools have changed", saved.config.tools, current.config.tools);
  return [...findings, ...tools];
}

function compareIssues(saved: IssueSnapshot, current: IssueSnapshot | null): readonly Finding[] {
  const name = `Issue ${saved.number}`;
  if (current === null || current.number !== saved.number) {
    const actual = current?.number ?? null;
    return [{ kind: "issue_missing", summary: `${name} is not there any more`, expected: saved.number, actual }];
  }
  const findings: Finding[] = [];
  if (saved.title.trim() !== current.title.trim()) {
    const summary = `The title of ${name} has changed`;
    findings.push({ kind: "issue_title_changed", summary, expected: saved.title, actual: current.title });
  }
  // A forge may return the same text with other line endings or another end. That is not a change of the task.
  if (comparable(saved.body) !== comparable(current.body)) {
    const summary = `The body of ${name} has changed`;
    const diff = describeTextChange({ before: saved.body, after: current.body });
    findings.push({ kind: "issue_body_changed", summary, expected: saved.body, actual: current.body, diff });
  }
  findings.push(...compareSets("issue_labels_changed", `Labels of ${name} have changed`, saved.labels, current.labels));
  findings.push(...compareComments(name, saved.comments, current.comments));
  if (saved.state !== current.state) {
    const closed = current.state === "closed";
    findings.push({
      kind: closed ? "issue_closed" : "issue_reopened",
      summary: `${name} was ${closed ? "closed" : "opened again"}`,
      expected: saved.state,
      actual: current.state,
    });
  }
  return findings;
}

/** Comments that were not read, such as those of a run that an older version began, are not compared. */
function compareComments(
  name: string,
  saved: IssueSnapshot["comments"],
  current: IssueSnapshot["comments"],
): readonly Finding[] {
  if (saved === undefined || current === undefined) return [];
  const [before, after] = [commentsText(saved), commentsText(current)];
  if (comparable(before) === comparable(after)) return [];
  const summary = `The comments on ${name} have changed`;
  const diff = describeTextChange({ before, after });
  return [{ kind: "issue_comments_changed", summary, expected: [...saved], actual: [...current], diff }];
}

/** Comments as Markdown. Every line of a comment is quoted, so that none can pass for the name of an author. */
export function commentsText(comments: readonly IssueComment[]): string {
  return comments
    .map(({ author, at, body }) => {
      const quoted = body.trim().split(/\r?\n/);
      return [
        `${author.replaceAll(/\s+/g, " ")}${at === null ? "" : `, ${at}`}:`,
        ...quoted.map((line) => `> ${line}`),
      ].join("\n");
    })
    .join("\n\n");
}

/** The order and repetition of labels and tools have no meaning. */
function compareSets(
  kind: FindingKind,
  what: string,
  saved: readonly string[],
  current: readonly string[],
): readonly Finding[] {
  const [before, now] = [new Set(saved), new Set(current)];
  const added = [...now].filter((one) => !before.has(one)).toSorted();
  const removed = [...before].filter((one) => !now.has(one)).toSorted();
  if (added.length === 0 && removed.length === 0) return [];
  const changes = [...removed.map((one) => `-${one}`), ...added.map((one) => `+${one}`)];
  const summary = `${what}: ${changes.join(", ")}`;
  return [{ kind, summary, expected: [...before].toSorted(), actual: [...now].toSorted() }];
}

function modelOf(config: ExecutionConfig): Json {
  const { agent, model, temperature, seed, mode } = config;
  return { agent, model, temperature, seed, mode };
}

function comparable(text: string): string {
  return text.replaceAll("\r\n", "\n").trimEnd();
}

/** A run's recorded position and values, from which a workflow judges findings. */
export interface RecordedRun {
  readonly position: Position;
  readonly values: JsonObject;
}

/** A workflow's own rules about findings, which override the default policy. Pure. */
export interface Freshness {
  /** The run itself caused the difference, so it is not a finding. */
  readonly isOwn: (finding: Finding, recorded: RecordedRun) => boolean;
  /** Verdict that replaces the policy's. null: the policy applies. */
  readonly judge: (finding: Finding, recorded: RecordedRun) => Verdict | null;
  /**
   * Returns the stage at which to continue if a label moved the work forward or back, and why. null: the recorded
   * stage. `labels` are the issue's current ones.
   */
  readonly relocate: (
    labels: readonly string[],
    recorded: RecordedRun,
  ) => { readonly stage: string; readonly why: string } | null;
  /**
   * Called when the user forces an ended run to continue from the checkpoint of its end. Returns the values to change
   * (others are kept) and the stage to enter; `enters` null: the run continues in its current stage. null: nothing
   * changes.
   */
  readonly reopen?: (recorded: RecordedRun) => {
    readonly values: JsonObject;
    readonly enters: { readonly stage: string; readonly iteration: number } | null;
    readonly why: string;
  } | null;
  /** What the user can do about a run that has failed at this stage, with these values. null: the general hint. */
  readonly failedHint?: (failed: {
    readonly run: string;
    readonly stage: string | null;
    readonly values: JsonObject;
  }) => string | null;
}

/**
 * What a run relies on outside of itself. A workflow declares it by the names of its values (`issue`, `base`, `pushed`,
 * `pullRequest`, as in `impl`). Missing values are taken from the inputs.
 */
export interface ReliedOn {
  readonly issue: IssueSnapshot | null;
  /** `branch` is null if only the commit is known. */
  readonly base: { readonly branch: string | null; readonly commit: string } | null;
  /** The commit that the run pushed to the remote. */
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
    // A task that is worked on without a forge has the number 0: there is no issue to compare it with.
    issue: isIssue(issue) && issue.number > 0 ? issue : planes.inputs.issue,
    base: baseOf(values["base"], planes.inputs.base),
    pushed: typeof pushed === "string" ? pushed : null,
    pullRequest: typeof number === "number" ? number : null,
  };
}

/** Replaces the issue in the inputs, and in the values if the run stores it there. */
export function withIssue(planes: Planes, issue: IssueSnapshot): Planes {
  const { values } = planes.context;
  const context = isIssue(values["issue"])
    ? { ...planes.context, values: { ...values, issue: { ...issue } } }
    : planes.context;
  return { ...planes, inputs: { ...planes.inputs, issue }, context };
}

/** Sets the commit that the next push expects on the remote. The push may replace only this commit. */
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

/**
 * What the user accepted on a resume, by kind of finding: differences that no plane can store (base commit, remote
 * state, a missing issue). It is part of the checkpoint, so the same difference is not asked about twice.
 */
export type Accepted = Readonly<Partial<Record<FindingKind, Json>>>;

export function readAccepted(extensions: JsonObject): Accepted {
  const saved = extensions[EXTENSION];
  if (!isJsonObject(saved)) return {};
  return Object.fromEntries(FINDING_KINDS.flatMap((kind) => (Object.hasOwn(saved, kind) ? [[kind, saved[kind]]] : [])));
}

/** Adds one accepted finding to the extensions. A later one replaces an earlier one of the same kind. */
export function withAccepted(
  extensions: JsonObject,
  one: { readonly kind: FindingKind; readonly actual: Json },
): JsonObject {
  const saved = extensions[EXTENSION];
  return { ...extensions, [EXTENSION]: { ...(isJsonObject(saved) ? saved : {}), [one.kind]: one.actual } };
}

/** The extensions of a run whose user has accepted nothing yet. */
export function withoutAccepted({ [EXTENSION]: _accepted, ...extensions }: JsonObject): JsonObject {
  return extensions;
}

export function wasAccepted(accepted: Accepted, finding: Finding): boolean {
  const before = accepted[finding.kind];
  return before !== undefined && canonicalJson(before) === canonicalJson(finding.actual);
}

/**
 * True when the user accepted on a resume that the run's remote branch is at `tip`. The run then keeps its own commits
 * and replaces those on the remote.
 */
export function isAcceptedTip(extensions: JsonObject, tip: string | null): boolean {
  const { branch_diverged: accepted } = readAccepted(extensions);
  return tip !== null && isJsonObject(accepted) && accepted["commit"] === tip;
}

const EXTENSION = "accepted";

/** A readable diff: removed lines with "-", added lines with "+", and two lines of context around each change. */
export function describeTextChange(params: { readonly before: string; readonly after: string }): string {
  const edits = diffLines(params);
  const near = edits.map((_, place) => edits.slice(Math.max(0, place - CONTEXT), place + CONTEXT + 1).some(isChange));
  const shown: string[] = [];
  for (const [place, edit] of edits.entries()) {
    if (near[place] === true) shown.push(`${SIGN[edit.kind]}${edit.line}`);
    else if (near[place - 1] !== false) shown.push("…");
  }
  const left = shown.length - MAX_SHOWN;
  return left > 0 ? [...shown.slice(0, MAX_SHOWN), `… and ${left} more lines`].join("\n") : shown.join("\n");
}

export interface LineEdit {
  readonly kind: "same" | "removed" | "added";
  readonly line: string;
}

/**
 * Line diff with the fewest edits that Myers' algorithm finds. Its cost grows with the square of the edits. Beyond a
 * bound, the differing middle is reported as replaced: longer than necessary, but never wrong.
 */
export function diffLines(params: { readonly before: string; readonly after: string }): readonly LineEdit[] {
  const before = linesOf(params.before);
  const after = linesOf(params.after);
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (
    end < before.length - start &&
    end < after.length - start &&
    before[before.length - 1 - end] === after[after.length - 1 - end]
  )
    end += 1;
  const [old, now] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  return [
    ...mark("same", before.slice(0, start)),
    ...(shortestEdits(old, now) ?? [...mark("removed", old), ...mark("added", now)]),
    ...mark("same", before.slice(before.length - end)),
  ];
}

const CONTEXT = 2;
const MAX_SHOWN = 400;
const MAX_EDITS = 500;
const SIGN = { same: "  ", removed: "- ", added: "+ " } as const;

function isChange(edit: LineEdit): boolean {
  return edit.kind !== "same";
}

function linesOf(text: string): readonly string[] {
  return text.replaceAll("\r\n", "\n").split("\n");
}

function mark(kind: LineEdit["kind"], lines: readonly string[]): readonly LineEdit[] {
  return lines.map((line) => ({ kind, line }));
}

/** null: more edits than the bound. `reached[k]` is how far into `old` the search got on diagonal k. */
function shortestEdits(old: readonly string[], now: readonly string[]): readonly LineEdit[] | null {
  const trail: ReadonlyMap<number, number>[] = [];
  let reached = new Map<number, number>([[1, 0]]);
  for (let edits = 0; edits <= Math.min(MAX_EDITS, old.length + now.length); edits += 1) {
    trail.push(reached);
    const next = new Map<number, number>();
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = comesDown(reached, diagonal, edits) ? at(reached, diagonal + 1) : at(reached, diagonal - 1) + 1;
      while (x < old.length && x - diagonal < now.length && old[x] === now[x - diagonal]) x += 1;
      next.set(diagonal, x);
      if (x >= old.length && x - diagonal >= now.length) return walkBack(trail, old, now);
    }
    reached = next;
  }
  return null;
}

function walkBack(
  trail: readonly ReadonlyMap<number, number>[],
  old: readonly string[],
  now: readonly string[],
): readonly LineEdit[] {
  const backwards: LineEdit[] = [];
  let x = old.length;
  let y = now.length;
  for (let edits = trail.length - 1; edits >= 0; edits -= 1) {
    const reached = trail[edits] ?? new Map<number, number>();
    const diagonal = x - y;
    const down = comesDown(reached, diagonal, edits);
    const fromX = edits === 0 ? 0 : at(reached, down ? diagonal + 1 : diagonal - 1);
    const fromY = edits === 0 ? 0 : fromX - (down ? diagonal + 1 : diagonal - 1);
    const [beginX, beginY] = edits === 0 ? [0, 0] : down ? [fromX, fromY + 1] : [fromX + 1, fromY];
    for (; x > beginX && y > beginY; x -= 1, y -= 1) backwards.push({ kind: "same", line: old[x - 1] ?? "" });
    if (edits === 0) break;
    backwards.push(down ? { kind: "added", line: now[fromY] ?? "" } : { kind: "removed", line: old[fromX] ?? "" });
    [x, y] = [fromX, fromY];
  }
  return backwards.toReversed();
}

/** True when the furthest point on this diagonal was reached by adding a line, not by removing one. */
function comesDown(reached: ReadonlyMap<number, number>, diagonal: number, edits: number): boolean {
  if (diagonal === -edits) return true;
  return diagonal !== edits && at(reached, diagonal - 1) < at(reached, diagonal + 1);
}

function at(reached: ReadonlyMap<number, number>, diagonal: number): number {
  return reached.get(diagonal) ?? 0;
}
