import type { Trigger } from "../../core/checkpoint/trigger.ts";

/** The published six, and four that the format's own life cycle names and its schema forgot. */
export const OWN_TRIGGER = {
  manual: "manual",
  automatic: "automatic",
  phase_boundary: "stage",
  iteration: "iteration",
  pre_risky_op: "before_risky",
  error_recovery: "error_recovery",
  phase_start: "stage",
  artifact_complete: "artifact_complete",
  before_external_call: "before_risky",
  iteration_boundary: "iteration",
} as const satisfies Readonly<Record<string, Trigger>>;

export type ForeignTrigger = keyof typeof OWN_TRIGGER;
export type PublishedTrigger = (typeof PUBLISHED)[number];

const PUBLISHED = [
  "manual",
  "automatic",
  "phase_boundary",
  "iteration",
  "pre_risky_op",
  "error_recovery",
] as const satisfies readonly ForeignTrigger[];

/** Where one of the six says nearly as much. */
const NEAREST: Readonly<Partial<Record<Trigger, PublishedTrigger>>> = {
  before_external: "pre_risky_op",
  before_restore: "pre_risky_op",
  restore: "error_recovery",
};

export function isPublishedTrigger(word: string): boolean {
  return PUBLISHED.some((one) => one === word);
}

/** Only published words are written; what has none was taken by the system itself, and the loss is named. */
export function foreignTrigger(trigger: Trigger): PublishedTrigger {
  return PUBLISHED.find((word) => OWN_TRIGGER[word] === trigger) ?? NEAREST[trigger] ?? "automatic";
}
