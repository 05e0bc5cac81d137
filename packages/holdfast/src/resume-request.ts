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
import { type SlotOptions, anyWorkflow, configOf, isOwnWorkflow, ownWorkflow } from "./plan-start.ts";
import { rejectChangedRecording } from "./replay.ts";
import type { ResumeRequest } from "./start-run.ts";

/** A run that is to be taken up, as whoever wants it says it. */
export interface ResumeParams<S extends JsonObject = JsonObject> {
  readonly run: string;
  /** Needed for runs of a workflow of your own. */
  readonly workflow?: Workflow<S>;
  /** What is said to findings that need a decision. */
  readonly answers?: Answers;
  /** Sequence of a checkpoint to go back to. */
  readonly from?: number;
  /** Take up a run that has ended; needs `from`. */
  readonly force?: boolean;
  readonly limit?: Partial<Budget["limit"]>;
  /** Another agent than the one it had, as `provider:model`. */
  readonly agent?: string;
  /** Only wake it, if it is still parked until this time: LEASE_HELD when somebody else did. */
  readonly wakes?: string;
  /** For a run that was imported and is carried on for the first time; of no account for any other. */
  readonly adopt?: AdoptParams;
  readonly signal?: AbortSignal;
  readonly listen?: ProgressListener;
  /** How long to work on it at most, in milliseconds: then it is saved and parked on "session". A new session has a new time. */
  readonly sessionMs?: number;
  readonly place?: SlotOptions;
  readonly priority?: number;
}

export interface ResumePreview extends ResumeCheck {
  /** What else whoever resumes must know: it hinders nothing. */
  readonly notes: readonly string[];
}

/** What a run is carried on with: what it keeps, and what is said now. */
export async function resumeRequest<S extends JsonObject>(
  parts: Adapters,
  params: ResumeParams<S>,
): Promise<ResumeRequest<JsonObject>> {
  const run = await parts.store.getRun(params.run);
  const saved = (await newestUsable(parts.store, params.run)).checkpoint?.planes.config;
  // Of its own options nothing is known yet: the workflow would blame what nobody left out.
  if (run !== undefined && run.latest === null && params.workflow === undefined) throw runNotStarted(run.id);
  const ours = run !== undefined && isOwnWorkflow(run.workflow) && params.workflow === undefined;
  const config = withAgent(saved, params.agent, ours);
  const { answers = {}, from, force = false, limit = {}, workflow, wakes } = params;
  return {
    run: params.run,
    workflow: workflow === undefined ? ownWorkflow(parts, run, config?.inputs ?? {}) : anyWorkflow(workflow),
    config: config ?? configOf({ agent: null, options: {} }),
    answers,
    from,
    force,
    limit,
    ...(wakes === undefined ? {} : { wakes }),
  };
}

/** Another agent takes every role: those that the options of one of our workflows name are replaced too. */
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
  // A crunch run keeps its team's profiles in its state, where an agent by name beats them.
  const settings = isJsonObject(inputs["settings"]) ? inputs["settings"] : {};
  const team = isJsonObject(settings["agents"]) ? Object.keys(settings["agents"]) : [];
  return { ...inputs, ...cleared, models: Object.fromEntries(team.map((name) => [name, named])) };
}

/** A run that was imported and not yet carried on, with all that it needs for that; null: it is none. */
export async function findPendingImport<S extends JsonObject>(
  parts: Adapters,
  params: ResumeParams<S>,
): Promise<PendingImport | null> {
  const run = await parts.store.getRun(params.run);
  const checkpoint = run === undefined || params.from !== undefined ? null : await needsAdoption(parts, run);
  if (run === undefined || checkpoint === null) return null;
  const { adopt, workflow, agent } = params;
  const adoption = planAdoption(parts, run, checkpoint, {
    agent: agent ?? adopt?.agent ?? null,
    options: adopt?.options ?? {},
    workflow: workflow === undefined ? undefined : anyWorkflow(workflow),
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

/** As it is now, before it is taken over: what carries it on is chosen then, so nothing about that can have changed. */
export async function planImported<S extends JsonObject>(
  parts: Adapters,
  { run, checkpoint, adoption }: PendingImport,
  params: ResumeParams<S>,
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

/** A loop may go round so often in all; one that has stopped at its limit goes on. Nothing is changed when that is the limit already. */
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
    await rejectChangedRecording(parts, { run: run.id, workflow: undefined, signal: new AbortController().signal });
  await changeOptions({
    parts,
    run: run.id,
    options: loopOptionsJson({ ...options, maxIterations: max }),
    goesOn: atLimit ? { stage: "iterate", iteration: position.iteration + 1 } : null,
    reason: `It may iterate ${max} times in all, not only ${options.maxIterations}`,
  });
}

/** Nothing is changed when it is the target already. USAGE for a run of another workflow and for a phase that lies behind. */
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
