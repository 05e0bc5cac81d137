// Plans a resume: judges the findings by policy and the user's answers, and derives the actions to take before the run continues.

import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type IssueComment, type IssueSnapshot, type Planes, commentsShape } from "./checkpoint.ts";
import {
  type Accepted,
  FINDING_KINDS,
  type Finding,
  type FindingKind,
  type FindingPolicy,
  type Setting,
  type Verdict,
  reliedOn,
  wasAccepted,
  withAccepted,
  withIssue,
  withPushed,
  worstOf,
} from "./findings.ts";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "./json.ts";
import { choiceHint } from "./options.ts";
import { type Position, nextAttempt } from "./position.ts";
import { type RunState, isEnded, isFailedOrAborted, restartHint } from "./run.ts";
import { canonicalJson } from "./values.ts";

/** The user's answer to a finding. "put_back" is only for files: the checkpoint's files replace the current ones, which are kept. */
type Answer = "accept" | "put_back";
export type Answers = Readonly<Partial<Record<FindingKind, Answer>>>;

/** A finding and the decision about it. */
export interface Judgement {
  readonly finding: Finding;
  /** The verdict after answers and earlier decisions. */
  readonly verdict: Verdict;
  /** "moot": the pull request was merged, so the finding no longer matters. */
  readonly decision: "accepted_before" | "accepted" | "put_back" | "by_policy" | "moot" | "open";
}

type IssueChange = Partial<Pick<IssueSnapshot, "title" | "body" | "labels" | "state" | "comments">>;

/** One action before the run continues, with its reason as a sentence. Every action is idempotent. */
export type ResumeAction = { readonly why: string } & (
  | { readonly kind: "keep_tips"; readonly commits: readonly string[] }
  | { readonly kind: "quarantine"; readonly sequence: number }
  | { readonly kind: "recreate_branch"; readonly branch: string; readonly commit: string }
  | { readonly kind: "recreate_worktree" }
  | { readonly kind: "refresh_worktree" }
  | { readonly kind: "finish_restore" }
  | { readonly kind: "go_back"; readonly sequence: number; readonly reopens: boolean }
  | { readonly kind: "take_issue"; readonly change: IssueChange; readonly feedback: string }
  /** The work was moved to this stage, for example by a label on the issue; a new stage attempt begins there. */
  | { readonly kind: "move_stage"; readonly stage: string; readonly iteration?: number }
  /** Replaces the named values of the workflow; the others keep theirs. */
  | { readonly kind: "change_values"; readonly values: JsonObject }
  | { readonly kind: "take_settings" }
  | { readonly kind: "take_files" }
  | { readonly kind: "remember"; readonly finding: FindingKind; readonly actual: Json }
  | { readonly kind: "put_files_back" }
  | { readonly kind: "finish" }
  /** Nothing to do here; it only explains that to the user. */
  | { readonly kind: "go_on" }
);

export type ResumePlan =
  | {
      /** "warn": the user should read the actions. */
      readonly kind: "resume" | "warn";
      readonly judgements: readonly Judgement[];
      readonly actions: readonly ResumeAction[];
    }
  | {
      /** Contains only `actions` that are harmless whatever the answer is. */
      readonly kind: "ask";
      readonly judgements: readonly Judgement[];
      readonly actions: readonly ResumeAction[];
      readonly why: string;
      readonly hint: string;
    }
  | {
      readonly kind: "refuse";
      readonly judgements: readonly Judgement[];
      readonly why: string;
      readonly hint: string;
    }
  | {
      /** Without actions the run was done before, and nothing changes. */
      readonly kind: "done";
      readonly judgements: readonly Judgement[];
      readonly actions: readonly ResumeAction[];
      readonly why: string;
    };

/**
 * Plans a resume from all findings, in any order. The worst finding decides. An answer turns a question into a warning, but never changes a
 * refusal. The user is not asked again about what was accepted before.
 */
