// Executes the task graph of a stage attempt: starts ready nodes up to a limit, records their ends, and handles batches, timeouts and
// questions.

import { MAX_TIMER_MS } from "@holdfast/platform/clock";
import { type ErrorCode, HoldfastError, usageError } from "@holdfast/platform/error";
import { type GraphEvent, type GraphView, approvalName, batchName, graphName, tryName } from "./graph-state.ts";
import type { Graph, GraphEdge, GraphNode, NodeState } from "./graph.ts";
import type { Json, JsonObject } from "./json.ts";
import { checkArgument } from "./options.ts";
import { reasonOf } from "./progress.ts";
import type { StageContext } from "./workflow.ts";

/**
 * Executes the graph of this stage attempt until nothing is left, or until the user must decide first. A node's start is durable before its
 * work begins; all ends and starts of one turn share a commit.
 * After a kill the same call continues with the same graph. Its end is a step, so a repeated call gives the same answer. After an abort
 * nothing starts any more, and running nodes are left for the resume.
 */
export async function runGraph<S extends object>(context: StageContext<S>, work: GraphWork): Promise<GraphEnd> {
  checkArgument("runGraph()", "the stage context", context, "object");
  checkArgument("runGraph()", "the graph of the stage context", context.graph, "object");
  checkArgument("runGraph()", "its options", work, "object");
  checkLimit(work.limit);
  const name = work.name ?? "run";
  const ended = graphName(name, "end");
  await context.graph.set(work.graph);
  const { steps } = context.position.stageAttempt;
  if (!Object.hasOwn(steps, ended)) {
    const again: GraphEvent = { kind: "replay", at: timeOf(context) };
    if (work.replayFailed === true) await context.graph.moveOnce(graphName(name, "replay"), again);
    const end = await new GraphRun(context, work, new Map(Object.entries(steps))).toEnd();
    // GraphEnd is a union of plain data, so the cast is safe.
    return (await context.step(ended, () => end as GraphEnd & JsonObject)) as GraphEnd;
  }
  // The step was recorded above with a GraphEnd.
  return (await context.step(ended, () => null)) as unknown as GraphEnd;
}

class GraphRun<S extends object> {
  readonly #context: StageContext<S>;
  readonly #work: GraphWork;
  readonly #view: GraphView;
  readonly #batches: BatchKeeper<S>;
  readonly #finished: ReadonlyMap<string, Json>;
  /** Promises of the nodes that run, by id. */
  readonly #atWork = new Map<string, Promise<void>>();
  /** Events of nodes that ended and are not written yet. */
  #ended: GraphEvent[] = [];
  #failure: { readonly error: unknown } | undefined;
  #awake = false;
  #resolve: () => void = () => {};

  /** `finished`: steps that the stage attempt had finished when this process loaded it. */
  constructor(context: StageContext<S>, work: GraphWork, finished: ReadonlyMap<string, Json>) {
    this.#context = context;
    this.#work = work;
    this.#finished = finished;
    this.#view = context.graph.view();
    this.#batches = new BatchKeeper({ context, work, finished, changed: (error) => this.#wake(error) });
  }

  async toEnd(): Promise<GraphEnd> {
    await this.#context.graph.move(
      ...this.#orphans(),
      ...answersGiven(this.#view, this.#finished, timeOf(this.#context)),
    );
    for (;;) {
      await this.#turn();
      if (this.#mayStart) continue;
      if (this.#atWork.size > 0 || this.#ended.length > 0 || this.#batches.busy) {
        await this.#woken();
        continue;
      }
      const end = await this.#rest();
      if (end !== null) return end;
    }
  }

  get #mayStart(): boolean {
    return this.#batches.failed === null && this.#view.ready({ limit: this.#work.limit }).length > 0;
  }

