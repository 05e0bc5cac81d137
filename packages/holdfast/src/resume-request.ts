/**
 * Builds the request to resume a run: its stored options, the new answers and limits, and the adoption of an imported
 * run.
 */
import type { Adapters } from "@holdfast/core/adapters";
import { splitAgent } from "@holdfast/core/agent";
import type { Checkpoint, ExecutionConfig } from "@holdfast/core/checkpoint";
import { changeOptions } from "@holdfast/core/control-run";
import { defaultFindingPolicy } from "@holdfast/core/findings";
import { type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Budget } from "@holdfast/core/position";
import type { ProgressListener } from "@holdfast/core/progress";
import { type ResumeCheck, checkResume } from "@holdfast/core/resume";
import type { Answers } from "@holdfast/core/resume-plan";
import type { RunSummary } from "@holdfast/core/run";
import { newestUsable, runNotFound, runNotStarted } from "@holdfast/core/store";
import type { Workflow } from "@holdfast/core/workflow";
import { HoldfastError } from "@holdfast/platform/error";
import { crunchOptionsJson, isCrunchStage, parseCrunchOptions, stageAfter } from "@holdfast/workflows/crunch/options";
import { lastCompletedPhase } from "@holdfast/workflows/crunch/phase-steps";
import { isAtOrPast } from "@holdfast/workflows/crunch/phases";
import { loopOptionsJson, parseLoopOptions } from "@holdfast/workflows/ralph/options";
import { checkAgents } from "./adapters.ts";
import {
  type AdoptParams,
  type Adoption,
  checkStage,
  needsAdoption,
  newWorktreeNote,
  planAdoption,
  planNewWorktree,
} from "./interop/adopt-import.ts";
import { type SlotOptions, configOf, isOwnWorkflow, ownWorkflow } from "./plan-start.ts";
import { rejectChangedRecording } from "./replay.ts";
import type { ResumeRequest } from "./start-run.ts";

/** The caller's request to resume a run. */
export interface ResumeParams {
  readonly run: string;
  /** Required for runs of a custom workflow. */
  readonly workflow?: Workflow;
  /** Answers to findings that need a decision. */
  readonly answers?: Answers;
  /** Sequence of the checkpoint to go back to. */
  readonly from?: number;
  /** Resume a run that has ended; requires `from`. */
  readonly force?: boolean;
  readonly limit?: Partial<Budget["limit"]>;
  /** Replaces the run's agent, as `provider:model`. */
  readonly agent?: string;
  /** Resume only if the run still waits until this time; LEASE_HELD if another process resumed it already. */
  readonly wakes?: string;
  /** For the first resume of an imported run; ignored for every other run. */
  readonly adopt?: AdoptParams;
  readonly signal?: AbortSignal;
  readonly listen?: ProgressListener;
  /**
   * The longest time to work in this session, in milliseconds. After it the run is saved and waits on "session". Each
   * session has its own limit.
   */
  readonly sessionMs?: number;
  readonly place?: SlotOptions;
  readonly priority?: number;
}

export interface ResumePreview extends ResumeCheck {
  /** Further information for the user. It does not prevent the resume. */
  readonly notes: readonly string[];
}

/** Combines what the run stores with what the caller passes now. */
export async function resumeRequest(parts: Adapters, params: ResumeParams): Promise<ResumeRequest> {
  const run = await parts.store.getRun(params.run);
  const saved = (await newestUsable(parts.store, params.run)).checkpoint?.planes.config;
  // Its options are not stored yet, and the workflow would report missing options that the user did not omit.
  if (run !== undefined && run.latest === null && params.workflow === undefined) throw runNotStarted(run.id);
  const ours = run !== undefined && isOwnWorkflow(run.workflow) && params.workflow === undefined;
  const config = withAgent(saved, params.agent, ours);
  const { answers = {}, from, force = false, limit = {}, workflow, wakes } = params;
  return {
    run: params.run,
    workflow: workflow ?? ownWorkflow(parts, run, config?.inputs ?? {}),
    config: config ?? configOf({ agent: null, options: {} }),
    answers,
    from,
    force,
    limit,
    ...(wakes === undefined ? {} : { wakes }),
  };
}

/** The new agent takes every role: it also replaces agents that the options of a built-in workflow name. */
function withAgent(
  config: ExecutionConfig | undefined,
  named: string | undefined,
  ours: boolean,
): ExecutionConfig | undefined {
  if (config === undefined || named === undefined) return config;
  const { provider: agent, model } = splitAgent(named);
  return { ...config, agent, model, inputs: ours ? replaceAgents(config.inputs, named) : config.inputs };
}