export function planResume(params: {
  readonly run: string;
  readonly state: RunState;
  /** The checkpoint to resume from. */
  readonly from: ResumeFrom;
  readonly findings: readonly Finding[];
  readonly policy: FindingPolicy;
  /** The verdict of the run's workflow about a finding, instead of the policy; null: it has none. */
  readonly verdictOf?: (finding: Finding) => Verdict | null;
  readonly answers: Answers;
  /** Findings that the checkpoint has as accepted. */
  readonly accepted: Accepted;
  /** Reopen a run that has ended. Needs a chosen checkpoint. */
  readonly force: boolean;
}): ResumePlan {
  const { run, state, from } = params;
  const reopens = isEnded(state) && params.force && from.kind === "chosen";
  if (state.kind === "done" && !reopens) {
    // A user who names a checkpoint wants to go back to it: "done" would silently leave the run as it is.
    if (from.kind === "chosen") {
      const at = `${run}@${from.sequence}`;
      const why = `Run ${run} is done since ${state.at}, and goes back to checkpoint ${from.sequence} only with --force`;
      const hint = `To try another way from there, start a new run: \`holdfast fork ${at}\`. To continue this run: \`holdfast resume ${at} --force\`.`;
      return { kind: "refuse", judgements: [], why, hint };
    }
    return { kind: "done", judgements: [], actions: [], why: `Run ${run} is done since ${state.at}` };
  }
  if (isFailedOrAborted(state) && !reopens) {
    const why = `Run ${run} ended at ${state.at}: ${state.reason}`;
    const hint = restartHint(run);
    return { kind: "refuse", judgements: [], why, hint };
  }
  const judgements = markMoot(inOrder(params.findings).map((finding) => judge(finding, params)));
  return decide({ run, judgements, goesBack: goesBack(from, reopens) });
}

export type ResumeFrom =
  | { readonly kind: "newest" }
  /** Newer checkpoints cannot be used. */
  | { readonly kind: "newest_intact"; readonly sequence: number; readonly why: string }
  | { readonly kind: "chosen"; readonly sequence: number };

function decide(params: {
  readonly run: string;
  readonly judgements: readonly Judgement[];
  readonly goesBack: readonly ResumeAction[];
}): ResumePlan {
  const { run, judgements } = params;
  const verdict = worstOf(judgements.map((one) => one.verdict));
  const open = judgements.filter((one) => one.verdict === verdict);
  const why = open.map((one) => one.finding.summary).join("; ");
  const kinds = [...new Set(open.map((one) => one.finding.kind))];
  switch (verdict) {
    case "refuse":
      return { kind: "refuse", judgements, why, hint: kinds.map((kind) => FIX[kind] ?? FIX_BY_HAND).join(" ") };
    case "ask": {
      const flags = kinds.map((kind) => `--accept ${kind}`).join(" ");
      const back = kinds.includes("files_changed")
        ? " `files_changed=put_back` saves the files and puts them back."
        : "";
      const hint = `Look at what changed, then continue with \`holdfast resume ${run} ${flags}\`.${back}`;
      // This is safe whatever the answer is, and at the time of the answer it may be too late.
      const safe = actionsFor(judgements.map((one) => ({ ...one, decision: "by_policy" })));
      return { kind: "ask", judgements, actions: safe.filter((action) => action.kind === "keep_tips"), why, hint };
    }
    case "warn":
    case "resume": {
      const actions = [...actionsFor(judgements)];
      if (actions.some((action) => action.kind === "finish")) {
        const ending = new Set(["keep_tips", "finish"]);
        // Other changes are reported as well, but they are not the reason why nothing is left to do.
        const merged = judgements.find(({ finding }) => finding.kind === "pull_request_merged")?.finding.summary;
        return { kind: "done", judgements, actions: actions.filter((one) => ending.has(one.kind)), why: merged ?? why };
      }
      const place = actions.findIndex((action) => !BEFORE_GOING_BACK.has(action.kind));
      actions.splice(place < 0 ? actions.length : place, 0, ...params.goesBack);
      return { kind: verdict, judgements, actions };
    }
  }
}

const BEFORE_GOING_BACK: ReadonlySet<ResumeAction["kind"]> = new Set([
  "keep_tips",
  "quarantine",
  "recreate_branch",
  "recreate_worktree",
  "refresh_worktree",
  "finish_restore",
]);

function goesBack(from: ResumeFrom, reopens: boolean): readonly ResumeAction[] {
  switch (from.kind) {
    case "newest":
      return [];
    case "newest_intact": {
      const why = `The run goes back to checkpoint ${from.sequence}: ${from.why}.`;
      return [{ kind: "go_back", sequence: from.sequence, reopens, why }];
    }
    case "chosen": {
      const why = `The run goes back to checkpoint ${from.sequence}, as chosen${reopens ? ", and continues" : ""}.`;
      return [{ kind: "go_back", sequence: from.sequence, reopens, why }];
    }
  }
}

