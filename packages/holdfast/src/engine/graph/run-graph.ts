import { HoldfastError } from "../../core/error.ts";
import { graphName } from "../../core/graph/graph-names.ts";
import type { GraphView } from "../../core/graph/graph-view.ts";
import type { GraphEvent } from "../../core/graph/graph-state.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { StageContext } from "../stage-context.ts";
import { answersGiven, askPerson } from "./ask-person.ts";
import { BatchKeeper } from "./batch-keeper.ts";
import type { GraphEnd, GraphWork } from "./graph-work.ts";
import { runNode } from "./run-node.ts";
import { timeOf } from "./time-of.ts";

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
