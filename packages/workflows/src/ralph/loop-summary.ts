// Summarises a loop's progress, quality and findings from one checkpoint, for display.

import type { Planes } from "@holdfast/core/checkpoint";
import { HoldfastError } from "@holdfast/platform/error";
import type { Iteration, LoopFinding } from "./iteration.ts";
import { type MemoryPolicy, type RalphOptions, type WorkflowType, parseRalphOptions, planUnits } from "./options.ts";
import { type RalphState, parseRalphState } from "./state.ts";

/** The progress, quality and findings of a loop, derived from a checkpoint alone. */
export interface LoopSummary {
  readonly loop: string | null;
  readonly type: WorkflowType;
  readonly maxIterations: number;
  /** The check commands of the current unit, or of the last one if all are done. */
  readonly until: readonly string[];
  /** The current unit with its number, starting at 1; null: all units are done. */
  readonly unit: { readonly name: string; readonly place: number; readonly of: number } | null;
  /** The stored iterations, oldest first. */
  readonly iterations: readonly Pick<
    Iteration,
    "number" | "unitName" | "verdict" | "quality" | "tests" | "errors" | "filesChanged"
  >[];
  readonly totals: RalphState["totals"];
  readonly best: { readonly iteration: number; readonly quality: number } | null;
  /** With their evidence, oldest first. */
  readonly findings: readonly LoopFinding[];
  readonly learnings: readonly string[];
  readonly memory: { readonly size: number; readonly capacity: number; readonly policy: MemoryPolicy };
  readonly onStuck: RalphOptions["onStuck"];
}

/**
 * Returns null if the checkpoint is not a loop's or cannot be read by this version; a query must not fail because of
 * it.
 */
export function summarizeLoop({ position, context, config }: Planes): LoopSummary | null {
  if (position.workflow !== "ralph") return null;
  try {
    return picture(parseRalphOptions(config.inputs), parseRalphState(context.values));
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

function picture(options: RalphOptions, state: RalphState): LoopSummary {
  const units = planUnits(options);
  const unit = units[state.unit];
  const { best, memory } = state;
  return {
    loop: state.loopId,
    type: options.workflowType,
    maxIterations: options.maxIterations,
    until: (unit ?? units.at(-1))?.checks.map(({ command }) => command) ?? [],
    unit: unit === undefined ? null : { name: unit.name, place: state.unit + 1, of: units.length },
    iterations: state.iterations.map(({ number, unitName, verdict, quality, tests, errors, filesChanged }) => ({
      number,
      unitName,
      verdict,
      quality,
      tests,
      errors,
      filesChanged,
    })),
    totals: state.totals,
    best: best === null ? null : { iteration: best.iteration, quality: best.quality },
    findings: state.findings,
    learnings: state.learnings.map(({ text }) => text),
    memory: { size: memory.length, capacity: options.memory.capacity, policy: options.memory.policy },
    onStuck: options.onStuck,
  };
}
