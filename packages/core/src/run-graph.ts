import { MAX_TIMER_MS } from "@holdfast/platform/clock";
import { type ErrorCode, HoldfastError } from "@holdfast/platform/error";
import {
  type GraphEvent,
  type GraphView,
  approvalName,
  batchName,
  graphName,
  nodeName,
  tryName,
} from "./graph-state.ts";
import type { Graph, GraphEdge, GraphNode, NodeState } from "./graph.ts";
import type { Json, JsonObject } from "./json.ts";
import { reasonOf } from "./progress.ts";
import type { StageContext } from "./workflow.ts";

/**
 * Runs the graph of this visit until nothing is left to do, or nothing that somebody else must not decide first. A node's
 * start is durable before its work begins; what ends and what starts in one turn shares a commit. Killed anywhere, the
 * same call goes on with the same graph. Its end is a step: called again, it answers the same. Told to stop, nothing
 * starts any more and what is running is left for the resume.
 */
export async function runGraph<S extends JsonObject>(context: StageContext<S>, work: GraphWork): Promise<GraphEnd> {
  checkLimit(work.limit);
  const name = work.name ?? "run";
  const ended = graphName(name, "end");
  await context.graph.set(work.graph);
  const { steps } = context.position.visit;
  if (!Object.hasOwn(steps, ended)) {
    const again: GraphEvent = { kind: "replay", at: timeOf(context) };
    if (work.replayFailed === true) await context.graph.moveOnce(graphName(name, "replay"), again);
    const end = await new GraphRun(context, work, new Map(Object.entries(steps))).toEnd();
    // A union of plain data.
    return (await context.step(ended, () => end as GraphEnd & JsonObject)) as GraphEnd;
  }
  // Recorded above, by us.
  return (await context.step(ended, () => null)) as unknown as GraphEnd;
}

class GraphRun<S extends JsonObject> {
  readonly #context: StageContext<S>;
  readonly #work: GraphWork;
  readonly #view: GraphView;
  readonly #batches: BatchKeeper<S>;
  readonly #finished: ReadonlyMap<string, Json>;
  /** Nodes at work, by id. */
  readonly #atWork = new Map<string, Promise<void>>();
  /** What ended and is not written yet. */
  #ended: GraphEvent[] = [];
  #failure: { readonly error: unknown } | undefined;
  #awake = false;
  #resolve: () => void = () => {};

  /** `finished`: steps of the visit when this process took it up. */
  constructor(context: StageContext<S>, work: GraphWork, finished: ReadonlyMap<string, Json>) {
    this.#context = context;
    this.#work = work;
    this.#finished = finished;
    this.#view = context.graph.view();
    this.#batches = new BatchKeeper({ context, work, finished, changed: (error) => this.#wake(error) });
  }

  async toEnd(): Promise<GraphEnd> {
    await this.#context.graph.move(
      ...this.#strays(),
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

  /** Writes what ended and what starts now, as one act, and sets that to work. */
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

  /** Told what ended, the batches may be over: then a barrier holds back what would be next, or nothing starts any more. */
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

  /** Nothing runs and nothing may start: it is over, or somebody must say something first. */
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
    const ask = this.#work.onWaiting ?? ((what) => askPerson(context, this.#view, what));
    const events = await ask(waiting);
    if (events.length === 0) return { kind: "waiting", ...waiting };
    await context.graph.move(...events);
    this.#batches.reopen(1);
    return null;
  }

  /** A graph may come with nodes that nobody runs. */
  #strays(): readonly GraphEvent[] {
    const at = timeOf(this.#context);
    return this.#view.underWay().map((node) => ({ kind: "recover", node, at }));
  }

  /** What was brought to its end all the same is written; the rest is as after a crash. */
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

  /** Resolves a turn after something changed, so that all that ends in one turn is written at once. */
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
  if (limit >= 1) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `A graph cannot run ${limit} nodes at once`,
    hint: "Give a limit of 1 or more.",
  });
}

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

interface NodeRun<S extends JsonObject> {
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
async function runNode<S extends JsonObject>(run: NodeRun<S>): Promise<GraphEvent | null> {
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

/** Asks for the first thing that a graph waits for; the run is parked until there is an answer. */
async function askPerson<S extends JsonObject>(
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
  // Of those that hold something back, the one that does so now.
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

/** Answers that came while nobody worked on the run, for what still waits for them. */
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

/** Which batches are over, and what is owed when one is: the workflow's own work after it, a barrier, an escalation. */
class BatchKeeper<S extends JsonObject> {
  readonly #context: StageContext<S>;
  readonly #view: GraphView;
  readonly #work: GraphWork;
  readonly #finished: ReadonlyMap<string, Json>;
  readonly #changed: (failure?: { readonly error: unknown }) => void;
  /** What was done in this process, by marker. */
  readonly #called = new Set<string>();
  /** The first that was not over when it was last looked at. */
  #next = 1;
  readonly #owed: OwedBatch[] = [];
  #busy = false;
  /** The first of which nothing succeeded, and which nobody was told of. */
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

  /** The workflow's work after a batch is owed or under way. */
  get busy(): boolean {
    return this.#busy || this.#owed.length > 0;
  }

  /** Counts only: nothing begins in it. */
  look(): void {
    const { barrier = false } = this.#work;
    for (; this.#next <= this.#view.batches && this.#view.isOver(this.#next); this.#next += 1) this.#end(this.#next);
    this.#view.setGate(!barrier ? Infinity : this.busy ? this.#next - 1 : this.#next);
  }

  /** Begins what is owed. */
  serve(): void {
    if (this.#owed.length > 0 && !this.#busy) void this.#callOwed();
  }

  /** Something in this batch, or a later one, may run again. */
  reopen(batch: number): void {
    this.#next = Math.min(this.#next, batch);
  }

  /** Saved and marked: whoever goes on is not told of it again. */
  async escalate({ number, marker }: FailedBatch): Promise<void> {
    await this.#context.checkpoint({ trigger: "error_recovery", name: `batch ${number} failed` });
    await this.#context.step(marker, () => null);
  }

  #end(number: number): void {
    const nodes = this.#view.batch(number);
    const statuses = nodes.map((id) => this.#view.state(id).status);
    const ran = statuses.some((status) => status !== "skipped");
    if (!ran) return;
    // Each end of the batch has another round: every try and every success makes it higher.
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

/** The context's time, as entries tell it. */
function timeOf(context: { now(): number }): string {
  return new Date(context.now()).toISOString();
}
