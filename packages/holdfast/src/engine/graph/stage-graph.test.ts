import { describe, expect, onTestFinished, test } from "vitest";
import type { Graph } from "../../core/graph/graph.ts";
import { sampleGraph, sampleNode } from "../../core/graph/graph-sample.ts";
import { stateOf } from "../../core/graph/graph-state.ts";
import type { GraphEvent } from "../../core/graph/graph-state.ts";
import { ID, begin, define, startToy } from "../../testing/toy-run.ts";
import type { State } from "../../testing/toy-run.ts";
import { WORK_STORES } from "../../testing/work-stores.ts";
import { loadRun } from "../conduct/load-run.ts";
import type { StageFunction } from "../stage-context.ts";

const at = "2026-01-01T00:00:00Z";
const chain = sampleGraph([sampleNode("a"), sampleNode("b", ["a"])]);
const start = (node: string): GraphEvent => ({ kind: "start", node, at });
const complete = (node: string): GraphEvent => ({ kind: "complete", node, at, result: node });
const statuses = (graph: Graph | null | undefined) =>
  graph?.nodes.map((node) => `${node.id} ${stateOf(graph, node.id).status}`);

describe.each(WORK_STORES)("over the $name store", (kind) => {
  const begun = () => startToy(kind, onTestFinished);

  test("definition and states are in the journal: after a death anywhere both are there", async () => {
    for (let death = 1, how = "died"; how === "died"; death += 1) {
      for (const moment of ["before", "after"] as const) {
        const toy = await begun();
        const work: StageFunction<State> = async ({ graph }) => {
          await graph.set(chain);
          for (const node of ["a", "b"]) {
            const now = graph.now();
            if (now === null) throw new Error("no graph");
            const { status } = stateOf(now, node);
            if (status === "pending") await graph.move(start(node));
            if (status !== "complete") await graph.move(complete(node));
          }
          return { event: "worked", reason: "did it" };
        };
        const workflow = define({ work });
        await begin(toy.parts, workflow);
        how = await toy.crash(workflow, death, moment);
        const { position } = await loadRun(toy.parts, ID);
        const moves = (await toy.kinds()).filter((one) => one === "graph.moved").length;
        const expected = (await toy.kinds()).includes("graph.set")
          ? [
              ["a pending", "b pending"],
              ["a running", "b pending"],
              ["a complete", "b pending"],
              ["a complete", "b running"],
              ["a complete", "b complete"],
            ][moves]
          : undefined;
        expect(statuses(position.graph)).toEqual(expected);
        expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
        expect(statuses((await toy.store.latest(ID))?.planes.position.graph)).toEqual(["a complete", "b complete"]);
        expect((await toy.kinds()).filter((one) => one === "graph.set")).toHaveLength(1);
      }
    }
  });

  test("several events are one commit; what cannot happen is refused whole", async () => {
    const toy = await begun();
    const workflow = define({
      work: async ({ graph }) => {
        await expect(graph.move(start("a"))).rejects.toThrow(/has not set/);
        await graph.set(chain);
        await graph.set({ ...chain, states: {} });
        await expect(graph.set({ ...chain, id: "other" })).rejects.toThrow(/has set g$/);
        await expect(graph.move(start("a"), start("b"))).rejects.toThrow(/not complete/);
        expect(statuses(graph.now())).toEqual(["a pending", "b pending"]);
        await graph.move(start("a"), complete("a"), start("b"));
        await graph.move();
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(toy.parts, workflow);
    await toy.go(workflow);
    expect((await toy.kinds()).filter((one) => one.startsWith("graph."))).toEqual(["graph.set", "graph.moved"]);
  });

  test("a graph in a circle is refused with the circle named", async () => {
    const toy = await begun();
    const circle = sampleGraph([sampleNode("a", ["b"]), sampleNode("b", ["a"])]);
    const workflow = define({
      work: async ({ graph }) => {
        await graph.set(circle);
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(toy.parts, workflow);
    await expect(toy.go(workflow)).rejects.toThrow(/waits for itself/);
  });

  test("the next visit sees none until it sets its own, and the last one stays in the position until then", async () => {
    const toy = await begun();
    const seen: (string | null)[] = [];
    const workflow = define({
      work: async ({ graph }) => {
        await graph.set(chain);
        return { event: "worked", reason: "did it" };
      },
      check: async ({ graph, position }) => {
        seen.push(graph.now()?.id ?? null, position.graph?.id ?? null);
        await graph.set({ ...chain, id: "second" });
        seen.push(graph.now()?.id ?? null);
        return { event: "passed", reason: "fine" };
      },
    });
    await begin(toy.parts, workflow);
    await toy.go(workflow);
    expect(seen).toEqual([null, "g", "second"]);
  });

  test("fallen back behind a damaged checkpoint, the graph is that of the whole one", async () => {
    const toy = await begun();
    let stop = true;
    let seen: unknown;
    const work: StageFunction<State> = async ({ graph, checkpoint }) => {
      await graph.set(chain);
      if (stop) {
        await graph.move(start("a"));
        await checkpoint({ trigger: "manual" });
        await graph.move(complete("a"));
        await checkpoint({ trigger: "manual" });
        throw new Error("stop here");
      }
      seen = statuses(graph.now());
      return { event: "worked", reason: "did it" };
    };
    const workflow = define({ work });
    await begin(toy.parts, workflow);
    await expect(toy.go(workflow)).rejects.toThrow("stop here");
    const [newest] = await toy.store.listCheckpoints({ run: ID, trigger: "manual" });
    await toy.store.quarantine({ run: ID, sequences: [newest?.sequence ?? 0], reason: "damaged" });
    stop = false;
    expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
    // Running in the whole one, and its process is gone.
    expect(seen).toEqual(["a pending", "b pending"]);
  });
});
