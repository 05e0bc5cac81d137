import type { CheckpointSummary } from "../../core/checkpoint/checkpoint.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { planUnits } from "../../core/ralph/units.ts";
import { pureSha256 } from "../../core/sha256.ts";
import type { Encoded, ForeignCheckpoint } from "../format.ts";
import type { LiveLoop } from "./live-loop.ts";
import { loopJson } from "./loop-json.ts";
import { LOOP_EXTENSION } from "./to-checkpoint.ts";

/**
 * A checkpoint of a ralph run as a document of version 2, with all members that the format has for it. The same checkpoint gives the same
 * bytes, whenever and wherever it is written.
 */
export function encodeLive(params: {
  readonly foreign: ForeignCheckpoint;
  readonly live: LiveLoop;
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
function progressOf({ options, state, type }: LiveLoop): JsonObject {
  const [total, completed] =
    type === "ralph_loop" ? [options.maxIterations, state.totals.iterations] : [planUnits(options).length, state.unit];
  const percentage = Math.min(100, Math.round((completed / total) * 10_000) / 100);
  return { total_steps: total, completed_steps: completed, percentage };
}

function agentState({ planes }: ForeignCheckpoint, { options, state }: LiveLoop): JsonObject {
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
