// The part of a workflow that is data: stages, events and transitions, how a run moves between stages, and the checks of a definition.

import { HoldfastError } from "@holdfast/platform/error";
import type { InputsPlane, Trigger } from "./checkpoint.ts";
import { nearest } from "./options.ts";
import type { Position } from "./position.ts";

/** Which stage follows which event, as data. A missing pair is an error. */
export type TransitionTable = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The part of a workflow that is data: it is checked when defined, hashed into its definition, and shown. */
export interface WorkflowShape {
  readonly name: string;
  /** The author increases it when the meaning of stages changes. Part of the definition's hash. */
  readonly version: number;
  readonly initial: string;
  readonly stages: readonly string[];
  readonly events: readonly string[];
  readonly transitions: TransitionTable;
  /** Stages that end the run. One may still have a function, which runs before the end is written (a report, a last restore). */
  readonly ends: Readonly<Record<string, "done" | "failed">>;
}

/** The result of a stage's work. */
export interface StageResult<S> {
  readonly event: string;
  /** Why this event, in plain words, for people. */
  readonly reason: string;
  /** The workflow's own values from now on; absent: unchanged. */
  readonly state?: S;
  /** What the run works on (issue, base), once it is known; absent fields are unchanged. */
  readonly inputs?: Partial<InputsPlane>;
  /** Text for the next prompt; absent: unchanged; null: none. */
  readonly feedback?: string | null;
  /** Score of a review; the engine remembers the best one. */
  readonly score?: number;
  /** Trigger of the checkpoint at the end of the stage. Absent: "iteration" when a new one begins, else "stage". */
  readonly trigger?: Trigger;
}

/**
 * The position after a stage concluded with this result. Counters are unchanged: the guard has already counted. The stage attempt is new,
 * so finished steps of the old one do not answer in it.
 */
export function transition(shape: WorkflowShape, position: Position, result: StageResult<unknown>): Position {
  const stage = nextStage(shape, position.stage, result.event);
  return {
    ...position,
    stage,
    score: result.score ?? position.score,
    feedback: result.feedback === undefined ? position.feedback : result.feedback,
    reason: result.reason,
    stageAttempt: { number: position.stageAttempt.number + 1, steps: {}, failures: {} },
  };
}

/** Throws WORKFLOW_INVALID, in this order: an unknown stage, an unknown event, a pair that the table lacks. */
export function nextStage(shape: WorkflowShape, stage: string, event: string): string {
  if (!shape.stages.includes(stage)) throw unknown("stage", stage, shape, shape.stages);
  if (!shape.events.includes(event)) throw unknown("event", event, shape, shape.events);
  const row = Object.hasOwn(shape.transitions, stage) ? shape.transitions[stage] : undefined;
  const next = row !== undefined && Object.hasOwn(row, event) ? row[event] : undefined;
  if (next !== undefined) return next;
  throw new HoldfastError({
    code: "WORKFLOW_INVALID",
    message: `Workflow ${shape.name} has no transition for ${stage}+${event}`,
    hint: `Add the pair to its table, or let ${stage} end with one of ${Object.keys(row ?? {}).join(", ") || "its events"}.`,
    data: { stage, event },
  });
}

function unknown(what: string, name: string, shape: WorkflowShape, known: readonly string[]): HoldfastError {
  const [guess] = nearest(name, known);
  return new HoldfastError({
    code: "WORKFLOW_INVALID",
    message: `Workflow ${shape.name} has no ${what} ${JSON.stringify(name)}`,
    hint: guess === undefined ? `It has ${known.join(", ")}.` : `Did you mean ${guess}?`,
    data: { [what]: name },
  });
}

export type Pair = readonly [stage: string, event: string];

