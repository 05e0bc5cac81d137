import { describe, expect, test } from "vitest";
import type { Graph } from "@holdfast/core/graph";
import type { JsonObject } from "@holdfast/core/json";
import type { Lease, OwnerLiveness } from "@holdfast/core/lease";
import type { RunState } from "@holdfast/core/run";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import { openHoldfast } from "./open.ts";
import { EMPTY_SUMMARY, conditionOf, graphNow, graphTimes, isWrittenByHolder, reduceSummary } from "./run-status.ts";

describe("run status", () => {
  const AT = "2026-11-15T12:00:00.000Z";
  const lease: Lease = {
    run: "r",
    epoch: 3,
    owner: { token: "t", host: "laptop", pid: 7, started: "1", boot: "b", label: "holdfast r" },
    takenAt: AT,
    heartbeatAt: AT,
  };
  const states: Readonly<Record<RunState["kind"], RunState>> = {
    active: { kind: "active" },
    waiting: { kind: "waiting", for: "quota", reason: "rate limit", until: AT },
    done: { kind: "done", at: AT },
    paused: { kind: "paused", reason: "lunch" },
    failed: { kind: "failed", at: AT, reason: "stuck" },
    aborted: { kind: "aborted", at: AT, reason: "enough" },
  };

  test.each([
    ["active", undefined, "stopped"],
    ["active", "alive", "running"],
    ["active", "dead", "crashed"],
    ["active", "unknown", "held"],
    ["waiting", undefined, "waiting"],
    ["waiting", "dead", "waiting"],
    ["waiting", "alive", "running"],
    ["done", "alive", "done"],
    ["failed", "dead", "failed"],
  ] as const)("%s, held by %s: %s", (state, alive: OwnerLiveness | undefined, kind) => {
    const holder = alive === undefined ? undefined : { lease, alive };
    expect(conditionOf({ run: { state: states[state] }, holder, question: null, worked: true }).kind).toBe(kind);
  });

  test("a run that no workflow carries is never called resumable", () => {
    const condition = conditionOf({ run: { state: states.active }, holder: undefined, question: null, worked: false });
    expect(condition).toEqual({ kind: "manual" });
  });

  test("the journal alone tells stage, scores, question and last action", () => {
    const entries = [
      { kind: "stage.entered", body: { visit: 1, stage: "impl", iteration: 1 } },
      { kind: "step.started", body: { visit: 1, step: "agent", files: true, estimate: null } },
      { kind: "step.finished", body: { visit: 1, step: "agent", result: null, spent: null } },
      {
        kind: "stage.ended",
        body: { visit: 1, stage: "impl", event: "impl_done", reason: "ok", next: "review", score: null },
      },
      { kind: "stage.entered", body: { visit: 2, stage: "review", iteration: 1 } },
      {
        kind: "stage.ended",
        body: { visit: 2, stage: "review", event: "review_fail", reason: "docs", next: "impl", score: 60 },
      },
      { kind: "stage.entered", body: { visit: 3, stage: "impl", iteration: 2 } },
      { kind: "step.started", body: { visit: 3, step: "agent", files: true, estimate: null } },
      {
        kind: "run.waiting",
        body: {
          for: "you",
          reason: "asks",
          until: null,
          decision: { name: "merge", question: "Merge?", options: ["yes", "no"] },
        },
      },
    ] as const;
    const picture = entries.reduce((folded, entry) => reduceSummary(folded, { ...entry, at: AT }), EMPTY_SUMMARY);
    expect(picture).toEqual({
      stage: "impl",
      denied: [],
      iteration: 2,
      since: AT,
      scores: [{ iteration: 1, score: 60 }],
      step: null,
      last: { at: AT, text: "asks" },
      question: { name: "merge", question: "Merge?", options: ["yes", "no"] },
      endReason: null,
    });
  });

  test("bodies that lack fields are looked at, not stumbled over", () => {
    for (const kind of [
      "stage.entered",
      "stage.ended",
      "step.started",
      "step.finished",
      "step.failed",
      "run.waiting",
      "effect.settled",
      "note",
    ] as const)
      expect(() => reduceSummary(EMPTY_SUMMARY, { kind, at: AT, body: {} })).not.toThrow();
  });
});

describe("run graph", () => {
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
    const live = (condition: Parameters<typeof graphTimes>[0]["condition"]) =>
      graphTimes({ condition, now: 1, lastEntryAt: AT }).live;
    expect(live({ kind: "running", lease })).toBe(true);
    expect(live({ kind: "held", lease })).toBe(true);
    expect(live({ kind: "crashed", lease })).toBe(false);
    expect(live({ kind: "stopped" })).toBe(false);
    expect(live({ kind: "waiting", for: "you", reason: "", until: null, question: null })).toBe(false);
    expect(live({ kind: "failed", at: AT, reason: "" })).toBe(false);
  });

  test("a run that died was alive at its last entry, or at a later heartbeat", () => {
    const seen = (heartbeatAt: string, lastEntryAt: string | null) =>
      graphTimes({ condition: { kind: "crashed", lease: { ...lease, heartbeatAt } }, now: 1, lastEntryAt }).seenAt;
    expect(seen(LATER, AT)).toBe(LATER);
    expect(seen(AT, LATER)).toBe(LATER);
    expect(seen(AT, null)).toBe(AT);
    expect([isWrittenByHolder({ epoch: 0 }), isWrittenByHolder({ epoch: 1 })]).toEqual([false, true]);
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
    expect(await holdfast.graph("r")).toMatchObject({
      graph,
      picture: (await holdfast.status("r")).graph ?? undefined,
    });
  });
});
