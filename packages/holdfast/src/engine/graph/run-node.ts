import { HoldfastError } from "../../core/error.ts";
import type { ErrorCode } from "../../core/error.ts";
import type { GraphNode, NodeState } from "../../core/graph/graph.ts";
import { nodeName, tryName } from "../../core/graph/graph-names.ts";
import type { GraphEvent } from "../../core/graph/graph-state.ts";
import type { JsonObject } from "../../core/json.ts";
import { LONGEST_TIMER_MS } from "../../core/longest-timer.ts";
import { reasonOf } from "../reason-of.ts";
import type { StageContext } from "../stage-context.ts";
import type { NodeOutcome, NodeScope, NodeWork } from "./graph-work.ts";
import { timeOf } from "./time-of.ts";

export interface NodeRun<S extends JsonObject> {
  readonly context: StageContext<S>;
  readonly node: GraphNode;
  /** As it was started. */
  readonly state: NodeState;
  readonly work: NodeWork;
  readonly graceMs: number;
  readonly added: (node: string) => void;
}

/**
 * One try of one node. Resolves with what happened to it; null: work must stop and it was not brought to an end, so it is
 * left as it is. Rejects with what concerns the whole run.
 */
export async function runNode<S extends JsonObject>(run: NodeRun<S>): Promise<GraphEvent | null> {
  const { context, node } = run;
  const { signal, ended } = node.timeoutMs === null ? plain(run) : timed(run, node.timeoutMs);
  let outcome: NodeOutcome;
  try {
    outcome = await ended(run.work(node, scopeOf(run, signal)));
  } catch (error) {
    if (context.signal.aborted) return null;
    if (error instanceof HoldfastError && CONCERNS_RUN.has(error.code)) throw error;
    outcome = { kind: "failed", error: reasonOf(error), retryable: true };
  }
  if (context.signal.aborted && outcome.kind !== "complete") return null;
  return eventOf(node.id, outcome, timeOf(context));
}

interface Timing {
  readonly signal: AbortSignal;
  ended(working: Promise<NodeOutcome>): Promise<NodeOutcome>;
}

function plain<S extends JsonObject>({ context }: NodeRun<S>): Timing {
  return { signal: context.signal, ended: (working) => working };
}

/** Out of time it is told to end, and what it still brings to an end counts; what it does after that is not looked at. */
function timed<S extends JsonObject>({ context, graceMs }: NodeRun<S>, timeoutMs: number): Timing {
  const controller = new AbortController();
  const late: NodeOutcome = { kind: "timeout" };
  return {
    signal: controller.signal,
    async ended(working) {
      const stop = (): void => controller.abort(context.signal.reason);
      context.signal.addEventListener("abort", stop);
      if (context.signal.aborted) stop();
      let timer: ReturnType<typeof setTimeout> | undefined;
      const after = (milliseconds: number): Promise<null> =>
        new Promise((resolve) => {
          timer = setTimeout(() => resolve(null), Math.min(milliseconds, LONGEST_TIMER_MS));
        });
      try {
        const inTime = await Promise.race([working, after(timeoutMs)]);
        if (inTime !== null) return inTime;
        controller.abort(new HoldfastError({ code: "INTERRUPTED", message: `Out of time after ${timeoutMs} ms` }));
        const ended = working.catch(() => late);
        const inGrace = await Promise.race([ended, after(graceMs)]);
        return inGrace?.kind === "complete" ? inGrace : late;
      } finally {
        clearTimeout(timer);
        context.signal.removeEventListener("abort", stop);
      }
    },
  };
}

function scopeOf<S extends JsonObject>({ context, node, state, added }: NodeRun<S>, signal: AbortSignal): NodeScope {
  const name = tryName(node.id, state);
  return {
    attempt: (state.tries ?? 0) + 1,
    signal,
    name: (part) => (part === undefined ? name : `${name}/${part}`),
    sharedName: (part) => nodeName(node.id, part),
    async add(definition, edges = []) {
      const { graph } = context;
      if (graph.view().has(definition.id)) return;
      await graph.move({ kind: "add", definition, edges, at: timeOf(context) });
      added(definition.id);
    },
  };
}

function eventOf(node: string, outcome: NodeOutcome, at: string): GraphEvent {
  switch (outcome.kind) {
    case "complete":
      return { kind: "complete", node, at, result: outcome.result };
    case "failed":
      return { kind: "fail", node, at, error: outcome.error, ...(outcome.retryable ? {} : { final: true }) };
    case "timeout":
      return { kind: "timeout", node, at };
  }
}

/** Thrown in a node, these say that the run cannot go on or that the workflow is wrong; trying again would hide it. */
const CONCERNS_RUN: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "USAGE",
  "NOT_JSON",
  "LEASE_LOST",
  "STORE_ABSENT",
  "STORE_MISSING",
  "STORE_CUT",
  "STORE_CORRUPT",
  "STORE_UNSAFE",
  "STORE_TOO_NEW",
  "STORE_BUSY",
  "STORE_READ_ONLY",
  "DISK_FULL",
  "IO_FAILED",
  "WORKSPACE_MISSING",
  "NEEDS_DECISION",
  "WORKFLOW_INVALID",
  "WORKFLOW_CHANGED",
  "INTERRUPTED",
  "INTERNAL",
]);
