import type { Freshness } from "../core/resume/freshness.ts";
import type { JsonObject } from "../core/json.ts";
import { pureSha256 } from "../core/sha256.ts";
import { canonicalJson } from "../core/values/index.ts";
import { checkWorkflow } from "../core/position/workflow-check.ts";
import type { Pair } from "../core/position/workflow-check.ts";
import type { TransitionTable, WorkflowShape } from "../core/position/workflow.ts";
import type { Guard, Reducer, Workflow } from "./definition.ts";
import type { StageFunction } from "./stage-context.ts";

export interface WorkflowParams<S extends JsonObject> {
  readonly name: string;
  /** Raise it when stages mean something else than before: runs under way are then asked about. Default 1. */
  readonly version?: number;
  readonly initial: string;
  readonly stages: Readonly<Record<string, StageFunction<S>>>;
  readonly transitions: TransitionTable;
  /** A stage named here may have a function too; it runs before the end is written. */
  readonly ends: Readonly<Record<string, "done" | "fatal">>;
  /** Default: those of the table. */
  readonly events?: readonly string[];
  /** Pairs that must be in the table, for authors who build it from parts. */
  readonly required?: readonly Pair[];
  readonly initialState: (options: JsonObject) => S;
  readonly parseState?: (values: JsonObject) => S;
  /** Needed by stages that `record` events. */
  readonly reduce?: Reducer<S>;
  readonly guard?: Guard<S>;
  /** How it takes what changed outside while nobody worked. Default: by the general policy. */
  readonly freshness?: Freshness;
  /** Stages that a run may enter before it is fatal. Default 200. */
  readonly maxVisits?: number;
}

/**
 * Checks and freezes a workflow. Every stage can end with the event `fatal`: where the table has no row for it, it leads
 * to the fatal end, and where there is no fatal end, to a stage of that name.
 */
export function defineWorkflow<S extends JsonObject>(params: WorkflowParams<S>): Workflow<S> {
  const shape = shapeOf(params);
  checkWorkflow({ shape, functions: Object.keys(params.stages), required: params.required ?? [] });
  return Object.freeze({
    shape,
    definition: pureSha256(`holdfast-workflow-1\n${canonicalJson(asJson(shape))}`),
    stages: { ...params.stages },
    initialState: params.initialState,
    // A run's values are read only under the definition that wrote them, and that wrote them as S.
    parseState: params.parseState ?? ((values: JsonObject) => values as S),
    reduce: params.reduce ?? null,
    freshness: params.freshness ?? null,
    guard: limitVisits(shape, params.guard ?? ((given) => given), params.maxVisits ?? 200),
  });
}

function shapeOf<S extends JsonObject>(params: WorkflowParams<S>): WorkflowShape {
  const declared = new Set([...Object.keys(params.stages), ...Object.keys(params.ends)]);
  const fatal = Object.entries(params.ends).find(([, end]) => end === "fatal")?.[0] ?? "fatal";
  const ends = { ...params.ends, [fatal]: "fatal" as const };
  const stages = [...new Set([...declared, fatal])];
  const rows = stages
    .filter((stage) => !Object.hasOwn(ends, stage) || Object.hasOwn(params.transitions, stage))
    .map((stage) => {
      const row = Object.hasOwn(params.transitions, stage) ? params.transitions[stage] : undefined;
      return [stage, { fatal, ...row }] as const;
    });
  const strangers = Object.entries(params.transitions).filter(([stage]) => !stages.includes(stage));
  const transitions = Object.fromEntries([...rows, ...strangers]);
  const events = params.events ?? Object.values(params.transitions).flatMap((row) => Object.keys(row));
  return {
    name: params.name,
    version: params.version ?? 1,
    initial: params.initial,
    stages,
    events: [...new Set([...events, "fatal"])],
    transitions,
    ends,
  };
}

/** A table can go in circles for ever; a run may not. */
function limitVisits<S extends JsonObject>(shape: WorkflowShape, guard: Guard<S>, maxVisits: number): Guard<S> {
  return (given) => {
    const { position, result } = guard(given);
    const target = shape.transitions[position.stage]?.[result.event];
    const ends = target !== undefined && Object.hasOwn(shape.ends, target);
    if (ends || position.visit.number < maxVisits) return { position, result };
    return { position, result: { ...result, event: "fatal", reason: `Max stage visits exceeded: ${maxVisits}` } };
  };
}

function asJson(shape: WorkflowShape): JsonObject {
  const { name, version, initial, stages, events, transitions, ends } = shape;
  return { name, version, initial, stages, events, transitions, ends };
}
