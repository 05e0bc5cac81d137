import type { Freshness } from "../core/resume/freshness.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { Position } from "../core/position/position.ts";
import type { StageResult, WorkflowShape } from "../core/position/workflow.ts";
import type { StageFunction } from "./stage-context.ts";

/** A workflow that runs: its data, its stages' functions, and how counting turns events into limits. */
export interface Workflow<S extends JsonObject> {
  readonly shape: WorkflowShape;
  /** Hash of the shape, compared on resume. */
  readonly definition: string;
  readonly stages: Readonly<Record<string, StageFunction<S>>>;
  /** Values of a new run. */
  readonly initialState: (options: JsonObject) => S;
  /** Parses what a checkpoint holds; STORE_CORRUPT or USAGE when it does not fit. */
  readonly parseState: (values: JsonObject) => S;
  /** Pure. What an event recorded by a stage makes of the values; null: its stages record none. */
  readonly reduce: Reducer<S> | null;
  readonly guard: Guard<S>;
  /** What it knows better about a world that changed; null: the default policy's word on everything. */
  readonly freshness: Freshness | null;
}

/**
 * Called when the event is recorded, and again with what the journal holds whenever the run is taken up from an older
 * checkpoint: the same events must always add up to the same values. It looks at nothing but its two arguments.
 */
export type Reducer<S extends JsonObject> = (state: S, event: Json) => S;

/**
 * Pure. Called with what the stage concluded before the table is asked: counts attempts and streaks, and turns an event into `fatal` (with
 * the true reason) when a limit is reached. What it returns is the position that is saved.
 */
export type Guard<S extends JsonObject> = (params: {
  readonly position: Position;
  readonly result: StageResult<S>;
  readonly options: JsonObject;
}) => { readonly position: Position; readonly result: StageResult<S> };
