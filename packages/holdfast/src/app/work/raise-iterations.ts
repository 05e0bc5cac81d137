import { HoldfastError } from "../../core/error.ts";
import { notBegun, runNotFound } from "../../core/refusals.ts";
import { changeOptions } from "../../engine/conduct/change-options.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { refuseChanged } from "./refuse-changed.ts";
import { loopOptionsJson, parseLoopOptions } from "../../workflows/ralph/options.ts";

/** A loop may go round so often in all; one that has stopped at its limit goes on. Nothing is changed when that is the limit already. */
export async function raiseIterations(
  parts: WorkParts,
  params: { readonly run: string; readonly max: number },
): Promise<void> {
  const { max } = params;
  const run = await parts.store.getRun(params.run);
  const latest = await parts.store.latest(params.run);
  if (run === undefined) throw runNotFound(params.run);
  if (latest === undefined) throw notBegun(params.run);
  if (run.workflow !== "ralph")
    throw new HoldfastError({
      code: "USAGE",
      message: `Run ${run.id} follows the workflow ${run.workflow}, which is no loop`,
      hint: "Leave --max out.",
    });
  const { config, position } = latest.planes;
  const options = parseLoopOptions(config.inputs);
  const atLimit = run.state.kind === "fatal" && position.stage === "limit";
  if (max <= position.iteration && (atLimit || max < position.iteration))
    throw new HoldfastError({
      code: "USAGE",
      message: `Run ${run.id} is at iteration ${position.iteration} already, so ${max} in all allows no more`,
      hint: `Give a number above ${position.iteration}.`,
    });
  if (max === options.maxIterations && !atLimit) return;
  // One that refuses to go on keeps its limit too.
  if (config.mode === "strict")
    await refuseChanged(parts, { run: run.id, workflow: undefined, signal: new AbortController().signal });
  await changeOptions({
    parts,
    run: run.id,
    options: loopOptionsJson({ ...options, maxIterations: max }),
    goesOn: atLimit ? { stage: "iterate", iteration: position.iteration + 1 } : null,
    reason: `It may iterate ${max} times in all, not only ${options.maxIterations}`,
  });
}
