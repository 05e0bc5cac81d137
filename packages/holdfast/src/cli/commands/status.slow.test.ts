import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Graph } from "@holdfast/core/graph";
import { type GraphEvent, stepGraph } from "@holdfast/core/graph-state";
import { type WorkPlace, workSuite, workflowSource } from "@holdfast/test-support/cli-repositories";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import type { Holdfast } from "../../holdfast.ts";
import { openHoldfast } from "../../open.ts";

const work = workSuite();
let place: WorkPlace;
let holdfast: Holdfast;

const at = (minutes: number): string => new Date(Date.now() + minutes * 60_000).toISOString();

function someGraph(): Graph {
  const graph = sampleGraph([
    sampleNode("spec"),
    sampleNode("api", ["spec"]),
    sampleNode("db", ["spec"], { idempotent: false }),
    sampleNode("tests", ["api", "db"]),
  ]);
  const events: readonly GraphEvent[] = [
    { kind: "start", node: "spec", at: at(-10) },
    { kind: "complete", node: "spec", at: at(-6), result: null },
    { kind: "start", node: "api", at: at(-5) },
  ];
  return events.reduce(stepGraph, graph);
}

/** A run that this process holds until it releases the lease. To the command, another live process holds it. */
async function runWith(id: string, graph: Graph | null) {
  const run = await holdfast.createRun({ id, workflow: "crunch" });
  const first = await run.get((await run.save({ values: {}, stage: "implementing" })).sequence);
  await run.save({ planes: { position: { ...first.planes.position, graph } } });
  return run;
}

beforeAll(async () => {
  place = await work.begin();
  holdfast = await openHoldfast({ cwd: place.clone });
}, 60_000);
afterAll(() => holdfast.close());

async function shown(...args: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await place.run(...args, "--quiet");
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return stdout;
}

describe("a run with a task graph", () => {
  test("while a process executes it, and after its release", async () => {
    const run = await runWith("working", someGraph());
    const live = await shown("status", "working");
    expect(live).toMatch(/ ▸ api \* .*\n.* running \d+ min/);
    expect(live).toContain("1 of 4 complete, 1 running, 2 pending");
    const document = JSON.parse(await shown("status", "working", "--json")).run;
    expect(document.graph).toMatchObject({
      batches: [["spec"], ["api", "db"], ["tests"]],
      counts: { complete: 1, running: 1, interrupted: 0, pending: 2 },
      criticalPath: { nodes: ["spec", "api", "tests"] },
      resumePoint: "api",
      elapsed: { kind: "so_far" },
    });
    expect(document.graph.nodes[1]).toMatchObject({
      id: "api",
      state: "running",
      batch: 2,
      attempts: 1,
      endedAt: null,
      waitsFor: ["spec"],
    });
    await run.close();
    const left = await shown("status", "working");
    expect(left).toContain("interrupted ≥ ");
    expect(left).not.toContain("running");
    expect(left).toContain("continues with api");
  });

  test("as Mermaid: of the current run, and of a checkpoint", async () => {
    const run = await runWith("drawn", someGraph());
    await run.close();
    const now = await shown("show", "--graph", "drawn");
    expect(now).toMatch(/^flowchart LR\n {2}subgraph b1\["batch 1"\]\n/);
    expect(now).toMatch(/n2\["api<br\/>dev, implement<br\/>interrupted, at least \d+ min"\]:::interrupted/);
    expect(await shown("show", "--graph", "drawn@2")).toMatch(/running, \d+ min"\]:::running/);
    const { of, graph, edges } = JSON.parse(await shown("show", "--graph", "drawn@latest", "--json"));
    expect([of, graph.nodes.length, edges]).toEqual(["drawn@2", 4, []]);
  });

  test("a run without one reports that", async () => {
    await (await runWith("plain", null)).close();
    expect(await shown("status", "plain")).not.toContain("Graph");
    expect(JSON.parse(await shown("status", "plain", "--json")).run.graph).toBeNull();
    const { status, stderr, stdout } = await place.run("show", "--graph", "plain");
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toContain("Run plain has no task graph");
  });

  test("without Unicode it is drawn in ASCII", async () => {
    const { stdout } = await place.holdfast.run(["status", "working"], { cwd: place.clone, env: { LANG: "C" } });
    expect(stdout.slice(stdout.indexOf("Graph"))).toMatch(/^[\n -~]*$/);
    expect(stdout).toContain("+ spec *");
  });

  test("killed in the middle: the state of the journal is shown, and running nodes are interrupted", async () => {
    const file = join(place.clone, "graphs.ts");
    await writeFile(file, workflowSource(WORKFLOW));
    const started = place.start("run", "1", "--workflow", "graphs.ts", "--agent", await place.agent([]));
    await started.says("waiting");
    const running = JSON.parse(await shown("status", "issue-1", "--json")).run;
    expect(running.graph.counts).toMatchObject({ complete: 1, running: 1, pending: 1 });
    started.child.kill("SIGKILL");
    await started.ended;
    const crashed = JSON.parse(await shown("status", "1", "--json")).run;
    expect(crashed.status.kind).toBe("crashed");
    expect(crashed.graph).toMatchObject({
      counts: { complete: 1, running: 0, interrupted: 1, pending: 1 },
      resumePoint: "api",
      elapsed: { kind: "at_least" },
    });
    expect(await shown("status", "1")).toContain("continues with api");
    // Of several runs each has its command.
    const all = await place.run("status");
    expect(all.stderr).toContain("Continue with: holdfast resume issue-1\n");
    expect(all.stderr.split("\n").filter((line) => line.includes("holdfast resume"))).toHaveLength(
      JSON.parse(await shown("status", "--json")).runs.length,
    );
    expect(await shown("show", "--graph", "1")).toContain(":::interrupted");
  });
});

/** Sets its graph, runs two nodes of it and waits in the second. */
const WORKFLOW = `
import { defineWorkflow } from "holdfast";
const node = (id, dependencies) => ({ id, agent: "dev", action: "implement", dependencies, priority: "normal", timeoutMs: null, retries: 0, idempotent: true, outputs: [] });
const at = () => new Date().toISOString();
export default defineWorkflow({
  name: "graphs",
  initial: "work",
  stages: {
    work: async ({ graph, note, signal }) => {
      await graph.set({ id: "g", nodes: [node("spec", []), node("api", ["spec"]), node("docs", ["api"])], edges: [], states: {}, meta: {} });
      await graph.move({ kind: "start", node: "spec", at: at() }, { kind: "complete", node: "spec", at: at(), result: null });
      await graph.move({ kind: "start", node: "api", at: at() });
      await note("waiting");
      await new Promise((resolve) => { signal.addEventListener("abort", resolve); setTimeout(resolve, 60_000); });
      return { event: "ok", reason: "" };
    },
  },
  transitions: { work: { ok: "done" } },
  ends: { done: "done" },
  initialState: () => ({}),
});
`;
