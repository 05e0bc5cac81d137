import type { Graph, GraphEdge, GraphNode, NodeState, NodeStatus } from "./graph.ts";
import { GraphIndex } from "./graph-index.ts";
import { expectStatus, isLost, isWaiting, lostReason, refused } from "./graph-state.ts";
import type { GraphEvent, GraphProgress } from "./graph-state.ts";
import {
  FRESH,
  causeOf,
  failedState,
  recoveredState,
  reopenedState,
  skippedState,
  startedState,
} from "./node-state.ts";
import { NumberHeap } from "./number-heap.ts";
import { ReadyQueue } from "./ready-queue.ts";
import { KeptObject, WORTH_KEEPING } from "../values/index.ts";

/** A graph under way, to look at. What it says is what stepGraph, readyNodes and progressOf say after the same events. */
export interface GraphView {
  readonly running: number;
  readonly batches: number;
  /** What may start now; no more than the limit leaves room for. */
  ready(params: { readonly limit: number }): readonly string[];
  progress(): GraphProgress;
  /** What only somebody else can decide: outcomes that nobody knows, and approvals that hold back what waits. */
  waitingFor(): { readonly unknown: readonly string[]; readonly approvals: readonly GraphEdge[] };
  failed(): readonly string[];
  /** Running or queued. */
  underWay(): readonly string[];
  has(id: string): boolean;
  node(id: string): GraphNode;
  state(id: string): NodeState;
  /** Ids of a batch (1-based, derived from who waits for whom), in the order of the definition. */
  batch(number: number): readonly string[];
  batchOf(id: string): number;
  /** Has everything in the batch ended: complete, failed or skipped? */
  isOver(batch: number): boolean;
  abortedBy(): string | null;
  /** Nothing of a later batch is ready then. Not part of the graph: whoever takes it up sets it anew. */
  setGate(batch: number): void;
  graph(): Graph;
}

/**
 * A graph with everything at hand that the next event needs, so that an event costs the edges of its node and a heap's
 * depth, not the size of the graph. Events change it in place; a property test holds it to stepGraph.
 */
export class GraphSchedule implements GraphView {
  readonly #index: GraphIndex;
  readonly #states: NodeState[] = [];
  /** By place: predecessors that are not complete, and approvals to it that were not given. */
  readonly #openBefore: number[] = [];
  readonly #unapproved: number[] = [];
  readonly #counts: Record<NodeStatus, number>;
  /** By batch (1-based): nodes that have not ended. */
  readonly #openIn: number[] = [0];
  readonly #queue = new ReadyQueue();
  /** Ready but for the gate, by batch. */
  readonly #held = new Map<number, Set<number>>();
  #heldCount = 0;
  #gate = Infinity;
  readonly #skippedFor = new Map<string, Set<number>>();
  readonly #failedCritical = new Set<number>();
  /** False for a graph that came with nodes waiting in vain: the first time that skips are settled, all are. */
  #settled: boolean;
  #undo: (() => void)[] = [];
  #snapshot: Graph | undefined;
  readonly #kept = new KeptObject();
  /** Ids whose state may not be in the kept object yet, or be there in vain. */
  readonly #unkept = new Set<string>();

