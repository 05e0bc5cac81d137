import type { Finding, Freshness, RecordedRun, Verdict } from "@holdfast/core/findings";
import { type Json, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";

/** Where an issue stands, in crunch's own words. "input" is an issue that carries no state label yet. */
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

/** What may follow what. Absent pairs are refused; `e2e → implementing` is the way back after a failure. */
export const PHASE_TRANSITIONS: Readonly<Record<Phase, readonly Phase[]>> = {
  input: ["backlog"],
  backlog: ["enrich", "ready", "done"],
  enrich: ["ready", "done"],
  ready: ["implementing"],
  implementing: ["e2e"],
  e2e: ["docs", "implementing"],
  docs: ["ready-to-merge"],
  "ready-to-merge": ["done"],
  done: [],
};

/** "validation" is what e2e was called before; every reader takes both, every writer says e2e. */
export function parsePhase(word: string): Phase | null {
  const plain = word.trim().toLowerCase();
  if (plain === "validation") return "e2e";
  return PHASES.find((phase) => phase === plain) ?? null;
}

export function mayMove(from: Phase, to: Phase): boolean {
  return PHASE_TRANSITIONS[from].includes(to);
}

/** Has a run in `phase` come as far as `target`, so that it stops there? */
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
  /** `label` is null for an issue without a state label, which is at the input. */
  | { readonly kind: "phase"; readonly phase: Phase; readonly label: string | null }
  /** The labels contradict each other: only a person can tell which one is right. */
  | { readonly kind: "several"; readonly phases: readonly Phase[]; readonly labels: readonly string[] };

/** Which phase the labels say. The old and the new word for e2e side by side are one phase, not a contradiction. */
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
 * The same labels with exactly one state label (none for input), in the place of the first one that was there. Whatever is
 * no state label of crunch's stays as it is, also `state:blocked`, which is somebody else's.
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

/** Labels have no order, and GitHub does not tell upper case from lower. */
export function sameLabels(one: readonly string[], other: readonly string[]): boolean {
  const left = new Set(one.map((label) => label.toLowerCase()));
  const right = new Set(other.map((label) => label.toLowerCase()));
  return left.size === right.size && [...left].every((label) => right.has(label));
}

/** The first type label; an issue without one has none. */
export function typeOfLabels(labels: readonly string[]): IssueType | null {
  return valuesOf(labels, "type", ISSUE_TYPES)[0] ?? null;
}

/** In the order of DOMAINS, each once. */
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
  // No label says "input": its absence does.
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

/** What somebody made of the state label. `follows`: where a resumed run goes on; null: only a person can tell. */
export type MovedLabel = { readonly says: string; readonly follows: Phase | null };

/**
 * Has somebody moved the state label since the run itself set it last? null: nobody has, or it says already what the run is about to make it say. What
 * a person was asked about when the run was last taken up (`agreed`) is not asked about again.
 */
export function movedLabel(params: {
  readonly now: readonly string[];
  /** As the run itself left them, and as a forge that is slow to tell may still show them; none: it has set none yet. */
  readonly own: readonly (readonly string[])[];
  readonly entering: Phase;
  readonly agreed: readonly string[] | null;
}): MovedLabel | null {
  const { now, own, agreed, entering } = params;
  if (own.length === 0) return null;
  const said = phasesOf(now);
  const known = [...own, ...(agreed === null ? [] : [agreed])].map(phasesOf);
  if (known.includes(said) || said === entering) return null;
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
 * The labels of an issue are the source of truth about its phase. The run follows a state label that a person moved, with a warning, and never
 * writes the old one back. What cannot be followed is asked about: several state labels at once, an issue that was put back to where no run works.
 * Files that somebody changed are shown and asked about.
 */
export const crunchFreshness: Freshness = {
  isOwn: (finding, standing) =>
    awaitsMerge(finding, standing) ||
    (finding.kind === "issue_labels_changed" &&
      ownPhases(standing).some((phase) =>
        sameLabels(textsOf(finding.actual), replaceStateLabel(textsOf(finding.expected), phase)),
      )),
  judge: (finding) => {
    if (finding.kind === "files_changed") return "ask";
    return finding.kind === "issue_labels_changed" ? judgeLabels(finding) : null;
  },
  relocate(labels, standing) {
    const labelled = phaseOfLabels(labels);
    if (labelled.kind === "several" || labelled.label === null) return null;
    const { phase, label } = labelled;
    if (!CARRIED.has(phase) || ownPhases(standing).includes(phase)) return null;
    const stage = parsePhase(standing.position.stage);
    // Before the issue was read there is nothing to go on with; the first stage goes by the label itself.
    if (stage === null || (standing.values["base"] ?? null) === null) return null;
    return { stage: phase, why: `The issue's label says ${label}, and the run stood at ${stage}: it goes on there.` };
  },
};

/** What a run waits for at its last phase, and what comes with it, is no surprise: the stage sees it and concludes, which ends the run with its label. */
function awaitsMerge(finding: Finding, { position, values }: RecordedRun): boolean {
  const opened = isJsonObject(values["pullRequest"]);
  return AWAITED.has(finding.kind) && position.stage === "ready-to-merge" && opened;
}

const AWAITED: ReadonlySet<Finding["kind"]> = new Set<Finding["kind"]>(["pull_request_merged", "issue_closed"]);

/** Phases that a run works in, or ends at. */
const CARRIED: ReadonlySet<Phase> = new Set<Phase>([
  "enrich",
  "ready",
  "implementing",
  "e2e",
  "docs",
  "ready-to-merge",
  "done",
]);

/**
 * State labels that the run itself may have set last: that of the phase it entered last, and that of the one it stands at, whose label is set
 * before the entering is written down.
 */
function ownPhases({ position, values }: RecordedRun): readonly Phase[] {
  const stays = values["phases"];
  const last = isJsonArray(stays) ? stays.at(-1) : undefined;
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

/** `{fix|feature}/issue-{n}-{slug}`: ASCII, lower case, words whole where they fit. A title without one is called "task". */
export function branchName(issue: {
  readonly number: number;
  readonly title: string;
  readonly labels: readonly string[];
}): string {
  if (!Number.isSafeInteger(issue.number) || issue.number < 1) {
    throw new HoldfastError({
      code: "USAGE",
      message: `An issue number is a whole number from 1, not ${issue.number}`,
    });
  }
  const kind = typeOfLabels(issue.labels) === "bug" ? "fix" : "feature";
  return `${kind}/issue-${issue.number}-${slug(issue.title)}`;
}

/** With the longest number the name stays well below the 255 bytes of a file's name, which a ref is. */
const MAX_SLUG = 40;

function slug(title: string): string {
  const words = title
    // Bounds the work on a pasted novel; only the first words are used anyway.
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
