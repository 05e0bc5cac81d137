import { TRIGGERS } from "../checkpoint/trigger.ts";
import type { Trigger } from "../checkpoint/trigger.ts";

/** What becomes of a trigger in a crunch run. */
export type TriggerUse = {
  /** Is a checkpoint taken for it? The engine's own safety points always are; crunch asks before it takes one of its own. */
  readonly taken: boolean;
  /** Is it shown in the directory that crunch's readers look into? */
  readonly shown: boolean;
};

/** Total: nobody has to guess what a trigger without a switch means. */
export type CrunchTriggers = Readonly<Record<Trigger, TriggerUse>>;

/** Switches of `checkpoint-config.yaml`, in our words. */
export type TriggerSwitches = {
  readonly enabled: boolean;
  /** false: nothing is saved unasked. */
  readonly automatic: boolean;
  readonly on: Readonly<Partial<Record<Trigger, boolean>>>;
};

export const DEFAULT_SWITCHES: TriggerSwitches = {
  enabled: true,
  automatic: true,
  on: { stage: true, batch_complete: true, agent_complete: false, conflict_start: true, conflict_resolved: true },
};

/** What crunch takes by itself, on top of the engine's safety points: these can be switched off altogether. */
const CRUNCH_TAKES: ReadonlySet<Trigger> = new Set<Trigger>([
  "batch_complete",
  "agent_complete",
  "conflict_start",
  "conflict_resolved",
]);

/** What a person asked for, and what ends a session: shown whenever anything is. */
const ASKED_FOR: ReadonlySet<Trigger> = new Set<Trigger>([
  "manual",
  "interrupt",
  "session_end",
  "before_restore",
  "restore",
  "fork",
  "import",
]);

export function crunchTriggers(switches: TriggerSwitches): CrunchTriggers {
  const use = (trigger: Trigger): TriggerUse => {
    const automatic = ASKED_FOR.has(trigger) || switches.automatic;
    const on = switches.enabled && automatic && (switches.on[trigger] ?? DEFAULT_SWITCHES.on[trigger] ?? true);
    return { taken: on || !CRUNCH_TAKES.has(trigger), shown: on };
  };
  // Every trigger is named, by the list that the type is made of.
  return Object.fromEntries(TRIGGERS.map((trigger) => [trigger, use(trigger)])) as CrunchTriggers;
}
