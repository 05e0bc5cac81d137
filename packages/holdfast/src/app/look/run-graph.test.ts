import { expect, test } from "vitest";
import type { Graph } from "../../core/graph/graph.ts";
import { sampleGraph, sampleNode } from "../../core/graph/graph-sample.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Lease } from "../../core/lease/lease.ts";
import { openHoldfast } from "../../app.ts";
import { graphNow, isSignOfLife, momentOf } from "./run-graph.ts";

const AT = "2026-11-15T12:00:00.000Z";
const LATER = "2026-11-15T12:05:00.000Z";
const lease: Lease = {
  run: "r",
  epoch: 3,
  owner: { token: "t", host: "laptop", pid: 7, started: "1", boot: "b", label: "holdfast r" },
  takenAt: AT,
  heartbeatAt: LATER,
};

test("nobody runs the nodes of a run that nobody carries", () => {
  const live = (condition: Parameters<typeof momentOf>[0]["condition"]) =>
    momentOf({ condition, now: 1, lastEntryAt: AT }).live;
  expect(live({ kind: "running", lease })).toBe(true);
  expect(live({ kind: "held", lease })).toBe(true);
  expect(live({ kind: "crashed", lease })).toBe(false);
  expect(live({ kind: "stopped" })).toBe(false);
  expect(live({ kind: "parked", on: "person", reason: "", until: null, question: null })).toBe(false);
  expect(live({ kind: "fatal", at: AT, reason: "" })).toBe(false);
});

test("a run that died was alive at its last entry, or at a later heartbeat", () => {
  const seen = (heartbeatAt: string, lastEntryAt: string | null) =>
    momentOf({ condition: { kind: "crashed", lease: { ...lease, heartbeatAt } }, now: 1, lastEntryAt }).seenAt;
  expect(seen(LATER, AT)).toBe(LATER);
  expect(seen(AT, LATER)).toBe(LATER);
  expect(seen(AT, null)).toBe(AT);
  expect([isSignOfLife({ epoch: 0 }), isSignOfLife({ epoch: 1 })]).toEqual([false, true]);
});

test("the journal since the checkpoint is counted; where it cannot be read, the checkpoint is shown", async () => {
  await using holdfast = await openHoldfast({ pretend: true });
  const run = await holdfast.createRun({ id: "r" });
  const graph: Graph = sampleGraph([sampleNode("a")]);
  const first = await run.get((await run.save({ values: {} })).sequence);
  const { position } = first.planes;
  await run.save({ planes: { position: { ...position, graph } } });
  const saved = await run.get(2);
  const entry = (body: JsonObject) => ({ run: "r", entry: 9, at: AT, kind: "graph.moved" as const, body });
  const visit = position.visit.number;
  const moved = graphNow(saved, [entry({ visit, events: [{ kind: "start", node: "a", at: AT }] })]);
  expect(moved?.states["a"]?.status).toBe("running");
  expect(graphNow(saved, [entry({ visit, events: "what" })])).toEqual(graph);
  expect(await holdfast.graph("r")).toMatchObject({ graph, picture: (await holdfast.status("r")).graph ?? undefined });
});
