/**
 * Builds the request to resume a run: its stored options, the new answers and limits, and the adoption of an imported
 * run.
 */
import { refuseRemoved } from "@holdfast/core/remove-run";
import type { Adapters } from "@holdfast/core/adapters";
import { splitAgent } from "@holdfast/core/agent";
import type { Checkpoint, ExecutionConfig } from "@holdfast/core/checkpoint";
import { defaultFindingPolicy } from "@holdfast/core/findings";
import type { JsonObject } from "@holdfast/core/json";
import { type ArgumentKind, checkArgument, checkOptions } from "@holdfast/core/options";
import type { Budget } from "@holdfast/core/position";
import type { ProgressListener } from "@holdfast/core/progress";
import { type ResumeCheck, checkResume } from "@holdfast/core/resume";
import type { Answers } from "@holdfast/core/resume-plan";
import { type RunSummary, isEnded } from "@holdfast/core/run";
import { newestUsable, runNotStarted } from "@holdfast/core/store";
import type { Workflow } from "@holdfast/core/workflow";
import type { WorkflowPlugin } from "@holdfast/workflows/plugin";
import { agentsOf, checkAgents } from "./adapters.ts";
import { planLimits, unusedLimits } from "./change-limits.ts";
import {
  type AdoptParams,
  type Adoption,
  checkRefusal,
  checkStage,
  needsAdoption,
  planAdoption,
} from "./interop/adopt-import.ts";
import { placeNote, planPlace } from "./interop/adoption-place.ts";
import { type SlotOptions, checkWorkflowArgument, configOf, pluginOf } from "./plan-start.ts";
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
  /** Resume a run that has ended; requires `from`. Also an import whose document says that it cannot be resumed. */
  readonly force?: boolean;
  /** New limits of the run's workflow, by the name of their flag: `{"target": "docs"}`. */
  readonly limits?: JsonObject;
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
  readonly loopSlot?: SlotOptions;
  readonly priority?: number;
}

const RESUME_OPTIONS = {
  run: "any",
  workflow: "any",
  answers: "object",
  from: "count",
  force: "flag",
  limits: "object",
  limit: "object",
  agent: "text",
  wakes: "text",
  adopt: "object",
  signal: "signal",
  listen: "function",
  sessionMs: "amount",
  loopSlot: "object",
  priority: "number",
} satisfies Readonly<Record<keyof ResumeParams, ArgumentKind>>;

/** Throws USAGE for what an untyped caller may pass. */
export function checkResumeParams(params: ResumeParams): void {
  checkOptions("resume", params, RESUME_OPTIONS);
  checkArgument("resume", "run", params.run, "text");
  checkWorkflowArgument("resume", params.workflow);
}

export interface ResumePreview extends ResumeCheck {
  /** Further information for the user. It does not prevent the resume. */
  readonly notes: readonly string[];
}

/** Combines what the run stores with what the caller passes now. */
export async function resumeRequest(adapters: Adapters, params: ResumeParams): Promise<ResumeRequest> {
  await refuseRemoved(adapters.store, params.run);
  const run = await adapters.store.getRun(params.run);
  const planes = (await newestUsable(adapters.store, params.run)).checkpoint?.planes;
  const saved = planes?.config;
  // Its options are not stored yet, and the workflow would report missing options that the user did not omit.
  if (run?.latest === null) throw runNotStarted(run);
  const { answers = {}, from, force = false, limit = {}, limits = {}, wakes } = params;
  const given = params.workflow;
  const plugin = given === undefined ? await pluginOf(run) : customPlugin(given);
  const change = await planLimits(adapters, { run: params.run, limits, from });
  // A limit that the run has already is no change: the same command is repeated after a crash.
  const current = planes?.position.budget.limit;
  const budget = BUDGET_FLAGS.flatMap(([name, flag]) =>
    limit[name] === undefined || limit[name] === current?.[name] ? [] : [flag],
  );
  if (budget.length > 0 && change === null && from === undefined && run?.state.kind === "done")
    throw unusedLimits(run.id, budget);
  const now = saved === undefined || change === null ? saved : { ...saved, inputs: change.options };
  const config = withAgent(now, params.agent, plugin);
  const { workflow } = plugin.create(config?.inputs ?? {}, adapters);
  return {
    run: params.run,
    workflow,
    config: config ?? configOf({ agent: null, options: {} }),
    answers,
    from,
    force,
    limit,
    limits,
    change,
    ...(wakes === undefined ? {} : { wakes }),
  };
}

const BUDGET_FLAGS = [
  ["tokens", "max-tokens"],
  ["microUsd", "max-cost"],
  ["milliseconds", "max-total-time"],
] as const;

/** A custom workflow is complete already, and names no agents in options that Holdfast could replace. */
function customPlugin(workflow: Workflow): Pick<WorkflowPlugin, "create" | "withAgent"> {
  return { create: (options) => ({ workflow, options }), withAgent: (options) => options };
}

/** The new agent takes every role: it also replaces agents that the options of a built-in workflow name. */
function withAgent(
  config: ExecutionConfig | undefined,
  named: string | undefined,
  plugin: Pick<WorkflowPlugin, "withAgent">,
): ExecutionConfig | undefined {
  if (config === undefined || named === undefined) return config;
  const { provider: agent, model } = splitAgent(named);
  return { ...config, agent, model, inputs: plugin.withAgent(config.inputs, named) };
}

/** Returns an imported run that was never resumed, with all that its first resume needs; null: the run is not one. */
export async function findPendingImport(adapters: Adapters, params: ResumeParams): Promise<PendingImport | null> {
  const run = await adapters.store.getRun(params.run);
  const checkpoint = run === undefined ? null : await needsAdoption(adapters, run, params);
  if (run === undefined || checkpoint === null) return null;
  const { adopt, workflow, agent } = params;
  const adoption = await planAdoption(adapters, run, checkpoint, {
    agent: agent ?? adopt?.agent ?? null,
    options: adopt?.options ?? {},
    limits: params.limits ?? {},
    workflow,
  });
  if (isEnded(run.state) && !adoption.reopens && params.force !== true) return null;
  checkStage(run, adoption);
  if (params.force !== true) checkRefusal(run, checkpoint, adoption);
  const named = { agent: agent ?? adopt?.agent ?? null, options: adoption.config.inputs };
  checkAgents(adapters, await agentsOf(adoption.workflow.shape.name, named));
  return { run, checkpoint, adoption };
}

interface PendingImport {
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly adoption: Adoption;
}

/** Plans with the run as it is before the adoption. The workflow is chosen at adoption, so it cannot have changed. */
export async function planImported(
  adapters: Adapters,
  { run, checkpoint, adoption }: PendingImport,
  params: ResumeParams,
): Promise<ResumePreview> {
  const { position, config } = checkpoint.planes;
  const { answers = {} } = params;
  const note = placeNote(checkpoint, await planPlace(adapters, { run, checkpoint, answers, ...adoption }));
  const ended = isEnded(run.state);
  const planned = await checkResume({
    adapters,
    run: run.id,
    current: { definition: position.definition, config },
    policy: defaultFindingPolicy,
    freshness: adoption.workflow.freshness,
    answers,
    force: params.force === true || ended,
    ...(params.from === undefined && !ended ? {} : { chosen: checkpoint.sequence }),
  });
  // What the run will use, not what its document says.
  const current = { ...planned.current, config: adoption.config };
  return { ...planned, current, notes: note === null ? [] : [note] };
}
