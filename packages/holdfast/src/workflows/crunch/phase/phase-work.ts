import type { GraphPhase } from "../../../core/crunch/graph-template.ts";
import type { Team } from "../../../core/crunch/team.ts";
import type { Trigger } from "../../../core/checkpoint/trigger.ts";
import type { Aside } from "../../../engine/stage-context.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";

/** What everything in a phase's graph works with. */
export interface PhaseWork {
  readonly work: CrunchWork;
  readonly context: CrunchContext;
  readonly phase: GraphPhase;
  readonly team: Team;
  /** Open ones of this process, by name. */
  readonly asides: Map<string, Aside>;
}

/** Names of what a node's try or a batch writes down. By them the engine knows what belongs to the graph. */
export type Naming = (part: string) => string;

const NAME_CHARACTERS = 200;

/** On top of the engine's own safety points, where the user has not switched it off. */
export async function takeCheckpoint({ work, context }: PhaseWork, trigger: Trigger, name: string): Promise<void> {
  const triggers = await work.parts.crunchTriggers();
  if (!triggers[trigger].taken) return;
  await context.checkpoint({ trigger, name: name.replaceAll(/\s+/g, " ").slice(0, NAME_CHARACTERS).toWellFormed() });
}
