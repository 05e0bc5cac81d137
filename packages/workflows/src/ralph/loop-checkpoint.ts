// Describes a checkpoint of a ralph run as a loop-json document, and determines the loop's ids.

import type { CheckpointSummary, FilesPlane, Planes } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonObject, sha256 } from "@holdfast/core/json";
import type { Run } from "@holdfast/core/run";
import type { ExternalCheckpoint } from "@holdfast/formats/format";
import { isUsableLoopId } from "@holdfast/formats/loop-document";
import { LOOP_EXTENSION } from "@holdfast/formats/loop-json";
import { HoldfastError } from "@holdfast/platform/error";
import {
  LOOP_ID,
  type RalphOptions,
  type WorkflowType,
  defaultRalphOptions,
  parseRalphOptions,
  planUnits,
} from "./options.ts";
import { type RalphState, parseRalphEvent, parseRalphState, reduceRalph } from "./state.ts";

/** A checkpoint of a ralph run, in the terms of the loop format. */
export interface LoopRun {
  readonly options: RalphOptions;
  readonly state: RalphState;
  readonly type: WorkflowType;
  /** null: not a loop, or the only loop of the legacy layout. It alone decides where the checkpoint files are. */
  readonly loopId: string | null;
  readonly workflowId: string;
}

/**
 * Returns null for another workflow, for unreadable state, or for a loop that has not begun and has no id yet. The
 * optional `ids` come from a later checkpoint of the same run; they never change.
 */
export function readLoopRun(
  run: Pick<Run, "id" | "workflow" | "forkedFrom">,
  planes: Pick<Planes, "position" | "context" | "config" | "extensions">,
  ids?: Pick<LoopRun, "loopId" | "workflowId">,
): LoopRun | null {
  if (run.workflow !== "ralph" && planes.position.workflow !== "ralph") return null;
  const parsed = parse(planes);
  if (parsed === null) return null;
  const { workflowType: type } = parsed.options;
  if (ids !== undefined) return { ...parsed, type, loopId: ids.loopId, workflowId: ids.workflowId };
  const imported = run.forkedFrom === null ? planes.extensions[LOOP_EXTENSION] : undefined;
  if (isJsonObject(imported)) return { ...parsed, type, ...importedIds(run, imported) };
  if (type !== "ralph_loop") return { ...parsed, type, loopId: null, workflowId: run.id };
  const loopId = ownLoopId(run, parsed.state.loopId ?? parsed.options.loopId);
  return loopId === null ? null : { ...parsed, type, loopId, workflowId: loopId };
}

/** An imported loop without an id remains without one: only its own tool moves it out of the legacy layout. */
function importedIds(run: Pick<Run, "id">, kept: JsonObject): Pick<LoopRun, "loopId" | "workflowId"> {
  const { loop_id: loop, workflow_id: workflow } = kept;
  return {
    loopId: typeof loop === "string" && isUsableLoopId(loop) ? loop : null,
    workflowId: typeof workflow === "string" && workflow !== "" ? workflow : run.id,
  };
}

/** A fork has its parent's state and must not use its directory. */
function ownLoopId(run: Pick<Run, "id" | "forkedFrom">, named: string | null): string | null {
  if (run.forkedFrom === null) return named;
  return LOOP_ID.test(run.id) && run.id !== named ? run.id : `ralph-${run.id}-${sha256(run.id).slice(0, 8)}`;
}

