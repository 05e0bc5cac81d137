import { expect, onTestFinished, test } from "vitest";
import { openHoldfast } from "../../app.ts";
import type { ProgressEvent } from "../../app.ts";
import type { GraphPicture } from "../../core/graph/graph-picture.ts";
import { sampleGraph, sampleNode } from "../../core/graph/graph-sample.ts";
import { followGraph } from "./follow-graph.ts";

const NEWS: ProgressEvent = { run: "r", at: "2026-11-15T12:00:00.000Z", kind: "note", text: "" };

test("news leads to a reading, and to a later one when more came meanwhile; after the end there is none", async () => {
  const holdfast = await openHoldfast({ pretend: true });
  onTestFinished(() => holdfast.close());
  const run = await holdfast.createRun({ id: "r" });
  const { planes } = await run.get((await run.save({ values: {} })).sequence);
  const seen: (GraphPicture | null)[] = [];
  const follow = followGraph(holdfast, { graph: (graph) => seen.push(graph) });
  follow.tell(NEWS);
  await expect.poll(() => seen.length, { timeout: 600_000 }).toBe(1);
  expect(seen).toEqual([null]);
  const graph = sampleGraph([sampleNode("a"), sampleNode("b", ["a"])]);
  await run.save({ planes: { position: { ...planes.position, graph } } });
  follow.tell({ ...NEWS, kind: "agent", step: "a", event: { kind: "text", text: "moves no node" } });
  follow.tell(NEWS);
  await expect.poll(() => seen.at(-1)?.batches, { timeout: 600_000 }).toEqual([["a"], ["b"]]);
  follow.tell(NEWS);
  await follow.close();
  const before = seen.length;
  follow.tell(NEWS);
  await new Promise((resolve) => setTimeout(resolve, 400));
  expect(seen.length).toBe(before);
});