function judge(
  finding: Finding,
  params: {
    readonly policy: FindingPolicy;
    readonly verdictOf?: (finding: Finding) => Verdict | null;
    readonly answers: Answers;
    readonly accepted: Accepted;
  },
): Judgement {
  if (wasAccepted(params.accepted, finding)) return { finding, verdict: "resume", decision: "accepted_before" };
  const stated = params.verdictOf?.(finding) ?? params.policy[finding.kind];
  const verdict = finding.conflict === true && stated !== "refuse" ? "ask" : stated;
  const answer = params.answers[finding.kind];
  if (verdict === "refuse") return { finding, verdict, decision: "open" };
  if (answer === "put_back" && finding.kind === "files_changed") return { finding, verdict: "warn", decision: answer };
  if (answer === "accept") return { finding, verdict: verdict === "ask" ? "warn" : verdict, decision: "accepted" };
  return { finding, verdict, decision: verdict === "ask" ? "open" : "by_policy" };
}

/**
 * A merge closes the issue, moves the base and may delete the branch. If the merge contains the work, none of these is a question; missing
 * work still is.
 */
function markMoot(judgements: readonly Judgement[]): readonly Judgement[] {
  const merged = judgements.find(({ finding }) => finding.kind === "pull_request_merged");
  if (merged === undefined || merged.verdict === "ask" || merged.verdict === "refuse") return judgements;
  return judgements.map((one) => {
    const matters = one.finding.kind === "work_not_merged" || one.verdict !== "ask";
    return matters ? one : { ...one, verdict: "warn", decision: "moot" };
  });
}

function inOrder(findings: readonly Finding[]): readonly Finding[] {
  const keyed = findings.map((finding) => ({ finding, text: canonicalJson([finding.actual, finding.expected]) }));
  const place = (kind: FindingKind): number => FINDING_KINDS.indexOf(kind);
  return keyed
    .toSorted(
      (a, b) => place(a.finding.kind) - place(b.finding.kind) || (a.text < b.text ? -1 : a.text > b.text ? 1 : 0),
    )
    .map(({ finding }) => finding);
}

const FIX_BY_HAND = "Fix it, then resume again.";
const FIX: Readonly<Partial<Record<FindingKind, string>>> = {
  tree_missing: "Run `holdfast verify` to see what is whole, and fetch the missing objects from another clone.",
  issue_mismatch: "Start a run of its own for the other issue.",
};

/** The actions for findings that do not block the resume, in the order of execution. */
function actionsFor(judgements: readonly Judgement[]): readonly ResumeAction[] {
  const actions = judgements.flatMap(({ finding, decision }) => {
    if (decision === "accepted_before" || decision === "open") return [];
    return decision === "put_back" ? [PUT_BACK] : ACTIONS[finding.kind](finding);
  });
  const rank = (action: ResumeAction): number => ORDER.indexOf(action.kind);
  return joinIssue(actions).toSorted((a, b) => rank(a) - rank(b));
}

/**
 * First make external state safe, then the worktree, then the run's position. Files are restored last, when a checkpoint holds the current
 * ones.
 */
const ORDER: readonly ResumeAction["kind"][] = [
  "keep_tips",
  "quarantine",
  "recreate_branch",
  "recreate_worktree",
  "refresh_worktree",
  "finish_restore",
  "go_back",
  "take_issue",
  "move_stage",
  "change_values",
  "take_settings",
  "take_files",
  "remember",
  "put_files_back",
  "finish",
  "go_on",
];

const PUT_BACK: ResumeAction = {
  kind: "put_files_back",
  why: "The files are put back to the checkpoint; those that are there now are kept in a checkpoint of their own.",
};

type ActionsOf = (finding: Finding) => readonly ResumeAction[];

