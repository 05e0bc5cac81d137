import { isAtOrPast } from "../../core/crunch/phase.ts";
import { HoldfastError } from "../../core/error.ts";
import { runNotFound } from "../../core/refusals.ts";
import { changeOptions } from "../../engine/conduct/change-options.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { crunchOptionsJson, parseCrunchOptions } from "../../workflows/crunch/options.ts";
import { stoppedAt } from "../../workflows/crunch/stopped-at.ts";
import { isCrunchStage, stageAfter } from "../../workflows/crunch/workflow-shape.ts";

/** Nothing is changed when it is the target already. USAGE for a run of another workflow and for a phase that lies behind. */
export async function raiseTarget(
  parts: WorkParts,
  params: { readonly run: string; readonly target: string },
): Promise<void> {
  const run = await parts.store.getRun(params.run);
  const latest = await parts.store.latest(params.run);
  if (run === undefined || latest === undefined) throw runNotFound(params.run);
  if (run.workflow !== "crunch")
    throw new HoldfastError({
      code: "USAGE",
      message: `Run ${run.id} follows the workflow ${run.workflow}, which has no target`,
      hint: "Leave --target out.",
    });
  const { config, position, context } = latest.planes;
  const options = parseCrunchOptions(config.inputs);
  const { target } = parseCrunchOptions({ ...config.inputs, target: params.target });
  if (target === options.target) return;
  const stopped = position.stage === "stopped" ? stoppedAt(context.values) : null;
  const at = stopped ?? (isCrunchStage(position.stage) ? position.stage : null);
  if (at !== null && at !== target && isAtOrPast(at, target))
    throw new HoldfastError({
      code: "USAGE",
      message: `Run ${run.id} is at ${at} already, which is past ${target}`,
      hint: `To go back to an earlier state: \`holdfast resume ${run.id}@SEQUENCE --force\`; see \`holdfast list ${run.id}\`.`,
    });
  await changeOptions({
    parts,
    run: run.id,
    options: crunchOptionsJson({ ...options, target }),
    goesOn: stopped === null ? null : whereTo(stageAfter(stopped), position.iteration),
    reason: `It is to go on to ${target}, not only to ${options.target}`,
  });
}

function whereTo(stage: string, iteration: number): { readonly stage: string; readonly iteration: number } {
  return { stage, iteration: stage === "implementing" ? iteration + 1 : iteration };
}
