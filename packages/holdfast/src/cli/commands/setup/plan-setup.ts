import type { ObservedForge } from "../../../app/observe-forge-login.ts";
import type { ObservedAgent } from "../../../app/observe-agents.ts";
import type { ConfigEdit } from "../../../config/edit-config.ts";
import type { WorkSettings } from "../../../config/work-settings.ts";
import type { GuessedGate } from "./guess-gate.ts";

/** What was found out about machine and repository. */
export interface Found {
  readonly agents: readonly ObservedAgent[];
  readonly forge: ObservedForge | null;
  readonly gate: GuessedGate | null;
  /** What is in force now; what the file already says is kept. */
  readonly now: Pick<WorkSettings, "agent" | "models" | "impl" | "forge">;
}

/** What was said by a flag, or as an answer; undefined: nothing was. */
export interface Chosen {
  readonly agent?: string | undefined;
  readonly implModel?: string | undefined;
  readonly reviewModel?: string | undefined;
  readonly forge?: WorkSettings["forge"]["kind"] | undefined;
  /** "none": no gate. */
  readonly gate?: string | undefined;
}

export interface SetupPlan {
  readonly agent: string | null;
  readonly gate: string | null;
  readonly forge: string;
  /** Only what would change. */
  readonly edits: readonly ConfigEdit[];
}

/** What is said goes before what the file says, and that before what was found. */
export function planSetup(found: Found, chosen: Chosen): SetupPlan {
  const { now } = found;
  const agent = chosen.agent ?? now.agent ?? readyAgents(found.agents)[0] ?? null;
  const gate = chosen.gate ?? now.impl.gate ?? found.gate?.command ?? null;
  const wanted: readonly (readonly [string, string | null | undefined, string | null])[] = [
    ["agent", agent, now.agent],
    ["models.impl", chosen.implModel, now.models.impl],
    ["models.review", chosen.reviewModel, now.models.review],
    ["forge.kind", chosen.forge, now.forge.kind],
    ["impl.gate", gate === "none" ? null : gate, now.impl.gate],
  ];
  const edits = wanted.flatMap(([key, value, before]) =>
    value === null || value === undefined || value === before ? [] : [{ key: key.split("."), value }],
  );
  return { agent, gate: gate === "none" ? now.impl.gate : gate, forge: chosen.forge ?? now.forge.kind, edits };
}

/** In the order in which they are offered. */
export function readyAgents(agents: readonly ObservedAgent[]): readonly string[] {
  return agents.filter(({ probe }) => probe.installed && probe.problem === null).map(({ name }) => name);
}
