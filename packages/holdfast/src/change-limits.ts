/**
 * Changes limits of a run's workflow (`--max-iterations`, `--target`, `--until`): plans the change for a resume, and
 * applies it.
 */
import type { Adapters } from "@holdfast/core/adapters";
import type { Planes } from "@holdfast/core/checkpoint";
import { type OptionsChange, changeOptions, reopensRun } from "@holdfast/core/control-run";
import type { JsonObject } from "@holdfast/core/json";
import type { RunState, RunSummary } from "@holdfast/core/run";
import { knownRun, newestUsable, runNotStarted } from "@holdfast/core/store";
import { type HoldfastError, usageError } from "@holdfast/platform/error";
import { loadPlugin } from "@holdfast/workflows/built-in";
import type { WorkflowPlugin } from "@holdfast/workflows/plugin";
import { limitOf, needsAdoption } from "./interop/adopt-import.ts";

interface LimitsParams {
  readonly run: string;
  /** By the name of their flag: `{"target": "docs"}`. */
  readonly limits: JsonObject;
  /** Sequence of the checkpoint that the run goes back to, and continues from. */
  readonly from?: number | undefined;
}

/**
 * Plans new limits. A run that stopped at one of them then continues. null: nothing changes, or the adoption of an import
 * applies them. Throws USAGE for a limit that the workflow does not have, that allows nothing more, or that a done run
 * would never use.
 */
export async function planLimits(adapters: Adapters, params: LimitsParams): Promise<OptionsChange | null> {
  const { limits, from } = params;
  if (Object.keys(limits).length === 0) return null;
  const run = await knownRun(adapters.store, params.run);
  if ((await needsAdoption(adapters, run, { limits, ...(from === undefined ? {} : { from }) })) !== null) {
    if (run.state.kind === "done" && from === undefined) throw unusedLimits(run.id, Object.keys(limits));
    return null;
  }
  const { checkpoint: newest } = await newestUsable(adapters.store, run.id);
  if (newest === undefined) throw runNotStarted(run);
  const plugin = await loadPlugin(run.workflow);
  if (from !== undefined) {
    const { planes } = await adapters.store.getCheckpoint({ run: run.id, sequence: from });
    const { inputs } = newest.planes.config;
    const target = { ...planes, config: { ...planes.config, inputs } };
    return combineLimits(plugin, { ...run, state: CONTINUED }, target, limits);
  }
  const change = combineLimits(plugin, run, newest.planes, limits);
  if (change !== null && run.state.kind === "done" && !reopensRun(run.state, change))
    throw unusedLimits(run.id, Object.keys(limits));
  return change;
}

/** A run that goes back to a checkpoint continues there, whatever its end was. */
const CONTINUED: RunState = { kind: "active" };

/**
 * Plans the change with the run as it is now, and commits it. Returns the sequence of the new checkpoint; null: nothing
 * changes.
 */
export async function applyLimits(
  adapters: Adapters,
  params: LimitsParams & {
    /** Sequence of the newest checkpoint that the caller has seen. Absent: any. */
    readonly top?: number;
  },
): Promise<number | null> {
  const { run, top } = params;
  const change = await planLimits(adapters, params);
  if (change === null) return null;
  return await changeOptions({ adapters, run, change, ...(top === undefined ? {} : { top }) });
}

/** Each limit is judged with those before it applied, so that one command can raise two. null: nothing changes. */
function combineLimits(
  plugin: WorkflowPlugin | null,
  run: RunSummary,
  planes: Planes,
  limits: JsonObject,
): OptionsChange | null {
  return Object.entries(limits).reduce<OptionsChange | null>((before, [limit, value]) => {
    const { config, context } = planes;
    const inputs = before?.options ?? config.inputs;
    const values = before?.values ?? context.values;
    const seen = { ...planes, config: { ...config, inputs }, context: { ...context, values } };
    const change = limitOf(plugin, run, limit)({ run, planes: seen, value });
    if (before === null || change === null) return change ?? before;
    const reason = `${before.reason}; ${change.reason}`;
    return { values, ...change, continuesAt: change.continuesAt ?? before.continuesAt, reason };
  }, null);
}

/** For limits of a run that is done, by the names of their flags: nothing would use them. */
export function unusedLimits(run: string, flags: readonly string[]): HoldfastError {
  return usageError(
    `Run ${run} is done, so ${flags.map((flag) => `--${flag}`).join(" and ")} would change nothing`,
    `To restart it from a checkpoint of \`holdfast list ${run}\`, add the flag to \`holdfast resume ${run}@SEQUENCE --force\`.`,
    { run },
  );
}
