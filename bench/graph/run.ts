import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { Graph } from "@holdfast/core/graph";
import { beginRun } from "@holdfast/core/control-run";
import { executeRun } from "@holdfast/core/execute";
import { defineWorkflow } from "@holdfast/core/workflow";
import { runGraph } from "@holdfast/core/run-graph";
import { openSqliteStore } from "../../packages/holdfast/src/stores/sqlite/open.ts";
import { systemClock } from "@holdfast/platform/clock";
import { benchParts } from "../engine/bench-parts.ts";
import { graphOf, SHAPES } from "./shapes.ts";

/**
 * One shape and size in a process of its own, whose peak of memory is then the graph's: graphs of 1,000 nodes in all,
 * after one for the compiler. Prints microseconds a node and the peak as JSON.
 *
 *   node bench/graph/run.ts SHAPE SIZE checkpoints|plain
 */
const [, , shapeName, sizeText, mode] = process.argv;
const shape = SHAPES.find((one) => one === shapeName);
const size = Number(sizeText);
if (shape === undefined || !(size > 0)) throw new Error("node bench/graph/run.ts SHAPE SIZE checkpoints|plain");
const LIMIT = 16;
const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-graph-"));
const store = await openSqliteStore({ directory, create: true, clock: systemClock });
try {
  const graph = graphOf(shape, size);
  const rounds = Math.max(1, Math.round(1000 / size));
  await run(graphOf(shape, Math.min(size, 100)));
  const began = performance.now();
  const cpu = process.cpuUsage();
  for (let round = 0; round < rounds; round += 1) await run(graph);
  const { user, system } = process.cpuUsage(cpu);
  const nodes = rounds * size;
  const peak = process.resourceUsage().maxRSS / 1024;
  const figures = {
    wall: ((performance.now() - began) * 1000) / nodes,
    cpu: (user + system) / nodes,
    peak: Math.round(peak),
  };
  process.stdout.write(`${JSON.stringify(figures)}\n`);
} finally {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
}

async function run(graph: Graph): Promise<void> {
  const id = `b-${randomUUID().slice(0, 13)}`;
  const parts = benchParts(store);
  const { inputs, config } = emptyPlanes();
  let worked = 0;
  const workflow = defineWorkflow({
    name: "graph",
    initial: "work",
    stages: {
      work: async (context) => {
        const end = await runGraph(context, {
          graph,
          limit: LIMIT,
          work: async () => {
            worked += 1;
            return { kind: "complete", result: null };
          },
          ...(mode === "checkpoints"
            ? { barrier: true, afterBatch: () => context.checkpoint({ trigger: "batch_complete" }) }
            : {}),
        });
        return { event: "worked", reason: end.kind };
      },
    },
    transitions: { work: { worked: "done" } },
    ends: { done: "done" },
    initialState: () => ({}),
  });
  await beginRun({ parts, workflow, id, work: { kind: "none" }, inputs, config, workspace: undefined });
  const outcome = await executeRun({ parts, run: id, workflow, signal: new AbortController().signal });
  if (outcome.kind !== "done" || worked !== graph.nodes.length) throw new Error(`${worked} nodes, ${outcome.kind}`);
}
