import { positionShape } from "../../core/checkpoint/checkpoint-parse.ts";
import { parseCrunchEvent } from "../../core/crunch/crunch-event-shape.ts";
import type { CrunchState } from "../../core/crunch/crunch-state.ts";
import { parseCrunchState } from "../../core/crunch/crunch-state.ts";
import { parsePhase } from "../../core/crunch/phase.ts";
import { reduceCrunch } from "../../core/crunch/reduce-crunch.ts";
import { HoldfastError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { Position } from "../../core/position/position.ts";
import { NO_VISIT } from "../../core/position/visit.ts";
import type { ForeignCheckpoint } from "../format.ts";
import { field } from "../patch-document.ts";

/** A checkpoint of a crunch run that Holdfast itself carries: its values are crunch's own state. */
export interface LiveCrunch {
  readonly state: CrunchState;
  /** Where the issue stands. A run that has ended stands where it ended. */
  readonly phase: string;
  /** As it stands; without the graph that an earlier phase left behind. */
  readonly position: Position;
}

/** null: the checkpoint is of another workflow, or came from a document that has no such state. */
export function liveCrunch({ workflow, planes }: Pick<ForeignCheckpoint, "workflow" | "planes">): LiveCrunch | null {
  if (workflow !== "crunch" || !Object.hasOwn(planes.context.values, "messages")) return null;
  const { position } = planes;
  const state = stateOf(planes.context.values, position.visit.unreduced ?? []);
  if (state === null) return null;
  const phase = parsePhase(position.stage) ?? state.phases.at(-1)?.phase ?? position.stage;
  const left = position.visit.number > 0 && position.visit.graph !== true;
  return { state, phase, position: left ? { ...position, graph: null } : position };
}

/** With what was recorded and stands in the values only once the workflow has the run in its hands again. */
function stateOf(values: JsonObject, unreduced: readonly Json[]): CrunchState | null {
  try {
    return unreduced.reduce<CrunchState>(
      (state, event) => reduceCrunch(state, parseCrunchEvent(event)),
      parseCrunchState(values),
    );
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

/**
 * The member that crunch's own readers pass over: all that a run needs to go on, in Holdfast's words. Crunch's members tell the same as far as
 * they go; where somebody changed one of those, theirs counts (see decode).
 */
export function keptMember({ state, position }: LiveCrunch): JsonObject {
  const { visit: _steps, ...rest } = position;
  // Both are JSON: an interface without index signature is not Json to the compiler.
  return { version: 1, position: rest as object as JsonObject, values: state as object as JsonObject };
}

export interface Kept {
  readonly position: Position;
  readonly values: JsonObject;
}

/** "damaged": there is one, and it is not what we write. */
export function readKept(document: JsonObject): Kept | "damaged" | null {
  const kept = field(document, KEPT);
  if (kept === undefined || kept === null) return null;
  if (!isJsonObject(kept) || kept["version"] !== 1) return "damaged";
  const { values } = kept;
  const position = isJsonObject(kept["position"]) ? { ...kept["position"], visit: { ...NO_VISIT } } : null;
  if (!isJsonObject(values) || position === null || positionShape(position) !== null) return "damaged";
  // It fits the shape.
  return stateOf(values, []) === null ? "damaged" : { position: position as object as Position, values };
}

/** Where `keptMember` stands in a document. */
export const KEPT = "holdfast";
