import type { ExecutionConfig } from "../../core/checkpoint/checkpoint.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { randomSeed } from "../../system/ids.ts";
import type { StartParams } from "./start-params.ts";

/** A run with a seed is a seeded one; one that is to be seeded gets a seed, which it keeps. */
export function chosenSeed(params: Pick<StartParams, "mode" | "seed">): {
  readonly mode: ExecutionConfig["mode"];
  readonly seed: number | null;
} {
  const { mode = params.seed === undefined ? "default" : "seeded", seed } = params;
  return { mode, seed: seed ?? (mode === "seeded" ? randomSeed() : null) };
}

/** Said at once: whoever believes that a seed is heeded would blame something else. */
export function seedNotice(parts: WorkParts, { agent, seed }: ExecutionConfig): string | null {
  if (seed === null || agent === null || parts.agent(agent).capabilities.seed === true) return null;
  return `Seed ${seed} is kept with the run, but ${agent} has no way to take one: its answers may differ each time`;
}
