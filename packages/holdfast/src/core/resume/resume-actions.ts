import type { Finding, FindingKind } from "./finding.ts";
import { isJsonArray, isJsonObject } from "../json.ts";
import type { Json } from "../json.ts";
import type { IssueChange, Judgement, ResumeAction } from "./resume.ts";

/** What is done about findings that do not stand in the way, in the order in which it has to be done. */
export function actionsFor(judgements: readonly Judgement[]): readonly ResumeAction[] {
  const actions = judgements.flatMap(({ finding, decision }) => {
    if (decision === "accepted_before" || decision === "open") return [];
    return decision === "put_back" ? [PUT_BACK] : ACTIONS[finding.kind](finding);
  });
  const rank = (action: ResumeAction): number => ORDER.indexOf(action.kind);
  return joinIssue(actions).toSorted((a, b) => rank(a) - rank(b));
}

/**
 * What exists outside of us is made safe first, then the place to work in, then where the run stands. Files are put back last,
 * when a checkpoint holds those that are there.
 */
const ORDER: readonly ResumeAction["kind"][] = [
  "keep_tips",
  "quarantine",
  "recreate_branch",
  "recreate_worktree",
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

/** Total: a new kind of finding cannot be forgotten. */
const ACTIONS: Readonly<Record<FindingKind, ActionsOf>> = {
  issue_title_changed: (finding) => takeIssue(finding),
  issue_body_changed: (finding) => takeIssue(finding),
  issue_labels_changed: (finding) => takeIssue(finding),
  issue_closed: (finding) => takeIssue(finding),
  issue_reopened: (finding) => takeIssue(finding),
  issue_missing: (finding) => [remember(finding, "The run goes on with the issue's text as it was saved.")],
  issue_mismatch: () => [],
  base_moved: (finding) => [
    remember(finding, "The run goes on from where it branched off; a rebase comes when the pull request needs one."),
  ],
  head_moved: () => [takeFiles("The run goes on on top of the commits that are there now.")],
  branch_missing: (finding) => recreateBranch(finding),
  branch_switched: () => [takeFiles("The run goes on on what the worktree stands on now.")],
  branch_diverged: (finding) => [
    ...keepTips(finding, "Both ends of the branch are kept under refs/holdfast/, whichever of them wins."),
    remember(
      finding,
      "The run goes on with its own commits; its next push replaces those that it has seen on the remote.",
    ),
  ],
  remote_branch_missing: (finding) => [remember(finding, "The branch is pushed again when the run comes to it.")],
  worktree_missing: () => [
    { kind: "recreate_worktree", why: "The worktree is made again with the files of the newest checkpoint." },
  ],
  worktree_moved: () => [takeFiles("The run goes on where its worktree is now.")],
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
      "The run goes on; where it needs a pull request and that one is closed still, it opens another one.",
    ),
  ],
  files_changed: () => [takeFiles("The files are kept as they are now; the checkpoint's are still in the checkpoint.")],
  tree_missing: () => [],
  store_damaged: (finding) => quarantine(finding),
  journal_damaged: (finding) => [
    remember(finding, "The run goes on by its newest whole checkpoint and the entries as they read now."),
  ],
  workflow_changed: () => [takeSettings("The run goes on with the workflow as it is defined now.")],
  model_changed: () => [takeSettings("The run goes on with the agent and model that are set now.")],
  tools_changed: () => [takeSettings("The run goes on with the tools that are set now.")],
  effect_unknown: (finding) => [remember(finding, "The run goes on; the effect is looked up before it is done again.")],
  effect_in_flight: () => [goOn("It is looked up where it happens before anything is done again.")],
  restore_unfinished: () => [{ kind: "finish_restore", why: "The restore that did not finish is finished first." }],
  lease_held: () => [],
  forge_unreachable: () => [goOn("The run goes on without knowing whether the issue or the pull request changed.")],
  remote_unreachable: () => [goOn("The remote is asked again before a push, which carries what it expects there.")],
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

function goOn(why: string): ResumeAction {
  return { kind: "go_on", why };
}

function recreateBranch({ expected }: Finding): readonly ResumeAction[] {
  const [branch, commit] = [field(expected, "branch"), field(expected, "head")];
  if (typeof branch !== "string" || typeof commit !== "string") return [];
  return [{ kind: "recreate_branch", branch, commit, why: `The branch is made again where it stood, at ${commit}.` }];
}

function keepTips({ expected, actual }: Finding, why: string): readonly ResumeAction[] {
  const commits = [field(expected, "head"), field(actual, "commit")].filter((one) => typeof one === "string");
  return commits.length === 0 ? [] : [{ kind: "keep_tips", commits, why }];
}

function quarantine({ expected }: Finding): readonly ResumeAction[] {
  const sequence = field(expected, "sequence");
  if (typeof sequence !== "number") return [];
  return [
    { kind: "quarantine", sequence, why: `Checkpoint ${sequence} is set aside, so that nothing resumes from it.` },
  ];
}

function takeIssue(finding: Finding): readonly ResumeAction[] {
  const { actual, summary, diff } = finding;
  const feedback = diff === undefined ? `${summary}.` : `${summary}:\n${diff}`;
  const why = "The issue as it is now is the run's order from here on, and the next prompt is told what changed.";
  const change = issueChange(finding.kind, actual);
  return change === null ? [] : [{ kind: "take_issue", change, feedback, why }];
}

function issueChange(kind: FindingKind, actual: Json): IssueChange | null {
  if (kind === "issue_title_changed" && typeof actual === "string") return { title: actual };
  if (kind === "issue_body_changed" && typeof actual === "string") return { body: actual };
  if (kind === "issue_labels_changed" && isJsonArray(actual))
    return { labels: actual.filter((one) => typeof one === "string") };
  return actual === "open" || actual === "closed" ? { state: actual } : null;
}

/** Title, body, labels and state are findings of their own and one new issue. */
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