function replaceAgents(inputs: JsonObject, named: string): JsonObject {
  const roles = ["implModel", "reviewModel", "model"].filter((role) => typeof inputs[role] === "string");
  const cleared = Object.fromEntries(roles.map((role) => [role, null]));
  if (!isJsonObject(inputs["models"])) return { ...inputs, ...cleared };
  // A crunch run keeps its team's profiles in its state, and an agent by name takes precedence over them.
  const settings = isJsonObject(inputs["settings"]) ? inputs["settings"] : {};
  const team = isJsonObject(settings["agents"]) ? Object.keys(settings["agents"]) : [];
  return { ...inputs, ...cleared, models: Object.fromEntries(team.map((name) => [name, named])) };
}

/** Returns an imported run that was never resumed, with all that its first resume needs; null: the run is not one. */
export async function findPendingImport(parts: Adapters, params: ResumeParams): Promise<PendingImport | null> {
  const run = await parts.store.getRun(params.run);
  const checkpoint = run === undefined || params.from !== undefined ? null : await needsAdoption(parts, run);
  if (run === undefined || checkpoint === null) return null;
  const { adopt, workflow, agent } = params;
  const adoption = planAdoption(parts, run, checkpoint, {
    agent: agent ?? adopt?.agent ?? null,
    options: adopt?.options ?? {},
    workflow,
  });
  checkStage(run, checkpoint, adoption.workflow);
  checkAgents(parts, agent ?? adopt?.agent ?? null, adoption.config.inputs);
  return { run, checkpoint, adoption };
}

interface PendingImport {
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly adoption: Adoption;
}

/** Plans with the run as it is before the adoption. The workflow is chosen at adoption, so it cannot have changed. */
export async function planImported(
  parts: Adapters,
  { run, checkpoint, adoption }: PendingImport,
  params: ResumeParams,
): Promise<ResumePreview> {
  const { position, config } = checkpoint.planes;
  const place = await planNewWorktree(parts, run, adoption.base);
  const notes = place === undefined || place === null ? [] : [newWorktreeNote(checkpoint, place)];
  const planned = await checkResume({
    parts,
    run: run.id,
    current: { definition: position.definition, config },
    policy: defaultFindingPolicy,
    freshness: adoption.workflow.freshness,
    answers: params.answers ?? {},
    force: params.force ?? false,
  });
  return { ...planned, notes };
}

/**
 * Sets the total number of iterations of a loop. A loop that stopped at its limit can then continue. Does nothing if
 * that is the limit already.
 */
export async function raiseIterations(
  parts: Adapters,
  params: { readonly run: string; readonly max: number },
): Promise<void> {
  const { max } = params;
  const run = await parts.store.getRun(params.run);
  const latest = await parts.store.latest(params.run);
  if (run === undefined) throw runNotFound(params.run);
  if (latest === undefined) throw runNotStarted(params.run);
  if (run.workflow !== "ralph")
    throw new HoldfastError({
      code: "USAGE",
      message: `Run ${run.id} follows the workflow ${run.workflow}, which is no loop`,
      hint: "Leave --max out.",
    });
  const { config, position } = latest.planes;
  const options = parseLoopOptions(config.inputs);
  const atLimit = run.state.kind === "failed" && position.stage === "limit";
  if (max <= position.iteration && (atLimit || max < position.iteration))
    throw new HoldfastError({
      code: "USAGE",
      message: `Run ${run.id} is at iteration ${position.iteration} already, so ${max} in all allows no more`,
      hint: `Give a number above ${position.iteration}.`,
    });
  if (max === options.maxIterations && !atLimit) return;
  // A strict run that would refuse to continue must keep its limit too.
  if (config.mode === "strict")
    await rejectChangedRecording(parts, { run: run.id, workflow: undefined, signal: new AbortController().signal });
  await changeOptions({
    parts,
    run: run.id,
    options: loopOptionsJson({ ...options, maxIterations: max }),
    goesOn: atLimit ? { stage: "iterate", iteration: position.iteration + 1 } : null,
    reason: `It may iterate ${max} times in all, not only ${options.maxIterations}`,
  });
}

/**
 * Does nothing if this is the target already. Throws USAGE for a run of another workflow and for a phase that is
 * already past.
 */
export async function raiseTarget(
  parts: Adapters,
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
  const stopped = position.stage === "stopped" ? lastCompletedPhase(context.values) : null;
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