/** Throws WORKFLOW_INVALID with all problems, so that the author can fix them at once. */
export function checkWorkflow(params: {
  readonly shape: WorkflowShape;
  /** Stages that have a function. */
  readonly functions: readonly string[];
  /** Pairs that the table must have. */
  readonly required: readonly Pair[];
}): void {
  const { shape } = params;
  const problems = [
    ...badNames(shape),
    ...unknownNames(shape, params.functions),
    ...missingFunctions(shape, params.functions),
    ...missingPairs(shape, params.required),
  ];
  // Reachability is meaningful only if all names in the table are valid.
  if (problems.length === 0) problems.push(...unreachable(shape));
  if (problems.length === 0) return;
  throw new HoldfastError({
    code: "WORKFLOW_INVALID",
    message: `Workflow ${JSON.stringify(shape.name)} does not hold together: ${problems.join("; ")}`,
    hint: "Fix the definition; the message names every wrong stage, event and pair.",
    data: { problems },
  });
}

/** Stage names become part of an effect's key. */
const NAME = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/;

function badNames(shape: WorkflowShape): readonly string[] {
  const bad = [shape.name, ...shape.stages, ...shape.events].filter((name) => !NAME.test(name));
  return [
    ...(bad.length === 0 ? [] : [`not a name (lower-case letters, digits, . _ -): ${quoted(bad)}`]),
    ...listed("stage named twice", repeated(shape.stages)),
    ...listed("event named twice", repeated(shape.events)),
    ...(Number.isSafeInteger(shape.version) && shape.version >= 1 ? [] : ["the version must be a whole number from 1"]),
  ];
}

function unknownNames(shape: WorkflowShape, functions: readonly string[]): readonly string[] {
  const stages = new Set(shape.stages);
  const events = new Set(shape.events);
  const named = [shape.initial, ...Object.keys(shape.ends), ...functions, ...Object.keys(shape.transitions)];
  const badEvents: string[] = [];
  const used = new Set<string>();
  for (const [stage, row] of Object.entries(shape.transitions)) {
    for (const [event, target] of Object.entries(row)) {
      named.push(target);
      used.add(event);
      if (!events.has(event)) badEvents.push(`${stage}+${event}`);
    }
  }
  return [
    ...listed("unknown stage", [...new Set(named.filter((name) => !stages.has(name)))]),
    ...listed("unknown event", badEvents),
    ...listed(
      "event that no stage has",
      shape.events.filter((event) => !used.has(event)),
    ),
  ];
}

function missingFunctions(shape: WorkflowShape, functions: readonly string[]): readonly string[] {
  const working = shape.stages.filter((stage) => !Object.hasOwn(shape.ends, stage));
  return [
    ...listed(
      "stage without a function",
      working.filter((stage) => !functions.includes(stage)),
    ),
    ...(Object.hasOwn(shape.ends, shape.initial) ? [`the initial stage ${shape.initial} is an end`] : []),
  ];
}

function missingPairs(shape: WorkflowShape, required: readonly Pair[]): readonly string[] {
  const rowOf = (stage: string): readonly string[] =>
    Object.hasOwn(shape.transitions, stage) ? Object.keys(shape.transitions[stage] ?? {}) : [];
  const stuck = shape.stages.filter(
    (stage) => !Object.hasOwn(shape.ends, stage) && rowOf(stage).every((event) => event === "fatal"),
  );
  const missing = required.filter(([stage, event]) => !rowOf(stage).includes(event));
  return [
    ...listed("stage without a transition", stuck),
    ...listed(
      "missing transition",
      missing.map(([stage, event]) => `${stage}+${event}`),
    ),
  ];
}

function unreachable(shape: WorkflowShape): readonly string[] {
  const reached = new Set([shape.initial]);
  for (const stage of reached) {
    for (const target of Object.values(shape.transitions[stage] ?? {})) reached.add(target);
  }
  return listed(
    "stage that nothing leads to",
    shape.stages.filter((stage) => !reached.has(stage)),
  );
}

function listed(what: string, names: readonly string[]): readonly string[] {
  return names.length === 0 ? [] : [`${what}: ${names.join(", ")}`];
}

function repeated(names: readonly string[]): readonly string[] {
  return [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
}

function quoted(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(", ");
}