  /** Writes ends and starts in one commit, then launches the started nodes. */
  async #turn(): Promise<void> {
    const { signal, graph } = this.#context;
    if (signal.aborted) await this.#stop();
    if (this.#failure !== undefined) throw this.#failure.error;
    this.#batches.look();
    const ended = this.#ended;
    this.#ended = [];
    if (ended.length > 0 || this.#mayStart) {
      const started = await graph.moveThen(ended, (view) => this.#starts(view));
      for (const event of started) if (event.kind === "start") this.#launch(event.node);
    }
    this.#batches.serve();
  }

  /** Runs after the ends are applied. A batch may have ended: then a barrier holds back the next one, or nothing starts any more. */
  #starts(view: GraphView): readonly GraphEvent[] {
    this.#batches.look();
    if (this.#batches.failed !== null) return [];
    const at = timeOf(this.#context);
    return view.ready({ limit: this.#work.limit }).map((node) => ({ kind: "start", node, at }));
  }

  #launch(id: string): void {
    const { graceMs, work } = this.#work;
    const working = runNode({
      context: this.#context,
      node: this.#view.node(id),
      state: this.#view.state(id),
      work,
      graceMs: graceMs ?? 10_000,
      added: (node) => {
        this.#batches.reopen(this.#view.batchOf(node));
        this.#wake();
      },
    }).then(
      (event) => {
        this.#atWork.delete(id);
        if (event !== null) this.#ended.push(event);
        this.#wake();
      },
      (error: unknown) => {
        this.#atWork.delete(id);
        this.#wake({ error });
      },
    );
    this.#atWork.set(id, working);
  }

  /** Nothing runs and nothing may start: the graph has ended, or the user must decide first. */
  async #rest(): Promise<GraphEnd | null> {
    const context = this.#context;
    const progress = this.#view.progress();
    const { failed } = this.#batches;
    if (failed !== null) await this.#batches.escalate(failed);
    if (failed !== null || progress.kind === "failed") {
      const nodes = progress.kind === "failed" ? progress.nodes : this.#view.failed();
      return { kind: "failed", nodes, abortedBy: this.#view.abortedBy(), batch: failed?.number ?? null };
    }
    if (progress.kind === "complete") return { kind: "complete" };
    const waiting = this.#view.waitingFor();
    const ask = this.#work.onWaiting ?? ((what) => askUser(context, this.#view, what));
    const events = await ask(waiting);
    if (events.length === 0) return { kind: "waiting", ...waiting };
    await context.graph.move(...events);
    this.#batches.reopen(1);
    return null;
  }

  /** Recovers nodes that the given graph marks as running although no process executes them. */
  #orphans(): readonly GraphEvent[] {
    const at = timeOf(this.#context);
    return this.#view.underWay().map((node) => ({ kind: "recover", node, at }));
  }

  /** Writes the nodes that completed all the same; the others are as after a crash. */
  async #stop(): Promise<never> {
    const { signal, graph } = this.#context;
    await Promise.all(this.#atWork.values());
    const complete = this.#ended.filter(({ kind }) => kind === "complete");
    if (complete.length > 0) await graph.move(...complete);
    throw signal.reason;
  }

  #wake(failure?: { readonly error: unknown }): void {
    this.#failure ??= failure;
    this.#awake = true;
    this.#resolve();
  }

  /** Resolves one turn after a change, so that all ends of one turn are written at once. */
  async #woken(): Promise<void> {
    const { signal } = this.#context;
    const wake = (): void => this.#wake();
    signal.addEventListener("abort", wake);
    if (!this.#awake && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#resolve = resolve;
      });
    }
    signal.removeEventListener("abort", wake);
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#awake = false;
  }
}

function checkLimit(limit: number): void {
  checkArgument("runGraph()", "limit", limit, "amount");
  if (limit >= 1) return;
  throw usageError(`A graph cannot run ${limit} nodes at once`, "Give a limit of 1 or more.");
}

export interface GraphWork {
  /** The initial graph. If this stage attempt already set one with the same id, that one continues and this one is ignored. */
  readonly graph: Graph;
  /** How many nodes may run at the same time. */
  readonly limit: number;
  readonly work: NodeWork;
  /** Identifies each call within one stage attempt. Default "run". */
  readonly name?: string;
  /** First makes every failed node pending again, with the nodes that were skipped because of it. Applies once for each name. */
  readonly replayFailed?: boolean;
  /** No node of a batch starts before the previous batch has ended and `afterBatch` has returned. Default: every ready node starts. */
  readonly barrier?: boolean;
  /**
   * Called when all nodes of a batch have ended, one batch after the other. It is called again after a kill, so it must do its work in
   * steps.
   */
  readonly afterBatch?: (batch: EndedBatch) => Promise<void>;
  /**
   * Called when nothing can continue without a decision. It returns events (approve, skip, complete, retry …); with none, the graph is left
   * as it is and runGraph returns. Default: ask the user.
   */
  readonly onWaiting?: (waiting: GraphWaiting) => Promise<readonly GraphEvent[]>;
  /** How long a node may continue after its timeout before its result is ignored, in milliseconds. Default 10 s. */
  readonly graceMs?: number;
}

/**
 * The work of a node. It may be called again after a crash: work that it did through the context under a name of its scope is not repeated.
 * A thrown error is a failure of the node that may be retried, unless its code concerns the whole run.
 */
