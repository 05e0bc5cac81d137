import type { ExecutionConfig, InputsPlane, IssueSnapshot } from "../checkpoint/checkpoint.ts";
import type { Digest, Json } from "../json.ts";
import { describeTextChange } from "../text-diff.ts";

/** One difference between the world and the snapshot. */
export interface Finding {
  readonly kind: FindingKind;
  readonly summary: string;
  readonly expected: Json;
  readonly actual: Json;
  /** Of a changed text: what was removed and added, line by line. */
  readonly diff?: string;
}

export const FINDING_KINDS = [
  "issue_title_changed",
  "issue_body_changed",
  "issue_labels_changed",
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
  "effect_unknown",
  "effect_in_flight",
  "restore_unfinished",
  "lease_held",
  "forge_unreachable",
  "remote_unreachable",
] as const;
export type FindingKind = (typeof FINDING_KINDS)[number];

/** In order of severity: the worst finding decides. */
export const VERDICTS = ["resume", "warn", "ask", "refuse"] as const;
export type Verdict = (typeof VERDICTS)[number];

/** Total: every kind has an answer, so a new kind cannot be forgotten. */
export type FindingPolicy = Readonly<Record<FindingKind, Verdict>>;

/**
 * What waits for a person and what does not. A changed text is a changed order, so it asks; what Holdfast can bring back
 * by itself (files, which a restore saves first, a worktree, a branch) warns; what leaves nothing to work on refuses. An effect
 * in flight warns, because it is looked up before anything is done again. So does a remote that does not answer: a push
 * carries what it expects there. A forge that does not answer asks, because nothing later would notice a changed order. So does a
 * journal that is not what was written: a damaged checkpoint has an older one before it, what a run goes by has nothing behind it.
 */
export const defaultFindingPolicy: FindingPolicy = {
  issue_title_changed: "warn",
  issue_body_changed: "ask",
  issue_labels_changed: "warn",
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
  effect_unknown: "ask",
  effect_in_flight: "warn",
  restore_unfinished: "warn",
  lease_held: "refuse",
  forge_unreachable: "ask",
  remote_unreachable: "warn",
};

/** The worst finding decides; without any it is "resume". */
export function worst(findings: readonly Finding[], policy: FindingPolicy): Verdict {
  const ranks = findings.map((finding) => VERDICTS.indexOf(policy[finding.kind]));
  return VERDICTS[Math.max(0, ...ranks)] ?? "refuse";
}

/** Every difference between what the run was given and what is there now. None hides another. */
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

/** What the run was carried out with, against what would carry it on. */
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
  if (saved.title !== current.title) {
    const summary = `The title of ${name} has changed`;
    findings.push({ kind: "issue_title_changed", summary, expected: saved.title, actual: current.title });
  }
  // A forge may hand out the same text with other line ends; that is no new order.
  if (unixLines(saved.body) !== unixLines(current.body)) {
    const summary = `The body of ${name} has changed`;
    const diff = describeTextChange({ before: saved.body, after: current.body });
    findings.push({ kind: "issue_body_changed", summary, expected: saved.body, actual: current.body, diff });
  }
  findings.push(...compareSets("issue_labels_changed", `Labels of ${name} have changed`, saved.labels, current.labels));
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

/** Order and repeats mean nothing to labels and tools. */
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

function unixLines(text: string): string {
  return text.replaceAll("\r\n", "\n");
}
