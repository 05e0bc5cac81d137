import { PHASES, parsePhase } from "./phase.ts";
import type { Phase } from "./phase.ts";

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
export type IssueType = (typeof ISSUE_TYPES)[number];

export type LabelledPhase =
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
