import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { printRatio, quantile } from "./report.ts";
import { SHAPES } from "./graph/shapes.ts";
import type { Shape } from "./graph/shapes.ts";

/**
 * What the engine adds to each node of a graph whose nodes do nothing, on a real store with durable commits, and how it
 * grows from 10 nodes to 1,000. The cost of an event grows with the size of its graph: real graphs have a dozen nodes. Each figure comes
 * from a process of its own that runs 1,000 nodes in all; rounds take turns. Processor time is what can be compared on a busy machine.
 *
 *   node bench/graph.ts [rounds]
 */
const rounds = Number(process.argv[2] ?? 3);
const SIZES = [10, 100, 1000] as const;
interface Figures {
  readonly wall: number;
  readonly cpu: number;
  readonly peak: number;
}
const CASES: readonly { readonly shape: Shape; readonly mode: "plain" | "checkpoints" }[] = [
  ...SHAPES.map((shape) => ({ shape, mode: "plain" as const })),
  { shape: "layers", mode: "checkpoints" },
];

const all = new Map<string, Figures[]>();
for (let round = 0; round < rounds; round += 1) {
  for (const { shape, mode } of CASES) {
    for (const size of SIZES) {
      const key = `${shape} ${mode} ${size}`;
      all.set(key, [...(all.get(key) ?? []), measure(shape, size, mode)]);
    }
  }
}
process.stdout.write("µs a node (processor time in brackets), peak of memory\n");
for (const { shape, mode } of CASES) {
  const title = mode === "plain" ? shape : `${shape}, a checkpoint after each batch of 50`;
  const median = (size: number, of: keyof Figures): number =>
    quantile(
      (all.get(`${shape} ${mode} ${size}`) ?? []).map((one) => one[of]),
      0.5,
    );
  for (const size of SIZES) {
    const figures = `${median(size, "wall").toFixed(0)} (${median(size, "cpu").toFixed(0)}), ${median(size, "peak")} MB`;
    process.stdout.write(`${title.padEnd(46)} ${String(size).padStart(6)} nodes  ${figures}\n`);
  }
  const grown = { ours: median(100, "cpu"), peer: median(10, "cpu"), unit: "µs" };
  printRatio({ what: `${title}: 100 nodes to 10`, ...grown, ...(mode === "plain" ? { atMost: 2 } : {}) });
}

function measure(shape: Shape, size: number, mode: string): Figures {
  const script = join(import.meta.dirname, "graph/run.ts");
  const { stdout, status } = spawnSync(process.execPath, [script, shape, String(size), mode], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status !== 0) throw new Error(`${shape} ${size} ${mode} ended with ${status}`);
  const figures: unknown = JSON.parse(stdout);
  if (
    typeof figures !== "object" ||
    figures === null ||
    !("wall" in figures) ||
    !("cpu" in figures) ||
    !("peak" in figures)
  )
    throw new Error(stdout);
  return { wall: Number(figures.wall), cpu: Number(figures.cpu), peak: Number(figures.peak) };
}
