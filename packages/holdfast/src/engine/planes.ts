import { forgetAsideCalls } from "../core/position/aside.ts";
import type { Planes } from "../core/checkpoint/checkpoint.ts";
import { forgetAborts } from "../core/error-policy/forget-aborts.ts";
import { HoldfastError } from "../core/error.ts";
import { recoveryEvents } from "../core/graph/graph-recovery.ts";
import { stepGraph } from "../core/graph/graph-state.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { checkOptions } from "../core/options.ts";
import type { Position } from "../core/position/position.ts";
import type { Trigger } from "../core/checkpoint/trigger.ts";
import { rewoundTo } from "../core/state.ts";
import type { Visit } from "../core/position/visit.ts";
import { capture } from "../core/values/index.ts";

/** What a caller saves: `values` is the usual one; `planes` for those who fill more. */
export interface SaveParams {
  readonly values?: JsonObject;
  readonly tokens?: Readonly<Record<string, number>>;
  readonly stage?: string;
  readonly iteration?: number;
  readonly score?: number | null;
  readonly trigger?: Trigger;
  readonly name?: string;
  /** Used as given; what is absent is carried over from the run's newest checkpoint. */
  readonly planes?: Partial<Planes>;
  /** Capture the worktree too. Default: yes when the run has a workspace. */
  readonly files?: boolean;
}

const SAVE_OPTIONS: readonly (keyof SaveParams)[] = [
  "values",
  "tokens",
  "stage",
  "iteration",
  "score",
  "trigger",
  "name",
  "planes",
  "files",
];

/** USAGE for what a caller without types may give: an option that nobody reads, values that are not an object. */
export function checkSave(params: SaveParams): void {
  checkOptions("save", params, SAVE_OPTIONS);
  const { values } = params as { readonly values?: unknown };
  if (values === undefined || (typeof values === "object" && values !== null && !Array.isArray(values))) return;
  throw new HoldfastError({
    code: "USAGE",
    message: "The values of a save must be an object",
    hint: "Give them a name: save({ values: { result: … } }).",
  });
}

/**
 * Copies what the caller gave, at once: it may go on changing its objects while we wait for a lease or a snapshot.
 * What equals the newest checkpoint is shared with it, so that the store sees at a glance what changed.
 */
export function captureParams(params: SaveParams, newest: Planes | undefined): SaveParams {
  const { values, tokens, planes } = params;
  return {
    ...params,
    ...(values === undefined ? {} : { values: captureSame(values, newest?.context.values) }),
    ...(tokens === undefined ? {} : { tokens: captureSame(tokens, newest?.context.tokens) }),
    ...(planes === undefined ? {} : { planes: captureSame(planes, newest) }),
  };
}

/** A capture has the shape of what it was taken from: it refuses all that it could not copy as it is. */
function captureSame<T extends object>(live: T, previous: object | undefined): T {
  const captured: unknown = capture(live, previous as Json | undefined);
  return captured as T;
}

/** The next checkpoint's planes, from the newest one's and what the caller gives. Files are filled in by the snapshot. */
export function nextPlanes(previous: Planes, params: SaveParams): Planes {
  const given = params.planes;
  const position = given?.position ?? previous.position;
  const context = given?.context ?? previous.context;
  return {
    position: movesPosition(params)
      ? {
          ...position,
          stage: params.stage ?? position.stage,
          iteration: params.iteration ?? position.iteration,
          score: params.score === undefined ? position.score : params.score,
        }
      : position,
    context:
      params.values === undefined && params.tokens === undefined
        ? context
        : { values: params.values ?? context.values, tokens: params.tokens ?? context.tokens },
    files: given?.files ?? null,
    conversation: given?.conversation === undefined ? previous.conversation : given.conversation,
    effects: given?.effects ?? previous.effects,
    inputs: given?.inputs ?? previous.inputs,
    config: given?.config ?? previous.config,
    extensions: given?.extensions ?? previous.extensions,
  };
}

/**
 * What a whole restore resumes from: the target's position and values, but money that is spent stays spent and
 * effects that happened stay happened. Rewinding those would do things twice. Limits that were raised stay raised, those of the budget and those among the
 * workflow's options: whoever goes on reads them from the newest checkpoint.
 */
export function restoredPlanes(target: Planes, newest: Planes, at: string): Planes {
  return {
    ...target,
    position: {
      ...target.position,
      graph: recoveredGraph(target.position, at),
      budget: newest.position.budget,
      visit: visitAgain(target.position.visit, newest.position.visit),
    },
    conversation: rewoundTo(target.conversation, "restore"),
    config: { ...target.config, inputs: newest.config.inputs },
    effects: newest.effects,
  };
}

/**
 * A stay in the stage of its own: under the old number, effects done since would be taken for this one's. The files are
 * the ones that were chosen, also when they are half of a step: nothing puts them back further.
 */
function visitAgain(target: Visit, newest: Visit): Visit {
  const { running: _half, lost: _counted, ...visit } = forgetAborts(forgetAsideCalls(target));
  return newest.number === 0 ? visit : { ...visit, number: newest.number + 1 };
}

/** Before it is forgotten which steps were under way: a node that must not run twice may have done its work. */
export function recoveredGraph(position: Position, at: string): Position["graph"] {
  const { graph } = position;
  return graph === null ? null : recoveryEvents(position, at).reduce(stepGraph, graph);
}

function movesPosition(params: SaveParams): boolean {
  return params.stage !== undefined || params.iteration !== undefined || params.score !== undefined;
}
