// Crunch's phases: the state labels that represent them, how a resume treats moved labels, and branch names.

import type { Finding, Freshness, RecordedRun, Verdict } from "@holdfast/core/findings";
import { type Json, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { usageError } from "@holdfast/platform/error";

/** The phases of an issue in crunch's terms. "input" is an issue without a state label. */
export const PHASES = [
  "input",
  "backlog",
  "enrich",
  "ready",
  "implementing",
  "e2e",
  "docs",
  "ready-to-merge",
  "done",
] as const;

export type Phase = (typeof PHASES)[number];

/** "validation" is the former name of e2e: every reader accepts both, every writer writes e2e. */
export function parsePhase(word: string): Phase | null {
  const plain = word.trim().toLowerCase();
  if (plain === "validation") return "e2e";
  return PHASES.find((phase) => phase === plain) ?? null;
}

/** Whether a run in `phase` has reached `target` and must stop. */
export function isAtOrPast(phase: Phase, target: Phase): boolean {
  return PHASES.indexOf(phase) >= PHASES.indexOf(target);
}

export const DOMAINS = [
  "security",
  "infra",
  "performance",
  "api",
  "database",
  "frontend",
  "python",
  "cpp",
  "go",
] as const;
export type Domain = (typeof DOMAINS)[number];

export const ISSUE_TYPES = ["bug", "feature", "decomposition"] as const;
type IssueType = (typeof ISSUE_TYPES)[number];

type LabelledPhase =
  /** `label` is null for an issue without a state label, which is in phase input. */
  | { readonly kind: "phase"; readonly phase: Phase; readonly label: string | null }
  /** The labels contradict each other, and only the user knows which one is right. */
  | { readonly kind: "several"; readonly phases: readonly Phase[]; readonly labels: readonly string[] };

/** Reads the phase from the labels. The old and the new name of e2e together are one phase, not a contradiction. */
export function phaseOfLabels(labels: readonly string[]): LabelledPhase {
  const found = labels.flatMap((label) => {
    const phase = stateOf(label);
    return phase === null ? [] : [{ label, phase }];
  });
  const phases = PHASES.filter((phase) => found.some((one) => one.phase === phase));
  const [phase] = phases;
  if (phase === undefined) return { kind: "phase", phase: "input", label: null };
  if (phases.length > 1) return { kind: "several", phases, labels: found.map((one) => one.label) };
  return { kind: "phase", phase, label: found[0]?.label ?? null };
}

/**
 * Returns the labels with exactly one state label (none for input), at the position of the first one. Labels that are
 * not crunch's state labels remain, including other tools' such as `state:blocked`.
 */
export function replaceStateLabel(labels: readonly string[], phase: Phase): readonly string[] {
  const wanted = stateLabel(phase);
  const at = labels.findIndex((label) => stateOf(label) !== null);
  const before = labels.slice(0, at === -1 ? labels.length : at);
  const after = labels.slice(before.length).filter((label) => stateOf(label) === null);
  return wanted === null ? [...before, ...after] : [...before, wanted, ...after];
}

export function stateLabel(phase: Phase): string | null {
  return phase === "input" ? null : `state:${phase}`;
}

/** Labels have no order, and GitHub ignores their case. */
export function sameLabels(one: readonly string[], other: readonly string[]): boolean {
  const left = new Set(one.map((label) => label.toLowerCase()));
  const right = new Set(other.map((label) => label.toLowerCase()));
  return left.size === right.size && [...left].every((label) => right.has(label));
}

/** The first type label; null if there is none. */
export function typeOfLabels(labels: readonly string[]): IssueType | null {
  return valuesOf(labels, "type", ISSUE_TYPES)[0] ?? null;
}

/** Domains of the labels in the order of DOMAINS, each once. */
export function domainsOfLabels(labels: readonly string[]): readonly Domain[] {
  const found = valuesOf(labels, "domain", DOMAINS);
  return DOMAINS.filter((domain) => found.includes(domain));
}

export function hasLabel(labels: readonly string[], name: string): boolean {
  return labels.some((label) => label.toLowerCase() === name);
}

function stateOf(label: string): Phase | null {
  const value = valueOf(label, "state");
  const phase = value === null ? null : parsePhase(value);
  // A missing state label means "input"; no label has that name.
  return phase === "input" ? null : phase;
}

function valuesOf<T extends string>(labels: readonly string[], prefix: string, known: readonly T[]): readonly T[] {
  return labels.flatMap((label) => {
    const value = valueOf(label, prefix);
    const found = known.find((one) => one === value);
    return found === undefined ? [] : [found];
  });
}

function valueOf(label: string, prefix: string): string | null {
  const lower = label.toLowerCase();
  return lower.startsWith(`${prefix}:`) ? lower.slice(prefix.length + 1) : null;
}

/**
 * A state label that was moved. `follows`: the phase in which a resumed run continues; null if only the user can
 * decide.
 */
export type MovedLabel = { readonly says: string; readonly follows: Phase | null };

/**
 * Detects whether a user moved the state label since the run last set it. Returns null if not, or if the label already
 * names the phase that the run enters. Labels that the last resume asked about (`agreed`) do not count as moved.
 */
export function movedLabel(params: {
  readonly now: readonly string[];
  /** The labels as the run itself left them, and as a stale forge may still show them. Empty: the run has set none. */
  readonly own: readonly (readonly string[])[];
  readonly entering: Phase;
  readonly agreed: readonly string[] | null;
}): MovedLabel | null {
  const { now, own, agreed, entering } = params;
  if (own.length === 0) return null;
  const current = phasesOf(now);
  const known = [...own, ...(agreed === null ? [] : [agreed])].map(phasesOf);
  if (known.includes(current) || current === entering) return null;
  const labelled = phaseOfLabels(now);
  if (labelled.kind === "several") return { says: labelled.labels.join(" and "), follows: null };
  if (labelled.label === null) return { says: "no state label", follows: null };
  return { says: labelled.label, follows: labelled.phase === "backlog" ? null : labelled.phase };
}

function phasesOf(labels: readonly string[]): string {
  const labelled = phaseOfLabels(labels);
  return labelled.kind === "several" ? labelled.phases.join() : labelled.phase;
}

/**
 * The labels of an issue are the source of truth for its phase. The run follows a moved state label with a warning and
 * never writes the old one back. It asks about labels it cannot follow: several state labels, or a phase in which no
 * run works. Changed files are listed and asked about.
 */
export const crunchFreshness: Freshness = {
  isOwn: (finding, recorded) =>
    awaitsMerge(finding, recorded) ||
    // The first phase compares the branch with the remote, and takes or asks about what is there.
    (finding.kind === "branch_diverged" && recorded.values["adopted"] === true) ||
    (finding.kind === "issue_labels_changed" &&
      ownPhases(recorded).some((phase) =>
        sameLabels(textsOf(finding.actual), replaceStateLabel(textsOf(finding.expected), phase)),
      )),
  judge: (finding) => {
    if (finding.kind === "files_changed") return "ask";
    return finding.kind === "issue_labels_changed" ? judgeLabels(finding) : null;
  },
  relocate(labels, recorded) {
    const labelled = phaseOfLabels(labels);
    if (labelled.kind === "several" || labelled.label === null) return null;
    const { phase, label } = labelled;
    if (!CARRIED.has(phase) || ownPhases(recorded).includes(phase)) return null;
    const stage = parsePhase(recorded.position.stage);
    // Before the issue is read there is nothing to relocate; the first stage reads the label itself.
    if (stage === null || (recorded.values["base"] ?? null) === null) return null;
    return {
      stage: phase,
      why: `The issue's label is ${label}, and the run was at ${stage}: it continues at the label.`,
    };
  },
};

/**
 * A run in its last phase expects the merge and the closed issue. The stage handles them and ends the run with its
 * label.
 */
function awaitsMerge(finding: Finding, { position, values }: RecordedRun): boolean {
  const opened = isJsonObject(values["pullRequest"]);
  return AWAITED.has(finding.kind) && position.stage === "ready-to-merge" && opened;
}

const AWAITED: ReadonlySet<Finding["kind"]> = new Set<Finding["kind"]>(["pull_request_merged", "issue_closed"]);

/** Phases that a run executes or ends in. */
const CARRIED: ReadonlySet<Phase> = new Set(PHASES.slice(PHASES.indexOf("enrich")));

/**
 * State labels that the run may have set last: those of the newest entered phase and of its present stage. The label of
 * a stage is set before its entry is recorded.
 */
function ownPhases({ position, values }: RecordedRun): readonly Phase[] {
  const attempts = values["phases"];
  const last = isJsonArray(attempts) ? attempts.at(-1) : undefined;
  const entered = isJsonObject(last) && typeof last["phase"] === "string" ? parsePhase(last["phase"]) : null;
  return [parsePhase(position.stage), entered].filter((phase) => phase !== null);
}

function judgeLabels(finding: Finding): Verdict {
  const labelled = phaseOfLabels(textsOf(finding.actual));
  if (labelled.kind === "several") return "ask";
  const before = phaseOfLabels(textsOf(finding.expected));
  const moved = before.kind === "several" || before.phase !== labelled.phase;
  return moved && !CARRIED.has(labelled.phase) ? "ask" : "warn";
}

function textsOf(value: Json): readonly string[] {
  return isJsonArray(value) ? value.filter((one) => typeof one === "string") : [];
}

/**
 * Builds `{fix|feature}/issue-{n}-{slug}`: ASCII, lower case, whole words where they fit. A title without usable words
 * becomes "task".
 */
export function branchName(issue: {
  readonly number: number;
  readonly title: string;
  readonly labels: readonly string[];
}): string {
  if (!Number.isSafeInteger(issue.number) || issue.number < 1) {
    throw usageError(`An issue number is a whole number from 1, not ${issue.number}`);
  }
  const kind = typeOfLabels(issue.labels) === "bug" ? "fix" : "feature";
  return `${kind}/issue-${issue.number}-${slug(issue.title)}`;
}

/**
 * Keeps the name, with the longest number, well below the 255 bytes of a file name, because git stores a ref as a file.
 */
const MAX_SLUG = 40;

function slug(title: string): string {
  const words = title
    // Bounds the work for a very long title; only the first words are used.
    .slice(0, MAX_SLUG * 10)
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
  let result = "";
  for (const word of words) {
    const longer = result === "" ? word.slice(0, MAX_SLUG) : `${result}-${word}`;
    if (longer.length > MAX_SLUG) break;
    result = longer;
  }
  return result === "" ? "task" : result;
}
