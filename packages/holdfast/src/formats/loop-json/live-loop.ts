import type { Planes } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { parseRalphEvent } from "../../core/ralph/event.ts";
import { LOOP_ID } from "../../core/ralph/loop-id.ts";
import { defaultRalphOptions, parseRalphOptions } from "../../core/ralph/options.ts";
import type { RalphOptions, WorkflowType } from "../../core/ralph/options.ts";
import { reduceRalph } from "../../core/ralph/reduce.ts";
import { parseRalphState } from "../../core/ralph/state.ts";
import type { RalphState } from "../../core/ralph/state.ts";
import type { Run } from "../../core/run/run.ts";
import { pureSha256 } from "../../core/sha256.ts";
import { isUsableLoopId } from "./loop-id.ts";
import { LOOP_EXTENSION } from "./to-checkpoint.ts";

/** A checkpoint of a run that the ralph workflow carries, in the words of the format. */
export interface LiveLoop {
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
export function liveLoop(
  run: Pick<Run, "id" | "workflow" | "forkedFrom">,
  planes: Pick<Planes, "position" | "context" | "config" | "extensions">,
  ids?: Pick<LiveLoop, "loopId" | "workflowId">,
): LiveLoop | null {
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
function importedIds(run: Pick<Run, "id">, kept: JsonObject): Pick<LiveLoop, "loopId" | "workflowId"> {
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
}: Pick<Planes, "position" | "context" | "config">): Pick<LiveLoop, "options" | "state"> | null {
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