/** The record is total, so a new kind of finding cannot be forgotten. */
const ACTIONS: Readonly<Record<FindingKind, ActionsOf>> = {
  issue_title_changed: (finding) => takeIssue(finding),
  issue_body_changed: (finding) => takeIssue(finding),
  issue_labels_changed: (finding) => takeIssue(finding),
  issue_comments_changed: (finding) => takeIssue(finding),
  issue_closed: (finding) => takeIssue(finding),
  issue_reopened: (finding) => takeIssue(finding),
  issue_missing: (finding) => [remember(finding, "The run continues with the saved text of the issue.")],
  issue_mismatch: () => [],
  base_moved: (finding) => [
    remember(finding, "The run continues on its old base. It rebases only if its pull request needs that."),
  ],
  head_moved: () => [takeFiles("The run continues on top of the current commits.")],
  branch_missing: (finding) => recreateBranch(finding),
  branch_switched: () => [takeFiles("The run continues on the branch that the worktree has now.")],
  branch_diverged: (finding) => [
    ...keepTips(finding, "Both ends of the branch are kept under refs/holdfast/, whichever of them wins."),
    remember(
      finding,
      "The run continues with its own commits; its next push replaces the ones that it has seen on the remote.",
    ),
  ],
  remote_branch_missing: (finding) => [remember(finding, "The run pushes the branch again when it needs it.")],
  worktree_missing: () => [
    { kind: "recreate_worktree", why: "The worktree is created with the files of the newest checkpoint." },
  ],
  worktree_moved: () => [takeFiles("The run continues in the moved worktree.")],
  worktree_outdated: () => [
    {
      kind: "refresh_worktree",
      why: "Branch and files are set to the newest checkpoint; what is there now is kept under refs/holdfast/.",
    },
  ],
  pull_request_merged: ({ actual }) =>
    isJsonObject(actual) && actual["own"] === true
      ? []
      : [{ kind: "finish", why: "The pull request was merged, so there is nothing left to do." }],
  work_not_merged: (finding) => [
    ...keepTips(finding, "Commits that the pull request lacks are kept under refs/holdfast/."),
    remember(finding, "The pull request counts as it was merged."),
  ],
  pull_request_closed: (finding) => [
    remember(
      finding,
      "The run continues; if it needs a pull request and this one is still closed, it opens another one.",
    ),
  ],
  files_changed: () => [takeFiles("The files are kept as they are now; the checkpoint's are still in the checkpoint.")],
  tree_missing: () => [],
  store_damaged: (finding) => quarantine(finding),
  journal_damaged: (finding) => [
    remember(finding, "The run continues from its newest intact checkpoint and the entries as they are now."),
  ],
  workflow_changed: () => [takeSettings("The run continues with the current definition of the workflow.")],
  model_changed: () => [takeSettings("The run continues with the agent and model that are set now.")],
  tools_changed: () => [takeSettings("The run continues with the tools that are set now.")],
  effect_in_flight: () => [continueAnyway("It is looked up where it happens before anything is done again.")],
  restore_unfinished: () => [{ kind: "finish_restore", why: "The restore that did not finish is finished first." }],
  process_left: (finding) => [remember(finding, "The run continues beside the process, which is not ended.")],
  worktree_in_use: () => [continueAnyway("These processes are not ended.")],
  forge_unreachable: () => [
    continueAnyway("The run continues without knowing whether the issue or the pull request changed."),
  ],
  remote_unreachable: () => [
    continueAnyway("The remote is queried again before a push, which checks what it expects there."),
  ],
};

function remember(finding: Finding, why: string): ResumeAction {
  return { kind: "remember", finding: finding.kind, actual: finding.actual, why };
}

function takeFiles(why: string): ResumeAction {
  return { kind: "take_files", why };
}

function takeSettings(why: string): ResumeAction {
  return { kind: "take_settings", why };
}

function continueAnyway(why: string): ResumeAction {
  return { kind: "go_on", why };
}

function recreateBranch({ expected }: Finding): readonly ResumeAction[] {
  const [branch, commit] = [field(expected, "branch"), field(expected, "head")];
  if (typeof branch !== "string" || typeof commit !== "string") return [];
  return [{ kind: "recreate_branch", branch, commit, why: `The branch is created at ${commit}.` }];
}

function keepTips({ expected, actual }: Finding, why: string): readonly ResumeAction[] {
  const commits = [field(expected, "head"), field(actual, "commit")].filter((one) => typeof one === "string");
  return commits.length === 0 ? [] : [{ kind: "keep_tips", commits, why }];
}

function quarantine({ expected }: Finding): readonly ResumeAction[] {
  const sequence = field(expected, "sequence");
  if (typeof sequence !== "number") return [];
  return [
    { kind: "quarantine", sequence, why: `Checkpoint ${sequence} is quarantined, so that no run resumes from it.` },
  ];
}

function takeIssue(finding: Finding): readonly ResumeAction[] {
  const { actual, summary, diff } = finding;
  const feedback = diff === undefined ? `${summary}.` : `${summary}:\n${diff}`;
  const why = "The run works with the current issue from now on, and the next prompt contains the change.";
  const change = issueChange(finding.kind, actual);
  return change === null ? [] : [{ kind: "take_issue", change, feedback, why }];
}

function issueChange(kind: FindingKind, actual: Json): IssueChange | null {
  if (kind === "issue_title_changed" && typeof actual === "string") return { title: actual };
  if (kind === "issue_body_changed" && typeof actual === "string") return { body: actual };
  if (kind === "issue_labels_changed" && isJsonArray(actual))
    return { labels: actual.filter((one) => typeof one === "string") };
  if (kind === "issue_comments_changed") return areComments(actual) ? { comments: actual } : null;
  return actual === "open" || actual === "closed" ? { state: actual } : null;
}

function areComments(value: unknown): value is readonly IssueComment[] {
  return commentsShape(value) === null;
}