function parse({
  position,
  context,
  config,
}: Pick<Planes, "position" | "context" | "config">): Pick<LoopRun, "options" | "state"> | null {
  try {
    return {
      options: parseStored(known(config.inputs)),
      state: stateOf(context.values, position.stageAttempt.unreduced ?? []),
    };
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

/** A loop that was imported and not continued yet may lack its check. */
function parseStored(inputs: JsonObject): RalphOptions {
  if (inputs["until"] !== undefined || inputs["workflowType"] !== "ralph_loop") return parseRalphOptions(inputs);
  return { ...parseRalphOptions({ ...inputs, workflowType: "agent_task" }), workflowType: "ralph_loop" };
}

/** Drops the workflow's other options, which the loop itself does not know. */
function known(inputs: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(inputs).filter(([name]) => Object.hasOwn(defaultRalphOptions, name)));
}

/**
 * Applies recorded events that are not part of the values yet. The workflow reduces them only when it resumes the run.
 */
function stateOf(values: JsonObject, unreduced: readonly Json[]): RalphState {
  return unreduced.reduce<RalphState>(
    (state, event) => reduceRalph(state, parseRalphEvent(event)),
    parseRalphState(values),
  );
}

/**
 * Adds all members that a document of version 2 has beyond the planes. The same checkpoint always gives the same
 * document.
 */
export function describeLoopCheckpoint(params: {
  readonly external: ExternalCheckpoint;
  readonly live: LoopRun;
  readonly summary: Pick<CheckpointSummary, "id" | "sequence" | "iteration" | "stage" | "trigger" | "tags" | "size">;
  /** The store whose mirror writes the document, so that the mirror recognises its own files; null: no mirror. */
  readonly store: string | null;
  /** null: without limit. */
  readonly retentionDays: number | null;
}): ExternalCheckpoint {
  const { external, live, summary } = params;
  const { planes } = external;
  const extension: JsonObject = {
    workflow_id: live.workflowId,
    loop_id: live.loopId,
    ...stepOf(live),
    progress: progressOf(live),
    max_iterations: live.options.maxIterations,
    agent_state: agentState(external, live),
    metadata: {
      size_bytes: summary.size.logical,
      compression: "gzip",
      ...(params.retentionDays === null ? {} : { retention_days: Math.ceil(params.retentionDays) }),
      ...(summary.tags.length === 0 ? {} : { tags: summary.tags.toSorted() }),
      // The mirror may remove only files with this mark.
      ...(params.store === null ? {} : { [WRITTEN_BY]: `${params.store}/${summary.id}` }),
    },
  };
  return {
    ...external,
    id: uuidOf(`${summary.id} ${external.createdAt ?? ""}`),
    workflow: live.type,
    planes: {
      ...planes,
      position: {
        ...planes.position,
        workflow: live.type,
        iteration: filedIteration(summary),
        attempts: { ...planes.position.attempts, failures: live.state.totals.failed },
      },
      files: withArtifacts(planes.files, live.state),
      config: { ...planes.config, tools: live.state.answer?.tools ?? planes.config.tools },
      // Includes events that the workflow has not reduced into its values yet.
      context: { ...planes.context, values: { ...planes.context.values, ...live.state } },
      extensions: { ...planes.extensions, [LOOP_EXTENSION]: extension },
    },
  };
}

/**
 * The last iteration that has ended at a checkpoint. The commit that ends an iteration already enters the next one, so a
 * position in a working stage counts one more.
 */
export function endedIteration({ iteration, stage }: Pick<CheckpointSummary, "iteration" | "stage">): number {
  return WORKING.has(stage) ? Math.max(0, iteration - 1) : iteration;
}

const WORKING: ReadonlySet<string> = new Set(["iterate", "verify", "reflect"]);

/** The iteration that a checkpoint belongs to in the layout: the end of an iteration belongs to that iteration. */
export function filedIteration(one: Pick<CheckpointSummary, "iteration" | "stage" | "trigger">): number {
  return one.trigger === "iteration" ? endedIteration(one) : one.iteration;
}

/** The unit of the last iteration is the step; before the first one, the unit that comes first. */
function stepOf({ state, options }: LoopRun): JsonObject {
  const step = state.answer?.unitName ?? planUnits(options)[state.unit]?.name;
  return step === undefined ? {} : { step };
}

/** The loop commits its work, so that the files plane, which compares with HEAD, seldom has artifacts of its own. */
function withArtifacts(files: FilesPlane | null, { answer }: RalphState): FilesPlane | null {
  const artifacts = answer?.artifacts ?? [];
  return files === null || files.artifacts.length > 0
    ? files
    : { ...files, artifacts, artifactCount: artifacts.length };
}

/** A metadata member that other readers ignore. */
export const WRITTEN_BY = "holdfast";

/** The run of this store whose mirror wrote the document; null: another tool or another store wrote it. */
export function writerOf({ original }: ExternalCheckpoint, store: string): string | null {
  const document = original?.document;
  const metadata = isJsonObject(document) ? document["metadata"] : undefined;
  const mark = isJsonObject(metadata) ? metadata[WRITTEN_BY] : undefined;
  if (typeof mark !== "string" || !mark.startsWith(`${store}/`)) return null;
  return /^([^@]+)@\d+$/.exec(mark.slice(store.length + 1))?.[1] ?? null;
}

/** A loop counts iterations out of the maximum; all other types count their units. */
function progressOf({ options, state, type }: LoopRun): JsonObject {
  const [total, completed] =
    type === "ralph_loop" ? [options.maxIterations, state.totals.iterations] : [planUnits(options).length, state.unit];
  const percentage = Math.min(100, Math.round((completed / total) * 10_000) / 100);
  return { total_steps: total, completed_steps: completed, percentage };
}

function agentState({ planes }: ExternalCheckpoint, { options, state }: LoopRun): JsonObject {
  const { agent } = planes.config;
  const memory: Record<string, Json> = { reflections: state.memory, learnings: state.learnings, best: state.best };
  return {
    ...(agent === null ? {} : { current_agent: options.model ?? agent }),
    memory,
    pending_actions: planUnits(options)
      .slice(state.unit)
      .map(({ name }) => name),
  };
}

/** A UUID of version 8 (RFC 9562), built from a digest. */
function uuidOf(name: string): string {
  const hex = sha256(name);
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 3) | 8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}
