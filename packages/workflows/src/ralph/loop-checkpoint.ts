import type { CheckpointSummary, Planes } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonObject, pureSha256 } from "@holdfast/core/json";
import type { Run } from "@holdfast/core/run";
import type { Encoded, ExternalCheckpoint } from "@holdfast/formats/format";
import { isUsableLoopId } from "@holdfast/formats/loop-document";
import { LOOP_EXTENSION, loopJson } from "@holdfast/formats/loop-json";
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

/** A checkpoint of a run that the ralph workflow carries, in the words of the format. */
export interface LoopRun {
  readonly options: RalphOptions;
  readonly state: RalphState;
  readonly type: WorkflowType;
  /** null: no loop, or the only one of the legacy layout. It alone decides where the checkpoints lie. */
  readonly loopId: string | null;
  readonly workflowId: string;
}

/**
 * null: of another workflow, of one whose state is not to be read here, or of a loop that has not begun and so has no id yet. `ids`: those that
 * a later checkpoint of the same run has; they never change.
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

/** A loop without an id stays without one: only its own tool moves it from the legacy layout into the other. */
function importedIds(run: Pick<Run, "id">, kept: JsonObject): Pick<LoopRun, "loopId" | "workflowId"> {
  const { loop_id: loop, workflow_id: workflow } = kept;
  return {
    loopId: typeof loop === "string" && isUsableLoopId(loop) ? loop : null,
    workflowId: typeof workflow === "string" && workflow !== "" ? workflow : run.id,
  };
}

/** A fork has its parent's state and must not have its directory. */
function ownLoopId(run: Pick<Run, "id" | "forkedFrom">, named: string | null): string | null {
  if (run.forkedFrom === null) return named;
  return LOOP_ID.test(run.id) && run.id !== named ? run.id : `ralph-${run.id}-${pureSha256(run.id).slice(0, 8)}`;
}

function parse({
  position,
  context,
  config,
}: Pick<Planes, "position" | "context" | "config">): Pick<LoopRun, "options" | "state"> | null {
  try {
    return {
      options: parseRalphOptions(known(config.inputs)),
      state: stateOf(context.values, position.visit.unreduced ?? []),
    };
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

/** The workflow has options beside those of the loop itself. */
function known(inputs: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(inputs).filter(([name]) => Object.hasOwn(defaultRalphOptions, name)));
}

/** With what was recorded and stands in the values only once the workflow has the run in its hands again. */
function stateOf(values: JsonObject, unreduced: readonly Json[]): RalphState {
  return unreduced.reduce<RalphState>(
    (state, event) => reduceRalph(state, parseRalphEvent(event)),
    parseRalphState(values),
  );
}

/**
 * A checkpoint of a ralph run as a document of version 2, with all members that the format has for it. The same checkpoint gives the same
 * bytes, whenever and wherever it is written.
 */
export function encodeLoopCheckpoint(params: {
  readonly foreign: ExternalCheckpoint;
  readonly live: LoopRun;
  readonly summary: Pick<CheckpointSummary, "id" | "sequence" | "tags" | "size">;
  /** Which store's mirror wrote it, so that it knows its own again; null: nobody's. */
  readonly store: string | null;
  /** null: for ever. */
  readonly retentionDays: number | null;
}): Encoded {
  const { foreign, live, summary } = params;
  const { planes } = foreign;
  const extension: JsonObject = {
    workflow_id: live.workflowId,
    loop_id: live.loopId,
    progress: progressOf(live),
    max_iterations: live.options.maxIterations,
    agent_state: agentState(foreign, live),
    metadata: {
      size_bytes: summary.size.logical,
      compression: "gzip",
      ...(params.retentionDays === null ? {} : { retention_days: Math.ceil(params.retentionDays) }),
      ...(summary.tags.length === 0 ? {} : { tags: summary.tags.toSorted() }),
      // What is marked so was written by the mirror, and only that may it remove.
      ...(params.store === null ? {} : { [WRITTEN_BY]: `${params.store}/${summary.id}` }),
    },
  };
  return loopJson.encode({
    ...foreign,
    id: uuidOf(`${summary.id} ${foreign.createdAt ?? ""}`),
    workflow: live.type,
    planes: {
      ...planes,
      position: {
        ...planes.position,
        workflow: live.type,
        attempts: { ...planes.position.attempts, failures: live.state.totals.failed },
      },
      // Complete: also with what the workflow has yet to take into its values.
      context: { ...planes.context, values: { ...planes.context.values, ...live.state } },
      extensions: { ...planes.extensions, [LOOP_EXTENSION]: extension },
    },
  });
}

/** Member of the metadata, passed over by other readers. */
export const WRITTEN_BY = "holdfast";

/** Of a loop, iterations of those that are allowed; of everything else, the units that it is made of. */
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

/** RFC 9562, version 8: made of a digest. */
function uuidOf(name: string): string {
  const hex = pureSha256(name);
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 3) | 8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}
