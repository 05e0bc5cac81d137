import { forgetAsideCalls } from "../position/aside.ts";
import { NOTHING, hold, settle } from "../position/budget.ts";
import type { CallErrors } from "../error-policy/call-errors.ts";
import { callErrorsShape, verdictShape } from "../error-policy/call-errors-shape.ts";
import type { Graph } from "../graph/graph.ts";
import { graphEventShape, graphShape } from "../graph/graph-shape.ts";
import { GraphSchedule } from "../graph/graph-schedule.ts";
import type {
  GraphMoved,
  GraphSet,
  JournalEntry,
  StageEntered,
  StepFailed,
  StepFinished,
  StepLost,
  StepSession,
  StepStarted,
} from "./journal.ts";
import type { Json } from "../json.ts";
import type { Amounts, Budget, Position } from "../position/position.ts";
import { count, flag, json, list, nullable, object, optional, parseShape, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import { isUnsavedChange } from "./unsaved-change.ts";
import type { RecordTokens, RunningStep } from "../position/visit.ts";

type FoldedEntry = Pick<JournalEntry, "run" | "entry" | "kind" | "body">;

export interface Progress {
  /** Where the run stands: the checkpoint's position and all that was finished, failed, begun and spent since. */
  readonly position: Position;
  /**
   * Checkpoints newer than this one exist and cannot be used. What was finished after it is not taken over, because the
   * files that belong to it are gone; what was spent is, and the visit gets a number that was never given.
   */
  readonly fellBack: boolean;
  /** A session was told since the checkpoint: an agent has been called, so the conversation in it is not the one to go back to any more. */
  readonly talked: boolean;
  /** Something was taken over from these entries that no checkpoint holds. */
  readonly changed: boolean;
}

/** A run stands at its newest checkpoint plus the entries after it. */
export function foldProgress(params: {
  readonly position: Position;
  /** Of the checkpoint. */
  readonly sequence: number;
  readonly entries: readonly FoldedEntry[];
}): Progress {
  const { position, entries } = params;
  const fellBack = entries.some(({ kind }) => kind === "checkpoint");
  const fold = begin(position, params.sequence);
  for (const entry of entries) {
    step(fold, entry);
    if (!fellBack) stepGraphOf(fold, entry);
  }
  const { budget, talked } = fold;
  if (fellBack) {
    const number = Math.max(position.visit.number, fold.highest) + 1;
    return {
      position: { ...position, budget, visit: { ...forgetAsideCalls(position.visit), number } },
      fellBack,
      talked,
      changed: false,
    };
  }
  const visit = {
    number: position.visit.number,
    steps: Object.fromEntries(fold.steps),
    failures: Object.fromEntries(fold.failures),
    ...(fold.running.size === 0 ? {} : { running: Object.fromEntries(fold.running) }),
    ...(fold.sessions.size === 0 ? {} : { sessions: Object.fromEntries(fold.sessions) }),
    ...(fold.graphSet ? { graph: true } : {}),
    ...(fold.unreduced.length === 0 ? {} : { unreduced: fold.unreduced }),
    ...(fold.asides.size === 0 ? {} : { asides: Object.fromEntries(fold.asides) }),
    ...(fold.errors.size === 0 ? {} : { errors: Object.fromEntries(fold.errors) }),
  };
  return {
    position: { ...position, budget, visit, graph: fold.graph() },
    fellBack,
    talked,
    changed: entries.some(isUnsavedChange),
  };
}

interface Fold {
  readonly visit: number;
  readonly sequence: number;
  readonly steps: Map<string, Json>;
  readonly failures: Map<string, number>;
  readonly running: Map<string, RunningStep>;
  readonly sessions: Map<string, string | null>;
  readonly unreduced: Json[];
  graph: () => Graph | null;
  /** Made when something moves: most runs have no graph. */
  schedule: GraphSchedule | undefined;
  graphSet: boolean;
  readonly asides: Map<string, string>;
  readonly errors: Map<string, CallErrors>;
  budget: Budget;
  highest: number;
  talked: boolean;
}

function begin(position: Position, sequence: number): Fold {
  const { number, steps, failures, running = {}, sessions = {}, asides = {}, errors = {} } = position.visit;
  return {
    visit: number,
    sequence,
    steps: new Map(Object.entries(steps)),
    failures: new Map(Object.entries(failures)),
    running: new Map(Object.entries(running)),
    sessions: new Map(Object.entries(sessions)),
    unreduced: [...(position.visit.unreduced ?? [])],
    graph: () => position.graph,
    schedule: undefined,
    graphSet: position.visit.graph ?? false,
    asides: new Map(Object.entries(asides)),
    errors: new Map(Object.entries(errors)),
    budget: position.budget,
    highest: number,
    talked: false,
  };
}

function step(fold: Fold, entry: FoldedEntry): void {
  switch (entry.kind) {
    case "stage.entered":
      fold.highest = Math.max(fold.highest, read(enteredShape, entry).visit);
      return;
    case "step.started": {
      const { step: name, files, estimate, counted, aside } = read(startedShape, entry);
      // Begun again without an end: the first try died and never told what it took.
      pay(fold, name, fold.running.get(name)?.estimate ?? null);
      if (estimate !== null) fold.budget = { ...fold.budget, reserved: sum(fold.budget.reserved, estimate) };
      fold.running.set(name, { files, estimate, base: fold.sequence, ...(counted === undefined ? {} : { counted }) });
      if (aside !== undefined) fold.asides.set(name, aside);
      return;
    }
    case "step.lost": {
      const { step: name, spent, held } = read(lostShape, entry);
      pay(fold, name, spent);
      if (held !== undefined) fold.budget = hold(fold.budget, held);
      fold.running.delete(name);
      return;
    }
    case "step.finished": {
      const { visit, step: name, result, spent, recorded } = read(finishedShape, entry);
      pay(fold, name, spent);
      fold.running.delete(name);
      if (visit !== fold.visit) return;
      fold.steps.set(name, result);
      if (recorded === true) fold.unreduced.push(result);
      fold.failures.delete(name);
      fold.sessions.delete(name);
      fold.asides.delete(name);
      fold.errors.delete(name);
      return;
    }
    case "step.failed": {
      const { visit, step: name, spent, verdict, errors } = read(failedShape, entry);
      pay(fold, name, spent);
      fold.running.delete(name);
      if (visit !== fold.visit) return;
      fold.failures.set(name, (fold.failures.get(name) ?? 0) + 1);
      if (errors !== undefined) fold.errors.set(name, errors);
      // A session is of one agent; the next begins its own.
      if (verdict?.action === "fallback") fold.sessions.delete(name);
      return;
    }
    case "step.session": {
      const { visit, step: name, session } = read(sessionShape, entry);
      if (visit === fold.visit) fold.sessions.set(name, session);
      // One aside of it says nothing of the run's own conversation.
      if (!fold.asides.has(name)) fold.talked = true;
      return;
    }
    default:
  }
}

function stepGraphOf(fold: Fold, entry: FoldedEntry): void {
  if (entry.kind === "graph.set") {
    const { visit, graph } = read(graphSetShape, entry);
    if (visit !== fold.visit) return;
    fold.graph = () => graph;
    fold.schedule = undefined;
    fold.graphSet = true;
  } else if (entry.kind === "graph.moved") {
    const { visit, events } = read(graphMovedShape, entry);
    if (visit !== fold.visit) return;
    const schedule = fold.schedule ?? scheduleOf(fold.graph());
    if (schedule === undefined) return;
    fold.schedule = schedule;
    schedule.apply(events);
    fold.graph = () => schedule.graph();
  }
}

function scheduleOf(graph: Graph | null): GraphSchedule | undefined {
  return graph === null ? undefined : new GraphSchedule(graph);
}

function pay(fold: Fold, name: string, actual: Amounts | null): void {
  const estimate = fold.running.get(name)?.estimate ?? null;
  if (estimate === null && actual === null) return;
  fold.budget = settle(fold.budget, { estimate: estimate ?? NOTHING, actual: actual ?? NOTHING });
}

function sum(a: Amounts, b: Amounts): Amounts {
  return {
    tokens: a.tokens + b.tokens,
    microUsd: a.microUsd + b.microUsd,
    milliseconds: a.milliseconds + b.milliseconds,
  };
}

function read<T>(shape: Shape<T>, entry: FoldedEntry): T {
  return parseShape({
    shape,
    value: entry.body,
    what: `Journal entry ${entry.entry} of run ${entry.run} (${entry.kind})`,
  });
}

const amounts: Shape<Amounts> = object<Amounts>({
  tokens: count,
  microUsd: count,
  milliseconds: count,
  unpriced: optional(count),
  uncounted: optional(count),
});
const enteredShape: Shape<StageEntered> = object<StageEntered>({ visit: count, stage: text, iteration: count });
const startedShape: Shape<StepStarted> = object<StepStarted>({
  visit: count,
  step: text,
  files: flag,
  estimate: nullable(amounts),
  counted: optional(object<RecordTokens>({ input: count, output: count })),
  aside: optional(text),
});
const lostShape: Shape<StepLost> = object<StepLost>({
  visit: count,
  step: text,
  spent: amounts,
  held: optional(amounts),
});
const finishedShape: Shape<StepFinished> = object<StepFinished>({
  visit: count,
  step: text,
  result: json,
  spent: nullable(amounts),
  recorded: optional(flag),
});
const failedShape: Shape<StepFailed> = object<StepFailed>({
  visit: count,
  step: text,
  reason: text,
  spent: nullable(amounts),
  verdict: optional(verdictShape),
  errors: optional(callErrorsShape),
  code: optional(text),
});
const sessionShape: Shape<StepSession> = object<StepSession>({
  visit: count,
  step: text,
  session: nullable(text),
});
const graphSetShape: Shape<GraphSet> = object<GraphSet>({ visit: count, graph: graphShape });
const graphMovedShape: Shape<GraphMoved> = object<GraphMoved>({ visit: count, events: list(graphEventShape) });