export type NodeWork = (node: GraphNode, scope: NodeScope) => Promise<NodeOutcome>;

export interface NodeScope {
  /** 1 for the first try; a crash does not start a new one. */
  readonly attempt: number;
  /** Aborted when the run must stop and when the node times out. */
  readonly signal: AbortSignal;
  /**
   * Names the steps of this try. The name without a part is the node's main step: once it is finished, the node continues from there,
   * whatever it declared about repeated execution.
   */
  name(part?: string): string;
  /** Adds nodes, durable when it resolves. They may depend on any existing node. Adding the same id again has no effect. */
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
  /** Names the steps of this end of the batch. A batch that ends again, because a node was retried or added, has other names. */
  name(part: string): string;
}

/** These are types, not interfaces, because they are a step's result. */
export type GraphWaiting = { readonly unknown: readonly string[]; readonly approvals: readonly GraphEdge[] };

export type GraphEnd =
  | { readonly kind: "complete" }
  | {
      /** The workflow decides, usually by asking the user. It may call runGraph again under another name. */
      readonly kind: "failed";
      readonly nodes: readonly string[];
      /** The critical node whose failure ended the graph. */
      readonly abortedBy: string | null;
      /** The first batch without any success: nothing after it could run. A checkpoint was taken there. */
      readonly batch: number | null;
    }
  | ({ readonly kind: "waiting" } & GraphWaiting);

interface NodeRun<S extends object> {
  readonly context: StageContext<S>;
  readonly node: GraphNode;
  /** The state with which it was started. */
  readonly state: NodeState;
  readonly work: NodeWork;
  readonly graceMs: number;
  readonly added: (node: string) => void;
}

/**
 * Executes one try of one node. Resolves with its event; null: the run must stop and the node did not end, so it is left as it is. Rejects
 * with errors that concern the whole run.
 */
