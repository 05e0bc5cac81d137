import type { NodeState } from "./graph.ts";

/**
 * Names of the steps that belong to a graph. A node that has ended is not run again when the stage is, so nobody asks for
 * its steps any more; by these names the engine tells them from steps that a changed stage forgot.
 */

/** All that one try of a node does. A node started again after a death is the same try; after a failure it is the next. */
export function tryName(node: string, state: NodeState): string {
  return `node:${node}#${(state.tries ?? 0) + 1}`;
}

export function nodeName(node: string, part: string): string {
  return `node:${node}/${part}`;
}

export function batchName(batch: number, round: number): string {
  return `batch:${batch}#${round}`;
}

export function approvalName(edge: { readonly from: string; readonly to: string }): string {
  return `approval:${edge.from} → ${edge.to}`;
}

export function graphName(name: string, part: string): string {
  return `graph:${name}/${part}`;
}

const PREFIXES = ["node:", "batch:", "approval:", "graph:"] as const;

export function belongsToGraph(step: string): boolean {
  return PREFIXES.some((prefix) => step.startsWith(prefix));
}
