import { describe, expect, test } from "vitest";
import type { Graph } from "@holdfast/core/graph";
import type { JsonObject } from "@holdfast/core/json";
import type { RunStatus } from "@holdfast/core/status";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import { sampleHolder, sampleRunning } from "@holdfast/test-support/sample-run";
import { openHoldfast } from "./open.ts";
import { EMPTY_SUMMARY, graphNow, graphTimes, isWrittenByHolder, reduceSummary } from "./run-status.ts";

describe("run status", () => {
  const AT = "2026-11-15T12:00:00.000Z";
  test("the journal alone gives stage, scores and last action", () => {
    const entries = [
      { kind: "stage.entered", body: { stageAttempt: 1, stage: "impl", iteration: 1 } },
      { kind: "step.started", body: { stageAttempt: 1, step: "agent", files: true, estimate: null } },
      { kind: "step.finished", body: { stageAttempt: 1, step: "agent", result: null, spent: null } },
      {
        kind: "stage.ended",
        body: { stageAttempt: 1, stage: "impl", event: "impl_done", reason: "ok", next: "review", score: null },
      },
      { kind: "stage.entered", body: { stageAttempt: 2, stage: "review", iteration: 1 } },
      {
        kind: "stage.ended",
        body: { stageAttempt: 2, stage: "review", event: "review_fail", reason: "docs", next: "impl", score: 60 },
      },
      { kind: "stage.entered", body: { stageAttempt: 3, stage: "impl", iteration: 2 } },
      { kind: "step.started", body: { stageAttempt: 3, step: "agent", files: true, estimate: null } },
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
    });
  });

  test("bodies without optional fields are accepted", () => {
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
  const holder = { ...sampleHolder, heartbeatAt: LATER };

  test("no node runs in a run that no process executes", () => {
    const live = (status: RunStatus) => graphTimes({ status, now: 1, lastEntryAt: AT }).live;
    expect(live(sampleRunning())).toBe(true);
    expect(live(sampleRunning({ hostKnown: false }))).toBe(true);
    expect(live({ kind: "crashed", certain: true, holder })).toBe(false);
    expect(live({ kind: "paused", reason: null, started: true })).toBe(false);
    expect(live({ kind: "queued", holder, position: 1 })).toBe(false);
    expect(live({ kind: "failed", at: AT, reason: "", limit: false })).toBe(false);
  });

  test("a run that died was alive at its last entry, or at a later heartbeat", () => {
    const seen = (heartbeatAt: string, lastEntryAt: string | null) => {
      const status = { kind: "crashed", certain: true, holder: { ...holder, heartbeatAt } } as const;
      return graphTimes({ status, now: 1, lastEntryAt }).seenAt;
    };
    expect(seen(LATER, AT)).toBe(LATER);
    expect(seen(AT, LATER)).toBe(LATER);
    expect(seen(AT, null)).toBe(AT);
    expect([isWrittenByHolder({ epoch: 0 }), isWrittenByHolder({ epoch: 1 })]).toEqual([false, true]);
  });

  test("the journal since the checkpoint is included; if it cannot be read, the checkpoint is shown", async () => {
    await using holdfast = await openHoldfast({ pretend: true });
    const run = await holdfast.createRun({ id: "r" });
    const graph: Graph = sampleGraph([sampleNode("a")]);
    const first = await run.get((await run.save({ values: {} })).sequence);
    const { position } = first.planes;
    await run.save({ planes: { position: { ...position, graph } } });
    const saved = await run.get(2);
    const entry = (body: JsonObject) => ({ run: "r", entry: 9, at: AT, kind: "graph.moved" as const, body });
    const stageAttempt = position.stageAttempt.number;
    const moved = graphNow(saved, [entry({ stageAttempt, events: [{ kind: "start", node: "a", at: AT }] })]);
    expect(moved?.states["a"]?.status).toBe("running");
    expect(graphNow(saved, [entry({ stageAttempt, events: "what" })])).toEqual(graph);
    expect(await holdfast.graph("r")).toMatchObject({
      graph,
      picture: (await holdfast.status("r")).graph ?? undefined,
    });
  });
});
