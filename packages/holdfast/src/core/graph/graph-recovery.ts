import type { Graph } from "./graph.ts";
import { tryName } from "./graph-names.ts";
import { readyNodes, isWaiting, stateOf } from "./graph-state.ts";
import type { GraphEvent } from "./graph-state.ts";
import type { Position } from "../position/position.ts";
import type { Visit } from "../position/visit.ts";

/**
 * What a death makes of the nodes that were running: none vanishes. One that has begun steps, none of which was under way,
 * has left nothing that the journal does not know: it goes on from there. The others are pending again or unknown, by
 * what they declared.
 */
export function recoveryEvents(position: Pick<Position, "graph" | "visit">, at: string): readonly GraphEvent[] {
  const { graph, visit } = position;
  if (graph === null || visit.graph !== true) return [];
  return graph.nodes.flatMap(({ id }): readonly GraphEvent[] => {
    const state = stateOf(graph, id);
    if (state.status !== "running" && state.status !== "queued") return [];
    return [{ kind: "recover", node: id, at, ...(isKnown(visit, tryName(id, state)) ? { known: true } : {}) }];
  });
}

function isKnown(visit: Visit, name: string): boolean {
  const { steps, failures, sessions = {}, running = {} } = visit;
  const isOwn = (step: string): boolean => step === name || step.startsWith(`${name}/`);
  if (Object.hasOwn(steps, name)) return true;
  if (Object.keys(running).some(isOwn)) return false;
  return [steps, failures, sessions].some((steps) => Object.keys(steps).some(isOwn));
}

/**
 * The node at which work goes on: an id, which means the same however the graph grew since, and no place in a numbering.
 * One that runs or is unknown, else the first that may start, else the first that waits; null when nothing is left.
 */
export function resumePoint(graph: Graph): string | null {
  const underWay = graph.nodes.find(({ id }) => ["running", "unknown"].includes(stateOf(graph, id).status));
  if (underWay !== undefined) return underWay.id;
  const [ready] = readyNodes(graph, { limit: 1 });
  return ready ?? graph.nodes.find(({ id }) => isWaiting(stateOf(graph, id)))?.id ?? null;
}
