// What a stage changes of the run's state besides its steps: the workflow's own values, by recorded events, and the task graph.

import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type GraphEvent, stepGraph, viewGraph } from "./graph-state.ts";
import { type Graph, checkGraph } from "./graph.ts";
import type { NewEntry } from "./journal.ts";
import type { Json, JsonObject } from "./json.ts";
import { checkArgument } from "./options.ts";
import type { ApplyEvent } from "./state.ts";
import type { StageExecution } from "./step.ts";
import { capture, captureState } from "./values.ts";
import type { StageGraph, Workflow } from "./workflow.ts";

/** The workflow's values in the middle of a stage: readable, and changed by one recorded event at a time. */
export class Recorder<S extends object> {
  readonly #execution: StageExecution;
  readonly #workflow: Workflow<S>;
  /** Caches the parsed state, so that an unchanged state is the same object. */
  #parsed: { readonly values: JsonObject; readonly state: S } | undefined;

  constructor(execution: StageExecution, workflow: Workflow<S>) {
    this.#execution = execution;
    this.#workflow = workflow;
    this.#parsed = {
      values: execution.runSession.state.values,
      state: workflow.parseState(execution.runSession.state.values),
    };
  }

  get state(): S {
    const { values } = this.#execution.runSession.state;
    if (this.#parsed?.values !== values) this.#parsed = { values, state: this.#workflow.parseState(values) };
    return this.#parsed.state;
  }

  /** The event and the values that it makes are one commit: an event that the workflow's reducer rejects is not written. */
  async record(name: string, live: Json): Promise<Json> {
    const execution = this.#execution;
    const { runSession } = execution;
    const known = execution.claim(name);
    if (known !== undefined) {
      if (runSession.listening) runSession.emit({ kind: "step_finished", step: name, replayed: true });
      return known;
    }
    return await execution.busy(async () => {
      let event: Json;
      let written: Promise<void>;
      try {
        event = capture(live);
        if (this.#workflow.reduce === null) throw noReducer(this.#workflow.shape.name);
        written = runSession.append(execution.finished(name, { recorded: true, result: event, spent: null }));
      } catch (error) {
        execution.unclaim(name);
        throw error;
      }
      await written;
      if (runSession.listening) runSession.emit({ kind: "step_finished", step: name, replayed: false });
      return event;
    });
  }
}

/** Applies a recorded event to the values with the workflow's `reduce`. */
export function eventsOf<S extends object>(workflow: Workflow<S>, run: string): NonNullable<ApplyEvent> {
  const { reduce, shape } = workflow;
  return (values, event) => {
    if (reduce === null) {
      throw new HoldfastError({
        code: "WORKFLOW_CHANGED",
        message: `Run ${run} has recorded events, and workflow ${shape.name} has no reducer any more`,
        hint: "Continue it with the workflow version that recorded them.",
        retry: "ask",
        data: { run },
      });
    }
    return captureState(reduce(workflow.parseState(values), event), values);
  };
}

function noReducer(workflow: string): HoldfastError {
  return usageError(
    `Workflow ${workflow} records an event and has no reducer`,
    "Give defineWorkflow a `reduce` that says what the event makes of the state.",
  );
}

/** The graph in the run's state, and the entries that change it. */
export function stageGraph(execution: StageExecution): StageGraph {
  const { runSession } = execution;
  /** The graph after the given events, while `choose` reads it; one commit contains both. */
  let tentative: Graph | null = null;
  const view = viewGraph(() => tentative ?? requireGraph(execution));

  async function commitMoves(params: {
    readonly given: readonly GraphEvent[];
    readonly choose: Parameters<StageGraph["moveThen"]>[1];
    readonly also: readonly NewEntry[];
  }): Promise<readonly GraphEvent[]> {
    const given = params.given.map(captureEvent);
    tentative = given.reduce(stepGraph, requireGraph(execution));
    let chosen: readonly GraphEvent[];
    try {
      chosen = params.choose(view).map(captureEvent);
    } finally {
      tentative = null;
    }
    const events = [...given, ...chosen];
    const entries = [...(events.length === 0 ? [] : [movedEntry(events, runSession.attempt.number)]), ...params.also];
    if (entries.length > 0) await execution.busy(() => runSession.append(...entries));
    if (runSession.listening && events.length > 0) runSession.emit({ kind: "graph_moved", events });
    return chosen;
  }

  const moveThen: StageGraph["moveThen"] = async (given, choose) => {
    // A completed node may still be written while work stops; nothing starts then.
    if (given.length > 0 && given.every(({ kind }) => kind === "complete")) execution.open();
    else execution.check();
    return await commitMoves({ given, choose, also: [] });
  };
  return {
    now: () => currentGraph(execution),
    view() {
      requireGraph(execution);
      return view;
    },
    set: (graph) => setGraph(execution, graph),
    moveThen,
    async move(...events) {
      await moveThen(events, () => []);
    },
    async moveOnce(name, ...events) {
      if (execution.claim(name) !== undefined) return;
      const also = [execution.finished(name, { result: null, spent: null })];
      await commitMoves({ given: events, choose: () => [], also }).catch((error: unknown) => {
        execution.unclaim(name);
        throw error;
      });
    },
  };
}

async function setGraph(execution: StageExecution, live: Graph): Promise<void> {
  const { runSession } = execution;
  checkArgument("graph.set", "its graph", live, "object");
  execution.check();
  const current = currentGraph(execution);
  if (current !== null) {
    if (current.id !== live.id) throw anotherGraph(execution, current.id, live.id);
    return;
  }
  const graph = capture(live);
  // A capture has the same shape as its source.
  checkGraph(graph as unknown as Graph);
  await execution.busy(() =>
    runSession.append({ kind: "graph.set", body: { graph, stageAttempt: runSession.attempt.number } }),
  );
}

function captureEvent(event: GraphEvent): GraphEvent {
  // The cast is safe as above.
  return capture(event) as unknown as GraphEvent;
}

export function movedEntry(events: readonly GraphEvent[], stageAttempt: number): NewEntry {
  // The events are plain data, captured or made by the engine.
  return { kind: "graph.moved", body: { events: events as unknown as Json[], stageAttempt } };
}

/** Null: this stage attempt has set none. The graph of an earlier attempt cannot be changed any more. */
function currentGraph({ runSession }: StageExecution): Graph | null {
  const { graph, stageAttempt } = runSession.state.position;
  return stageAttempt.graph === true ? graph : null;
}

function requireGraph(execution: StageExecution): Graph {
  const graph = currentGraph(execution);
  if (graph !== null) return graph;
  throw usageError(
    `Stage ${execution.stage} moves a graph that it has not set`,
    "Call graph.set first; the graph of an earlier stage attempt cannot be changed.",
    { stage: execution.stage },
  );
}

function anotherGraph({ stage }: StageExecution, current: string, id: string): HoldfastError {
  return usageError(
    `Stage ${stage} sets graph ${id}, and this stage attempt has set ${current}`,
    "A stage attempt has one graph: add nodes to it, or set the second one in another stage.",
    { stage },
  );
}
