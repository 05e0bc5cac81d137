import type { Json, JsonObject } from "../../core/json.ts";
import { parseRalphEvent } from "../../core/ralph/event.ts";
import { reduceRalph } from "../../core/ralph/reduce.ts";
import { initialRalphState, parseRalphState } from "../../core/ralph/state.ts";
import type { RalphState } from "../../core/ralph/state.ts";
import { count, nullable, object, parseShape, text } from "../../core/shape.ts";
import type { Shape } from "../../core/shape.ts";
import type { Base } from "../publish/find-base.ts";
import type { OpenedRequest } from "../publish/open-pull-request.ts";

/** Where the loop's work begins and ends up. What it relies on outside goes by the names that every workflow uses. */
export type Place = {
  /** The commit that the loop began on; its own commits are those after it. null before it has begun. */
  readonly began: string | null;
  /** Of a run that ends in a pull request. */
  readonly base: Base | null;
  readonly pushed: string | null;
  readonly pullRequest: OpenedRequest | null;
};

/** The values of a ralph run: the loop's own, which events change, and its place, which stages set. */
export type LoopState = RalphState & Place;

export const initialLoopState: LoopState = {
  ...initialRalphState,
  began: null,
  base: null,
  pushed: null,
  pullRequest: null,
};

export function parseLoopState(values: JsonObject): LoopState {
  const place = parseShape({ shape: PLACE, value: values, what: "The state of a ralph run" });
  return { ...parseRalphState(values), ...place };
}

export function reduceLoop(state: LoopState, event: Json): LoopState {
  return { ...state, ...reduceRalph(state, parseRalphEvent(event)) };
}

const PLACE: Shape<Place> = object<Place>({
  began: nullable(text),
  base: nullable(object<Base>({ branch: text, commit: text })),
  pushed: nullable(text),
  pullRequest: nullable(object<OpenedRequest>({ number: count, url: text })),
});
