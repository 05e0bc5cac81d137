import type { Graph, GraphNode } from "@holdfast/core/graph";

export const SHAPES = ["layers", "random", "chain"] as const;
export type Shape = (typeof SHAPES)[number];

const WIDTH = 50;

/** Every node waits for at most three others, so that edges grow as nodes do. */
export function graphOf(shape: Shape, size: number): Graph {
  const random = createRandom(size);
  const nodes = Array.from({ length: size }, (_, at) => nodeOf(at, [...new Set(waitsFor(shape, at, random))]));
  return { id: `${shape}-${size}`, nodes, edges: [], states: {}, meta: {} };
}

function waitsFor(shape: Shape, at: number, random: (below: number) => number): readonly number[] {
  switch (shape) {
    case "layers": {
      const layer = Math.floor(at / WIDTH) * WIDTH;
      return layer === 0 ? [] : [0, 1, 2].map(() => layer - WIDTH + random(WIDTH));
    }
    case "random":
      return at === 0 ? [] : [0, 1, 2].map(() => random(at));
    case "chain":
      return at === 0 ? [] : [at - 1];
  }
}

function nodeOf(at: number, before: readonly number[]): GraphNode {
  return {
    id: `node-${at}`,
    agent: "bench",
    action: "nothing",
    dependencies: before.map((one) => `node-${one}`),
    priority: "normal",
    timeoutMs: null,
    retries: 0,
    idempotent: true,
    outputs: [],
  };
}

/** The same graph each time. */
function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % below;
  };
}
