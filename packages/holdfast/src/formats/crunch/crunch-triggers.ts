import { TRIGGERS } from "../../core/checkpoint/trigger.ts";
import type { Trigger } from "../../core/checkpoint/trigger.ts";

/** Where crunch has another word for it; the rest are ours and written as they are, for which crunch has no rule and keeps all. */
const CRUNCH_WORDS: Readonly<Partial<Record<Trigger, string>>> = {
  stage: "phase_transition",
  interrupt: "user_interrupt",
};

const OUR_WORDS: ReadonlyMap<string, Trigger> = new Map([
  ...TRIGGERS.map((trigger) => [trigger, trigger] as const),
  ...TRIGGERS.flatMap((trigger) => {
    const word = CRUNCH_WORDS[trigger];
    return word === undefined ? [] : [[word, trigger] as const];
  }),
  // Of its orchestrator, which saves before each batch.
  ["batch_start", "before_risky"] as const,
]);

export function triggerWord(trigger: Trigger): string {
  return CRUNCH_WORDS[trigger] ?? trigger;
}

/** Undefined for a word that nobody told us. */
export function parseTrigger(word: string): Trigger | undefined {
  return OUR_WORDS.get(word);
}