async function runNode<S extends object>(run: NodeRun<S>): Promise<GraphEvent | null> {
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

function plain<S extends object>({ context }: NodeRun<S>): Timing {
  return { signal: context.signal, ended: (working) => working };
}

/** Aborts the node at its timeout. A completion within the grace period counts; later results are ignored. */
function timed<S extends object>({ context, graceMs }: NodeRun<S>, timeoutMs: number): Timing {
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
          timer = setTimeout(() => resolve(null), Math.min(milliseconds, MAX_TIMER_MS));
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

function scopeOf<S extends object>({ context, node, state, added }: NodeRun<S>, signal: AbortSignal): NodeScope {
  const name = tryName(node.id, state);
  return {
    attempt: (state.tries ?? 0) + 1,
    signal,
    name: (part) => (part === undefined ? name : `${name}/${part}`),
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

/** Errors with these codes end the run or show a faulty workflow; a retry of the node would hide them. */
const CONCERNS_RUN: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "USAGE",
  "NOT_JSON",
  "VALUES_INVALID",
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

/** Asks the user about the first thing that the graph waits for; the run waits until the answer. */
async function askUser<S extends object>(
  context: StageContext<S>,
  view: GraphView,
  { unknown, approvals }: GraphWaiting,
): Promise<readonly GraphEvent[]> {
  const at = timeOf(context);
  const [node] = unknown;
  if (node !== undefined) {
    const { agent, action } = view.node(node);
    const answer = await context.decide({
      name: outcomeName(view, node),
      question: `Node ${node} (${agent}: ${action}) was at work when the process ended, and must not be run twice. Did it happen?`,
      options: [HAPPENED, NOT_HAPPENED],
    });
    return [outcomeEvent(node, answer, at)];
  }
  // Prefers an approval that blocks a node now.
  const edge = approvals.find(({ from }) => view.state(from).status === "complete") ?? approvals[0];
  if (edge?.type !== "approval") return [];
  const { from, to, by } = edge;
  const answer = await context.decide({
    name: approvalName(edge),
    question: `${from} is complete. May ${to} begin? (${by} approves)`,
    options: ["approve", "reject"],
  });
  return [approvalEvent(edge, by, answer, at)];
}

/** Answers that the user gave while no process executed the run, for nodes that still wait for them. */
function answersGiven(view: GraphView, finished: ReadonlyMap<string, Json>, at: string): readonly GraphEvent[] {
  return view.waitingFor().unknown.flatMap((node) => {
    const answer = finished.get(outcomeName(view, node));
    return typeof answer === "string" ? [outcomeEvent(node, answer, at)] : [];
  });
}

const HAPPENED = "happened";
const NOT_HAPPENED = "did not happen";

function outcomeName(view: GraphView, node: string): string {
  return `${tryName(node, view.state(node))}/outcome`;
}

function outcomeEvent(node: string, answer: string, at: string): GraphEvent {
  return answer === HAPPENED
    ? { kind: "complete", node, at, result: { confirmed: HAPPENED } }
    : { kind: "retry", node, at };
}

function approvalEvent({ from, to }: GraphEdge, by: string, answer: string, at: string): GraphEvent {
  return answer === "approve"
    ? { kind: "approve", from, to, at }
    : { kind: "skip", node: to, at, reason: `${by} did not approve` };
}

interface FailedBatch {
  readonly number: number;
  readonly marker: string;
}

interface OwedBatch {
  readonly batch: EndedBatch;
  readonly marker: string;
}

/** Tracks which batches have ended, and the work that follows: `afterBatch`, a barrier, an escalation. */
class BatchKeeper<S extends object> {
  readonly #context: StageContext<S>;
  readonly #view: GraphView;
  readonly #work: GraphWork;
  readonly #finished: ReadonlyMap<string, Json>;
  readonly #changed: (failure?: { readonly error: unknown }) => void;
  /** Markers of the work that this process has done. */
  readonly #called = new Set<string>();
  /** The first batch that had not ended at the last check. */
  #next = 1;
  readonly #owed: OwedBatch[] = [];
  #busy = false;
  /** The first batch without any success that has not been reported. */
  failed: FailedBatch | null = null;

  constructor(params: {
    readonly context: StageContext<S>;
    readonly work: GraphWork;
    readonly finished: ReadonlyMap<string, Json>;
    readonly changed: (failure?: { readonly error: unknown }) => void;
  }) {
    this.#context = params.context;
    this.#view = params.context.graph.view();
    this.#work = params.work;
    this.#finished = params.finished;
    this.#changed = params.changed;
  }

  /** Whether work after a batch is pending or running. */
  get busy(): boolean {
    return this.#busy || this.#owed.length > 0;
  }

  /** Updates the counts only; it starts no work. */
  look(): void {
    const { barrier = false } = this.#work;
    for (; this.#next <= this.#view.batches && this.#view.isOver(this.#next); this.#next += 1) this.#end(this.#next);
    this.#view.setGate(!barrier ? Infinity : this.busy ? this.#next - 1 : this.#next);
  }

  /** Starts the pending work. */
  serve(): void {
    if (this.#owed.length > 0 && !this.#busy) void this.#callOwed();
  }

  /** A node of this batch or of a later one may run again. */
  reopen(batch: number): void {
    this.#next = Math.min(this.#next, batch);
  }

  /** Saves a checkpoint and marks the failure, so that a resume does not report it again. */
  async escalate({ number, marker }: FailedBatch): Promise<void> {
    await this.#context.checkpoint({ trigger: "error_recovery", name: `batch ${number} failed` });
    await this.#context.step(marker, () => null);
  }

  #end(number: number): void {
    const nodes = this.#view.batch(number);
    const statuses = nodes.map((id) => this.#view.state(id).status);
    const ran = statuses.some((status) => status !== "skipped");
    if (!ran) return;
    // Each end of the batch has its own round: every try and every success increases it.
    const round = nodes.reduce((sum, id, at) => {
      const tries = this.#view.state(id).tries ?? 0;
      return sum + tries + (statuses[at] === "complete" ? 1 : 0);
    }, 0);
    const name = batchName(number, round);
    const marker = `${name}/failed`;
    if (!statuses.includes("complete") && !this.#finished.has(marker)) this.failed ??= { number, marker };
    const after = `${name}/after`;
    if (this.#work.afterBatch === undefined || this.#finished.has(after) || this.#called.has(after)) return;
    this.#called.add(after);
    this.#owed.push({ marker: after, batch: { number, nodes, name: (part) => `${after}/${part}` } });
  }

  async #callOwed(): Promise<void> {
    this.#busy = true;
    try {
      for (let owed = this.#owed.shift(); owed !== undefined; owed = this.#owed.shift()) {
        await this.#work.afterBatch?.(owed.batch);
        await this.#context.step(owed.marker, () => null);
      }
      this.#busy = false;
      this.#changed();
    } catch (error) {
      this.#busy = false;
      this.#changed({ error });
    }
  }
}

/** The context's time in the format of journal entries. */
function timeOf(context: { now(): number }): string {
  return new Date(context.now()).toISOString();
}
