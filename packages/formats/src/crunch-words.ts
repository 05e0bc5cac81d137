// Crunch's own words for triggers and phases. A document has no others, so that crunch's readers know every one.

import { TRIGGERS, type Trigger } from "@holdfast/core/checkpoint";

const SEED_TRIGGERS = [
  "phase_transition",
  "batch_complete",
  "agent_complete",
  "conflict_start",
  "conflict_resolved",
  "user_interrupt",
  "session_end",
  "manual",
] as const;
type SeedTrigger = (typeof SEED_TRIGGERS)[number];

/** Crunch's word for each trigger. null: a safety point of Holdfast that crunch does not know. */
const SEED_TRIGGER: Readonly<Record<Trigger, SeedTrigger | null>> = {
  manual: "manual",
  automatic: null,
  stage: "phase_transition",
  iteration: "phase_transition",
  batch_complete: "batch_complete",
  agent_complete: "agent_complete",
  artifact_complete: null,
  conflict_start: "conflict_start",
  conflict_resolved: "conflict_resolved",
  before_risky: null,
  before_external: null,
  error_recovery: null,
  interrupt: "user_interrupt",
  session_end: "session_end",
  timer: null,
  before_restore: null,
  restore: "manual",
  fork: "manual",
  import: null,
};

/** A single document of a safety point says `manual`: the user asked for that document. */
export function triggerWord(trigger: Trigger): SeedTrigger {
  return SEED_TRIGGER[trigger] ?? "manual";
}

/** Whether crunch's directory can show such a checkpoint. An imported one has the trigger of its own document. */
export function isSeedTrigger(trigger: Trigger): boolean {
  return trigger === "import" || SEED_TRIGGER[trigger] !== null;
}

/** Also reads Holdfast's own words, which earlier versions wrote. */
const OUR_WORDS: ReadonlyMap<string, Trigger> = new Map([
  ...TRIGGERS.map((trigger) => [trigger, trigger] as const),
  ["phase_transition", "stage"] as const,
  ["user_interrupt", "interrupt"] as const,
  // Crunch's orchestrator saves before each batch.
  ["batch_start", "before_risky"] as const,
]);

/** Returns undefined for an unknown word. */
export function decodeTrigger(word: string): Trigger | undefined {
  return OUR_WORDS.get(word);
}

/** Crunch's documents have five phases. The state labels of an issue name the finer ones. */
const SEED_PHASE: Readonly<Record<string, string>> = {
  input: "enrich",
  backlog: "enrich",
  enrich: "enrich",
  ready: "ready",
  implementing: "implementing",
  validation: "validation",
  e2e: "validation",
  docs: "docs",
  "ready-to-merge": "docs",
  done: "docs",
};

export function isCrunchPhase(word: string): boolean {
  return Object.hasOwn(SEED_PHASE, word);
}

/** Crunch's phase for a stage. A stage of another workflow is work on the issue. */
export function phaseWord(stage: string): string {
  return (isCrunchPhase(stage) ? SEED_PHASE[stage] : undefined) ?? "implementing";
}

/** The state label of a stage. */
export function labelWord(stage: string): string {
  return `state:${isCrunchPhase(stage) ? stageOfPhase(stage) : phaseWord(stage)}`;
}

/** The stage of a document: its phase, or the finer one that its state label names. */
export function stageOfDocument(phase: string, label: string | null | undefined): string {
  const named = /^state:(.+)$/.exec(label ?? "")?.[1];
  if (named !== undefined && isCrunchPhase(named) && phaseWord(named) === phase) return stageOfPhase(named);
  return stageOfPhase(phase);
}

/** The phase e2e was formerly called validation. */
function stageOfPhase(phase: string): string {
  return phase === "validation" ? "e2e" : phase;
}