  /** Throws USAGE when the graph is invalid. */
  constructor(graph: Graph) {
    this.#index = new GraphIndex(graph);
    this.#counts = { pending: 0, queued: 0, running: 0, complete: 0, failed: 0, skipped: 0, unknown: 0 };
    for (let place = 0; place < this.#index.size; place += 1) this.#enter(place);
    for (const edge of graph.edges) if (isOpenApproval(edge)) this.#countApproval(edge.to, 1);
    for (let place = 0; place < this.#index.size; place += 1) {
      const { id } = this.#index.nodeAt(place);
      const state = Object.hasOwn(graph.states, id) ? graph.states[id] : undefined;
      if (state !== undefined) this.#set(place, state);
    }
    this.#settled = !this.#states.some(
      (state, place) => isWaiting(state) && (this.#failedCritical.size > 0 || this.#firstLost(place) !== undefined),
    );
    this.#undo = [];
    this.#snapshot = graph;
  }

  /** All of them, and then what `choose` makes of the graph after them; or, when one is refused (USAGE), none. Returns what was chosen. */
  apply(
    events: readonly GraphEvent[],
    choose: (view: GraphView) => readonly GraphEvent[] = () => [],
  ): readonly GraphEvent[] {
    const snapshot = this.#snapshot;
    const settled = this.#settled;
    this.#undo = [];
    try {
      for (const event of events) this.#step(event);
      const chosen = choose(this);
      for (const event of chosen) this.#step(event);
      return chosen;
    } catch (error) {
      for (let back = this.#undo.pop(); back !== undefined; back = this.#undo.pop()) back();
      this.#snapshot = snapshot;
      this.#settled = settled;
      throw error;
    }
  }

  get running(): number {
    return this.#counts.running;
  }

  get batches(): number {
    return this.#index.batches;
  }

  ready({ limit }: { readonly limit: number }): readonly string[] {
    const room = Math.min(Math.max(0, limit - this.#counts.running), this.#queue.size);
    return this.#queue.first(room).map((place) => this.#index.nodeAt(place).id);
  }

  progress(): GraphProgress {
    if (this.#counts.running > 0 || this.#queue.size + this.#heldCount > 0) return { kind: "active" };
    if (this.#waiting > 0 || this.#counts.unknown > 0) return { kind: "waiting", ...this.waitingFor() };
    if (this.#counts.failed === 0) return { kind: "complete" };
    return { kind: "failed", nodes: this.#having("failed"), abortedBy: this.abortedBy() };
  }

  waitingFor(): { readonly unknown: readonly string[]; readonly approvals: readonly GraphEdge[] } {
    const holds = (edge: GraphEdge): boolean => isOpenApproval(edge) && isWaiting(this.state(edge.to));
    return { unknown: this.#having("unknown"), approvals: this.#index.edges.filter(holds) };
  }

  failed(): readonly string[] {
    return this.#having("failed");
  }

  underWay(): readonly string[] {
    return this.#counts.running + this.#counts.queued === 0
      ? []
      : [...this.#having("running"), ...this.#having("queued")];
  }

  has(id: string): boolean {
    return this.#index.has(id);
  }

  node(id: string): GraphNode {
    return this.#index.nodeAt(this.#index.placeOf(id));
  }

  state(id: string): NodeState {
    return this.#at(this.#index.placeOf(id));
  }

  batch(number: number): readonly string[] {
    return this.#index.members(number).map((place) => this.#index.nodeAt(place).id);
  }

  batchOf(id: string): number {
    return this.#index.batchAt(this.#index.placeOf(id));
  }

  isOver(batch: number): boolean {
    return this.#openIn[batch] === 0;
  }

  abortedBy(): string | null {
    return this.#failedCritical.size === 0 ? null : this.#index.nodeAt(Math.min(...this.#failedCritical)).id;
  }

  setGate(batch: number): void {
    const shut = batch < this.#gate;
    this.#gate = batch;
    if (shut) {
      for (let place = 0; place < this.#index.size; place += 1) this.#refresh(place);
      return;
    }
    for (const [held, places] of this.#held) {
      if (held > batch) continue;
      this.#held.delete(held);
      this.#heldCount -= places.size;
      for (const place of places) this.#refresh(place);
    }
  }

  graph(): Graph {
    this.#snapshot ??= { ...this.#index.definition(), states: this.#keptStates() ?? this.#plainStates() };
    return this.#snapshot;
  }

  #plainStates(): Graph["states"] {
    return Object.fromEntries(
      this.#states.flatMap((state, place) => (state === FRESH ? [] : [[this.#index.nodeAt(place).id, state] as const])),
    );
  }

  /** A graph is looked at for each checkpoint, when a few nodes moved. */
  #keptStates(): Graph["states"] | undefined {
    if (this.#states.length < WORTH_KEEPING) return undefined;
    const set: [string, NodeState][] = [];
    const removed: string[] = [];
    for (const id of this.#unkept) {
      // An addition may have been taken back.
      const state = this.has(id) ? this.state(id) : FRESH;
      if (state === FRESH) removed.push(id);
      else set.push([id, state]);
    }
    const states = this.#kept.change({ set, removed });
    if (states !== undefined) this.#unkept.clear();
    // A capture has the shape of what it was taken from.
    return states as unknown as Graph["states"] | undefined;
  }

  get #waiting(): number {
    return this.#counts.pending + this.#counts.queued;
  }

  #at(place: number): NodeState {
    return this.#states[place] ?? FRESH;
  }

  #having(status: NodeStatus): readonly string[] {
    if (this.#counts[status] === 0) return [];
    return this.#states.flatMap((state, place) => (state.status === status ? [this.#index.nodeAt(place).id] : []));
  }

  #step(event: GraphEvent): void {
    this.#snapshot = undefined;
    switch (event.kind) {
      case "approve": {
        const { given, undo } = this.#index.approve(event);
        this.#undo.push(undo);
        this.#countApproval(event.to, -given);
        return;
      }
      case "replay":
        this.#reopen(
          this.#states.flatMap((state, place) => (state.status === "failed" ? [place] : [])),
          event.at,
        );
        return;
      case "add": {
        const { definition, edges } = event;
        this.#undo.push(this.#index.add(definition, edges));
        const place = this.#index.size - 1;
        this.#enter(place);
        this.#countApproval(definition.id, edges.filter(isOpenApproval).length);
        this.#settle([place], event.at);
        return;
      }
      default:
        this.#stepNode(event);
    }
  }

  #stepNode(event: Extract<GraphEvent, { readonly node: string }>): void {
    const place = this.#index.placeOf(event.node);
    const node = this.#index.nodeAt(place);
    const state = this.#at(place);
    expectStatus(event, state);
    switch (event.kind) {
      case "start":
        if (!this.#isFree(place)) throw refused(event, "what it waits for is not complete");
        this.#set(place, startedState(state, event.at));
        return;
      case "complete":
        this.#set(place, { ...state, status: "complete", endedAt: event.at, result: event.result });
        return;
      case "fail":
      case "timeout":
        this.#set(place, failedState(node, state, event, this.#failedCritical.size > 0));
        this.#settle([place], event.at);
        return;
      case "skip":
        this.#set(place, skippedState(state, { reason: event.reason, cause: null, at: event.at }));
        this.#settle([place], event.at);
        return;
      case "retry":
        this.#reopen([place], event.at);
        return;
      case "recover":
        this.#set(place, recoveredState(node, state, event));
        this.#settle([place], event.at);
    }
  }

  #reopen(places: readonly number[], at: string): void {
    const all = new Set(places);
    for (const place of places)
      for (const skipped of this.#skippedFor.get(this.#index.nodeAt(place).id) ?? []) all.add(skipped);
    for (const place of all) this.#set(place, reopenedState(this.#at(place)));
    this.#settle([...all], at);
  }

  /** Skips what now waits in vain among these and behind them, earlier batches first: a reason names what was lost before. */
  #settle(changed: readonly number[], at: string): void {
    const aborter = this.abortedBy();
    if (aborter !== null && this.#waiting > 0) this.#settled = false;
    const heap = new NumberHeap();
    const put = (place: number): void => heap.push(this.#index.batchAt(place) * 2 ** 32 + place);
    if (this.#settled) changed.forEach(put);
    else for (let place = 0; place < this.#index.size; place += 1) put(place);
    this.#settled = true;
    for (let key = heap.pop(); key !== undefined; key = heap.pop()) {
      const place = key % 2 ** 32;
      if (isWaiting(this.#at(place))) this.#skipInVain(place, aborter, at);
      if (isLost(this.#at(place)))
        for (const later of this.#index.after(place)) if (isWaiting(this.#at(later))) put(later);
    }
  }

  #skipInVain(place: number, aborter: string | null, at: string): void {
    const state = this.#at(place);
    if (aborter !== null) {
      this.#set(place, skippedState(state, { reason: `critical node ${aborter} failed`, cause: aborter, at }));
      return;
    }
    const lost = this.#firstLost(place);
    if (lost === undefined) return;
    const { id } = this.#index.nodeAt(lost);
    const lostState = this.#at(lost);
    this.#set(place, skippedState(state, { reason: lostReason(id, lostState), cause: causeOf(lostState) ?? id, at }));
  }

  #firstLost(place: number): number | undefined {
    return this.#index.before(place).find((one) => isLost(this.#at(one)));
  }

  #isFree(place: number): boolean {
    return this.#openBefore[place] === 0 && this.#unapproved[place] === 0;
  }

  /** A node that nobody has counted yet, pending. */
  #enter(place: number): void {
    const batch = this.#index.batchAt(place);
    const isOpen = (one: number): boolean => this.#at(one).status !== "complete";
    this.#states.push(FRESH);
    this.#openBefore.push(this.#index.before(place).filter(isOpen).length);
    this.#unapproved.push(0);
    this.#counts.pending += 1;
    while (this.#openIn.length <= batch) this.#openIn.push(0);
    this.#openIn[batch] = (this.#openIn[batch] ?? 0) + 1;
    this.#refresh(place);
    this.#undo.push(() => {
      this.#unqueue(place);
      this.#states.pop();
      this.#openBefore.pop();
      this.#unapproved.pop();
      this.#counts.pending -= 1;
      this.#openIn[batch] = (this.#openIn[batch] ?? 0) - 1;
    });
  }

  #countApproval(to: string, change: number): void {
    const place = this.#index.placeOf(to);
    this.#unapproved[place] = (this.#unapproved[place] ?? 0) + change;
    this.#refresh(place);
    this.#undo.push(() => {
      this.#unapproved[place] = (this.#unapproved[place] ?? 0) - change;
      this.#refresh(place);
    });
  }

  #set(place: number, state: NodeState): void {
    const was = this.#at(place);
    this.#replace(place, was, state);
    this.#undo.push(() => this.#replace(place, state, was));
  }

  #replace(place: number, was: NodeState, is: NodeState): void {
    this.#states[place] = is;
    this.#counts[was.status] -= 1;
    this.#counts[is.status] += 1;
    const batch = this.#index.batchAt(place);
    this.#openIn[batch] = (this.#openIn[batch] ?? 0) + Number(isEnded(was)) - Number(isEnded(is));
    const freed = Number(is.status === "complete") - Number(was.status === "complete");
    if (freed !== 0) {
      for (const later of this.#index.after(place)) {
        this.#openBefore[later] = (this.#openBefore[later] ?? 0) - freed;
        this.#refresh(later);
      }
    }
    if (was.status === "skipped") this.#skippedFor.get(causeOf(was) ?? "")?.delete(place);
    if (is.status === "skipped") this.#noteCause(place, causeOf(is));
    const { id, priority } = this.#index.nodeAt(place);
    this.#unkept.add(id);
    if (priority === "critical") {
      if (is.status === "failed") this.#failedCritical.add(place);
      else this.#failedCritical.delete(place);
    }
    this.#refresh(place);
  }

  #noteCause(place: number, cause: string | null): void {
    if (cause === null) return;
    const places = this.#skippedFor.get(cause) ?? new Set<number>();
    places.add(place);
    this.#skippedFor.set(cause, places);
  }

  #refresh(place: number): void {
    this.#unqueue(place);
    if (!isWaiting(this.#at(place)) || !this.#isFree(place)) return;
    const batch = this.#index.batchAt(place);
    if (batch <= this.#gate) {
      this.#queue.put(place, this.#index.nodeAt(place).priority);
      return;
    }
    const held = this.#held.get(batch) ?? new Set<number>();
    held.add(place);
    this.#held.set(batch, held);
    this.#heldCount += 1;
  }

  #unqueue(place: number): void {
    this.#queue.remove(place);
    if (this.#held.size > 0 && this.#held.get(this.#index.batchAt(place))?.delete(place) === true) this.#heldCount -= 1;
  }
}

function isEnded(state: NodeState): boolean {
  return state.status === "complete" || isLost(state);
}

function isOpenApproval(edge: GraphEdge): boolean {
  return edge.type === "approval" && edge.approvedAt === null;
}
