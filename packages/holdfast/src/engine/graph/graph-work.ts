import type { GraphEdge, GraphNode, Graph } from "../../core/graph/graph.ts";
import type { GraphEvent } from "../../core/graph/graph-state.ts";
import type { Json } from "../../core/json.ts";

export interface GraphWork {
  /** As it begins. When this visit has set one of the same id, that one goes on and this is not looked at. */
  readonly graph: Graph;
  /** At most so many nodes at once. */
  readonly limit: number;
  readonly work: NodeWork;
  /** Of each call in one visit. Default "run". */
  readonly name?: string;
  /** First makes every failed node pending again, with all that was skipped for it. Once for this name. */
  readonly replayFailed?: boolean;
  /** Nothing of a batch starts before the one before it has ended and `afterBatch` has returned. Default: whatever is ready starts. */
  readonly barrier?: boolean;
  /** Called when all of a batch has ended, one batch after the other. Killed in it, it is called again: what it does, it does in steps. */
  readonly afterBatch?: (batch: EndedBatch) => Promise<void>;
  /**
   * Nothing can go on before somebody says something. Answers with what happened (approve, skip, complete, retry …); with
   * nothing, the graph is left as it is and runGraph returns. Default: a person is asked.
   */
  readonly onWaiting?: (waiting: GraphWaiting) => Promise<readonly GraphEvent[]>;
  /** How long a node that ran out of time gets to end by itself, before its work is not looked at any more. Default 10 s. */
  readonly graceMs?: number;
}

/**
 * What a node does. It may be called again after a crash: what it did through the context under a name of the scope's is
 * not done again. A throw is a failure of the node that may be retried, unless it says that the run cannot go on.
 */
export type NodeWork = (node: GraphNode, scope: NodeScope) => Promise<NodeOutcome>;

export interface NodeScope {
  /** 1 for the first try; a death does not make it a new one. */
  readonly attempt: number;
  /** Aborted when work must stop and when the node is out of time. */
  readonly signal: AbortSignal;
  /**
   * Names of the steps of this try. The one without a part is the node's deed: once it is finished, the node goes on from
   * there whatever it declared about being run twice.
   */
  name(part?: string): string;
  /** Names of what all tries have in common. */
  sharedName(part: string): string;
  /** More nodes, durable when it resolves. They may wait for any that is there. Once for each id. */
  add(node: GraphNode, edges?: readonly GraphEdge[]): Promise<void>;
}

export type NodeOutcome =
  | { readonly kind: "complete"; readonly result: Json }
  | { readonly kind: "failed"; readonly error: Json; readonly retryable: boolean }
  | { readonly kind: "timeout" };

export interface EndedBatch {
  /** 1-based. */
  readonly number: number;
  readonly nodes: readonly string[];
  /** Names of its steps. A batch that ends again, because a node of it was tried again or added, has others. */
  name(part: string): string;
}

/** Types and no interfaces: they are a step's result. */
export type GraphWaiting = { readonly unknown: readonly string[]; readonly approvals: readonly GraphEdge[] };

export type GraphEnd =
  | { readonly kind: "complete" }
  | {
      /** For the workflow to decide on, as a rule by asking a person; runGraph may be called again, under another name. */
      readonly kind: "failed";
      readonly nodes: readonly string[];
      /** The critical node whose failure ended everything. */
      readonly abortedBy: string | null;
      /** The first batch of which nothing succeeded: nothing after it could run. A checkpoint was taken there. */
      readonly batch: number | null;
    }
  | ({ readonly kind: "waiting" } & GraphWaiting);
