import { HoldfastError } from "../error.ts";
import type { Graph, GraphEdge, GraphNode } from "./graph.ts";
import { checkGraph, predecessorsOf, batchesOf } from "./graph-order.ts";

/** The definition of a graph by place: who waits for whom, and in which batch. States are no part of it. */
export class GraphIndex {
  readonly #graph: Pick<Graph, "id" | "meta">;
  readonly #nodes: GraphNode[];
  readonly #edges: GraphEdge[] = [];
  /** Where the approvals between two nodes are among the edges. */
  readonly #approvals = new Map<string, number[]>();
  /** Shared by all who ask until something changes, so that nobody copies or compares it in vain. */
  #definition: Omit<Graph, "states"> | undefined;
  readonly #places = new Map<string, number>();
  readonly #before: (readonly number[])[] = [];
  readonly #after: number[][] = [];
  /** 1-based. */
  readonly #batch: number[] = [];
  readonly #members: number[][] = [];

  /** Throws USAGE when the graph is invalid. */
  constructor(graph: Graph) {
    const batches = batchesOf(graph);
    this.#graph = { id: graph.id, meta: graph.meta };
    this.#nodes = [...graph.nodes];
    for (const edge of graph.edges) this.#pushEdge(edge);
    for (const [place, { id }] of graph.nodes.entries()) {
      this.#places.set(id, place);
      this.#after.push([]);
    }
    const before = predecessorsOf(graph);
    for (const [place, { id }] of graph.nodes.entries()) {
      const earlier = [...(before.get(id) ?? [])].map((one) => this.placeOf(one));
      this.#before.push(earlier);
      for (const one of earlier) this.#after[one]?.push(place);
    }
    this.#definition = { id: graph.id, meta: graph.meta, nodes: graph.nodes, edges: graph.edges };
    for (const [layer, ids] of batches.entries()) {
      const places = ids.map((id) => this.placeOf(id));
      for (const place of places) this.#batch[place] = layer + 1;
      this.#members.push(places);
    }
  }

  get size(): number {
    return this.#nodes.length;
  }

  get batches(): number {
    return this.#members.length;
  }

  get edges(): readonly GraphEdge[] {
    return this.#edges;
  }

  definition(): Omit<Graph, "states"> {
    this.#definition ??= { ...this.#graph, nodes: [...this.#nodes], edges: [...this.#edges] };
    return this.#definition;
  }

  nodeAt(place: number): GraphNode {
    const node = this.#nodes[place];
    if (node === undefined) throw new RangeError(`no node at ${place}`);
    return node;
  }

  has(id: string): boolean {
    return this.#places.has(id);
  }

  placeOf(id: string): number {
    const place = this.#places.get(id);
    if (place !== undefined) return place;
    throw new HoldfastError({ code: "USAGE", message: `Graph ${this.#graph.id} has no node ${JSON.stringify(id)}` });
  }

  /** In the order in which predecessorsOf names them. */
  before(place: number): readonly number[] {
    return this.#before[place] ?? [];
  }

  after(place: number): readonly number[] {
    return this.#after[place] ?? [];
  }

  batchAt(place: number): number {
    return this.#batch[place] ?? 0;
  }

  /** In the order of the definition. */
  members(batch: number): readonly number[] {
    return this.#members[batch - 1] ?? [];
  }

  /**
   * Approvals between the two, given at that time where they were not. Returns how many were given, and how to take it
   * back. Throws USAGE when there is none at all.
   */
  approve(params: { readonly from: string; readonly to: string; readonly at: string }): {
    readonly given: number;
    readonly undo: () => void;
  } {
    const { from, to, at } = params;
    const between = this.#approvals.get(pairOf(from, to));
    if (between === undefined) {
      throw new HoldfastError({
        code: "USAGE",
        message: `There is no approval between ${from} and ${to} in graph ${this.#graph.id}`,
      });
    }
    const given: (() => void)[] = [];
    for (const position of between) {
      const edge = this.#edges[position];
      if (edge?.type !== "approval" || edge.approvedAt !== null) continue;
      this.#edges[position] = { ...edge, approvedAt: at };
      given.push(() => {
        this.#edges[position] = edge;
      });
    }
    this.#definition = undefined;
    const undo = (): void => {
      for (const back of given) back();
      this.#definition = undefined;
    };
    return { given: given.length, undo };
  }

  /** At the end of the definition. Throws USAGE as addNode does. Returns how to take it back. */
  add(node: GraphNode, edges: readonly GraphEdge[]): () => void {
    this.#checkAdded(node, edges);
    const place = this.#nodes.length;
    const earlier = [...new Set([...node.dependencies, ...edges.map((edge) => edge.from)])].map((id) =>
      this.placeOf(id),
    );
    const batch = 1 + Math.max(0, ...earlier.map((one) => this.batchAt(one)));
    this.#definition = undefined;
    this.#nodes.push(node);
    for (const edge of edges) this.#pushEdge(edge);
    this.#places.set(node.id, place);
    this.#before.push(earlier);
    this.#after.push([]);
    for (const one of earlier) this.#after[one]?.push(place);
    this.#batch.push(batch);
    if (batch > this.#members.length) this.#members.push([]);
    this.#members[batch - 1]?.push(place);
    return () => {
      this.#definition = undefined;
      this.#nodes.pop();
      for (const _ of edges) this.#popEdge();
      this.#places.delete(node.id);
      this.#before.pop();
      this.#after.pop();
      for (const one of earlier) this.#after[one]?.pop();
      this.#batch.pop();
      this.#members[batch - 1]?.pop();
      if (this.#members.at(-1)?.length === 0) this.#members.pop();
    };
  }

  #pushEdge(edge: GraphEdge): void {
    const position = this.#edges.push(edge) - 1;
    if (edge.type !== "approval") return;
    const pair = pairOf(edge.from, edge.to);
    this.#approvals.set(pair, [...(this.#approvals.get(pair) ?? []), position]);
  }

  #popEdge(): void {
    const edge = this.#edges.pop();
    if (edge?.type !== "approval") return;
    const pair = pairOf(edge.from, edge.to);
    const left = this.#approvals.get(pair)?.slice(0, -1) ?? [];
    if (left.length === 0) this.#approvals.delete(pair);
    else this.#approvals.set(pair, left);
  }

  /** Nothing that is there leads to a new node, so only its own ends can be wrong; then the whole tells what is. */
  #checkAdded(node: GraphNode, edges: readonly GraphEdge[]): void {
    const isThere = (id: string): boolean => this.#places.has(id);
    const fits =
      !isThere(node.id) &&
      node.dependencies.every(isThere) &&
      edges.every((edge) => edge.to === node.id && isThere(edge.from));
    if (fits) return;
    checkGraph({ nodes: [...this.#nodes, node], edges: [...this.#edges, ...edges], states: {} });
    const misplaced = edges.find((edge) => edge.to !== node.id);
    if (misplaced !== undefined) throw misplacedEdge(node.id, misplaced.to);
  }
}

function pairOf(from: string, to: string): string {
  return JSON.stringify([from, to]);
}

export function misplacedEdge(node: string, to: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Node ${node} cannot be added with an edge to ${to}: that one may have begun`,
    hint: "A new node may wait for others; nothing that is there can be made to wait for it.",
  });
}