/** Title, body, labels and state are separate findings, but together they are one new issue. */
function joinIssue(actions: readonly ResumeAction[]): readonly ResumeAction[] {
  const rest: ResumeAction[] = [];
  let joined: Extract<ResumeAction, { kind: "take_issue" }> | undefined;
  for (const action of actions) {
    if (action.kind !== "take_issue") rest.push(action);
    else if (joined === undefined) joined = action;
    else {
      const feedback = `${joined.feedback}\n${action.feedback}`;
      joined = { ...joined, change: { ...joined.change, ...action.change }, feedback };
    }
  }
  return joined === undefined ? rest : [...rest, joined];
}

function field(value: Json, name: string): Json | undefined {
  return isJsonObject(value) ? value[name] : undefined;
}

/** Parses answers from a command line: `issue_body_changed`, or `files_changed=put_back`. Throws USAGE for anything else. */
export function parseAnswers(texts: readonly string[]): Answers {
  const answers: Partial<Record<FindingKind, Answer>> = {};
  for (const text of texts) {
    const [name = "", said = "accept"] = text.split("=");
    const kind = FINDING_KINDS.find((one) => one === name);
    if (kind === undefined) throw unknownKind(name);
    if (said !== "accept" && !(said === "put_back" && kind === "files_changed")) throw unknownAnswer(kind, said);
    answers[kind] = said;
  }
  return answers;
}

function unknownKind(name: string): HoldfastError {
  return usageError(`"${name}" is not a finding that could be accepted`, choiceHint(name, FINDING_KINDS));
}

function unknownAnswer(kind: FindingKind, said: string): HoldfastError {
  const hint = kind === "files_changed" ? "Use files_changed or files_changed=put_back." : `Use ${kind} alone.`;
  return usageError(`"${said}" is not an answer to ${kind}`, hint);
}

/** The planes after the current world is accepted: the next resume compares with these. */
export function acceptFindings(params: {
  readonly planes: Planes;
  readonly actions: readonly ResumeAction[];
  readonly current: Setting;
}): Planes {
  return params.actions.reduce((planes, action) => adopt(planes, action, params.current), params.planes);
}

function adopt(planes: Planes, action: ResumeAction, current: Setting): Planes {
  switch (action.kind) {
    case "take_issue":
      return addFeedback(changeIssue(planes, action.change), action.feedback);
    case "move_stage":
      return { ...planes, position: movedTo(planes.position, action) };
    case "change_values":
      return { ...planes, context: { ...planes.context, values: { ...planes.context.values, ...action.values } } };
    case "take_settings":
      return {
        ...planes,
        position: { ...planes.position, definition: current.definition },
        config: current.config,
      };
    case "remember": {
      const extensions = withAccepted(planes.extensions, { kind: action.finding, actual: action.actual });
      const commit = isJsonObject(action.actual) ? action.actual["commit"] : undefined;
      const remote = action.finding === "branch_diverged" && typeof commit === "string" ? commit : null;
      return { ...(remote === null ? planes : withPushed(planes, remote)), extensions };
    }
    case "keep_tips":
    case "quarantine":
    case "recreate_branch":
    case "recreate_worktree":
    case "refresh_worktree":
    case "finish_restore":
    case "go_back":
    case "take_files":
    case "put_files_back":
    case "finish":
    case "go_on":
      return planes;
  }
}

function movedTo(position: Position, to: Extract<ResumeAction, { readonly kind: "move_stage" }>): Position {
  const { stage, why, iteration = position.iteration } = to;
  return { ...position, stage, iteration, reason: why, stageAttempt: nextAttempt(position.stageAttempt) };
}

function changeIssue(planes: Planes, change: IssueChange): Planes {
  const { issue } = reliedOn(planes);
  return issue === null ? planes : withIssue(planes, { ...issue, ...change });
}

/** Earlier feedback that no prompt has used yet comes first. */
function addFeedback(planes: Planes, text: string): Planes {
  const { feedback } = planes.position;
  const notice = `${ISSUE_NEWS}\n${text}`;
  const both = feedback === null || feedback === "" ? notice : `${feedback}\n\n${notice}`;
  return { ...planes, position: { ...planes.position, feedback: both } };
}

const ISSUE_NEWS = "The issue was changed after the work began; its new text counts.";

/** The part of the feedback that says how the issue changed; null: there is none. A stage without a prompt for it must pass it on. */
export function issueNewsIn(feedback: string | null): string | null {
  const at = feedback?.indexOf(ISSUE_NEWS) ?? -1;
  return feedback === null || at === -1 ? null : feedback.slice(at);
}
