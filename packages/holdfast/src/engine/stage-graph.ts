import { HoldfastError } from "../core/error.ts";
import type { Graph } from "../core/graph.ts";
import { checkGraph } from "../core/graph-order.ts";
import { stepGraph } from "../core/graph-state.ts";
import type { GraphEvent } from "../core/graph-state.ts";
import type { Json } from "../core/json.ts";
import { capture } from "../core/values/index.ts";
import type { StageGraph } from "./stage-context.ts";
import type { Stay } from "./stay.ts";

/** The graph in the position, and the entries that change it. Memory changes in the same turn as the commit is called. */
export function stageGraph(stay: Stay): StageGraph {
  const { writer } = stay;
  return {
    now: () => (writer.graphSet ? writer.graph : null),
    async set(live) {
      stay.check();
      if (writer.graphSet) {
        if (writer.graph?.id !== live.id) throw anotherGraph(stay, live.id);
        return;
      }
      checkGraph(live);
      const graph = capture(live);
      await stay.busy(async () => {
        // A capture has the shape of what it was taken from.
        writer.graph = graph as unknown as Graph;
        writer.graphSet = true;
        await writer.append({ kind: "graph.set", body: { graph, visit: writer.visit } });
      });
    },
    async move(...live) {
      stay.check();
      if (live.length === 0) return;
      const { graph, graphSet } = writer;
      if (graph === null || !graphSet) throw noGraph(stay);
      const events: readonly Json[] = live.map((event) => capture(event));
      const moved = (events as unknown as readonly GraphEvent[]).reduce(stepGraph, graph);
      await stay.busy(async () => {
        writer.graph = moved;
        await writer.append({ kind: "graph.moved", body: { events, visit: writer.visit } });
      });
    },
  };
}

function anotherGraph({ stage, writer }: Stay, id: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Stage ${stage} sets graph ${id}, and this visit has set ${writer.graph?.id ?? "another"}`,
    hint: "A visit has one graph: add nodes to it, or give the second one a stage of its own.",
    data: { stage },
  });
}

function noGraph({ stage }: Stay): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Stage ${stage} moves a graph that it has not set`,
    hint: "Call graph.set first; what an earlier visit left is not this one's.",
    data: { stage },
  });
}
