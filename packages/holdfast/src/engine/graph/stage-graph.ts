import { HoldfastError } from "../../core/error.ts";
import type { Graph } from "../../core/graph/graph.ts";
import { checkGraph } from "../../core/graph/graph-order.ts";
import { stepGraph } from "../../core/graph/graph-state.ts";
import type { GraphEvent } from "../../core/graph/graph-state.ts";
import { viewGraph } from "../../core/graph/graph-view.ts";
import type { NewEntry } from "../../core/journal/journal.ts";
import type { Json } from "../../core/json.ts";
import { capture } from "../../core/values/index.ts";
import type { StageGraph } from "../stage-context.ts";
import type { Stay } from "../stage/stay.ts";

/** The graph in the run's state, and the entries that change it. */
export function stageGraph(stay: Stay): StageGraph {
  const { writer } = stay;
  /** The graph after the given events, while `choose` looks at it: the commit holds both. */
  let tentative: Graph | null = null;
  const view = viewGraph(() => tentative ?? requireGraph(stay));

  async function commitMoves(params: {
    readonly given: readonly GraphEvent[];
    readonly choose: Parameters<StageGraph["moveThen"]>[1];
    readonly also: readonly NewEntry[];
  }): Promise<readonly GraphEvent[]> {
    const given = params.given.map(captureEvent);
    tentative = given.reduce(stepGraph, requireGraph(stay));
    let chosen: readonly GraphEvent[];
    try {
      chosen = params.choose(view).map(captureEvent);
    } finally {
      tentative = null;
    }
    const events = [...given, ...chosen];
    const entries = [...(events.length === 0 ? [] : [movedEntry(events, writer.visit)]), ...params.also];
    if (entries.length > 0) await stay.busy(() => writer.append(...entries));
    if (writer.listening && events.length > 0) writer.tell({ kind: "graph_moved", events });
    return chosen;
  }

  const moveThen: StageGraph["moveThen"] = async (given, choose) => {
    // A node that has ended may still be written while work stops; nothing starts then.
    if (given.length > 0 && given.every(({ kind }) => kind === "complete")) stay.open();
    else stay.check();
    return await commitMoves({ given, choose, also: [] });
  };
  return {
    now: () => currentGraph(stay),
    view() {
      requireGraph(stay);
      return view;
    },
    set: (graph) => setGraph(stay, graph),
    moveThen,
    async move(...events) {
      await moveThen(events, () => []);
    },
    async moveOnce(name, ...events) {
      if (stay.claim(name) !== undefined) return;
      await writer.parts.player?.recorded(writer, name, null);
      const also = [stay.finished(name, { result: null, spent: null })];
      await commitMoves({ given: events, choose: () => [], also }).catch((error: unknown) => {
        stay.unclaim(name);
        throw error;
      });
    },
  };
}

async function setGraph(stay: Stay, live: Graph): Promise<void> {
  const { writer } = stay;
  stay.check();
  const current = currentGraph(stay);
  if (current !== null) {
    if (current.id !== live.id) throw anotherGraph(stay, current.id, live.id);
    return;
  }
  const graph = capture(live);
  // A capture has the shape of its source.
  checkGraph(graph as unknown as Graph);
  await stay.busy(() => writer.append({ kind: "graph.set", body: { graph, visit: writer.visit } }));
}

function captureEvent(event: GraphEvent): GraphEvent {
  // As above.
  return capture(event) as unknown as GraphEvent;
}

export function movedEntry(events: readonly GraphEvent[], visit: number): NewEntry {
  // Plain data, captured or made by the engine.
  return { kind: "graph.moved", body: { events: events as unknown as Json[], visit } };
}

/** null: this stage attempt has set none. What an earlier attempt left cannot be changed any more. */
function currentGraph({ writer }: Stay): Graph | null {
  const { graph, visit } = writer.state.position;
  return visit.graph === true ? graph : null;
}

function requireGraph(stay: Stay): Graph {
  const graph = currentGraph(stay);
  if (graph !== null) return graph;
  throw new HoldfastError({
    code: "USAGE",
    message: `Stage ${stay.stage} moves a graph that it has not set`,
    hint: "Call graph.set first; the graph of an earlier stage attempt cannot be changed.",
    data: { stage: stay.stage },
  });
}

function anotherGraph({ stage }: Stay, current: string, id: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Stage ${stage} sets graph ${id}, and this stage attempt has set ${current}`,
    hint: "A stage attempt has one graph: add nodes to it, or set the second one in another stage.",
    data: { stage },
  });
}
