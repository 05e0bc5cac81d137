import { describe, expect, test } from "vitest";
import type { Graph } from "@holdfast/core/graph";
import type { EntryKind } from "@holdfast/core/journal";
import type { JsonObject } from "@holdfast/core/json";
import type { RunStatus } from "@holdfast/core/status";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import { sampleHolder, sampleRunning } from "@holdfast/test-support/sample-run";
import { openHoldfast } from "./open.ts";
import { EMPTY_SUMMARY, graphNow, graphTimes, isWrittenByHolder, reduceSummary, workingOn } from "./run-status.ts";

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
      best: null,
      scored: 60,
      end: null,
      target: null,
      restored: null,
    });
  });

  test("an ended run that was restored is at its target, and keeps its best score until it is continued", () => {
    const checkpoint = (sequence: number, trigger: string, stage: string, iteration: number) =>
      ({ kind: "checkpoint", body: { sequence, trigger, stage, iteration } }) as const;
    const score = (value: number) => ({ kind: "stage.ended", body: { stage: "review", score: value } }) as const;
    const fold = (entries: readonly { readonly kind: EntryKind; readonly body: JsonObject }[], from = EMPTY_SUMMARY) =>
      entries.reduce((folded, entry) => reduceSummary(folded, { ...entry, at: AT }), from);
    const done = fold([
      score(74),
      checkpoint(8, "stage", "impl", 2),
      score(94),
      checkpoint(14, "stage", "done", 2),
      { kind: "stage.entered", body: { stage: "done", iteration: 2 } },
      { kind: "run.ended", body: { outcome: "done" } },
    ]);
    const restored = fold(
      [
        checkpoint(15, "before_restore", "done", 2),
        { kind: "restore.finished", body: { target: "issue-1@8" } },
        checkpoint(16, "restore", "impl", 2),
      ],
      done,
    );
    expect(restored).toMatchObject({ stage: "impl", iteration: 2, restored: 8, best: { sequence: 14, score: 94 } });
    const undone = [
      { kind: "restore.finished", body: { target: "issue-1@15" } },
      checkpoint(18, "restore", "done", 2),
    ] as const;
    expect(fold(undone, restored)).toMatchObject({ stage: "done", restored: null });
    expect(fold([{ kind: "run.reopened", body: { reason: "again" } }], restored)).toMatchObject({ restored: null });
  });

  test("a long call counts as work until now, or until the last heartbeat of a process that died", () => {
    const last = { epoch: 3, at: Date.parse(AT) };
    const now = last.at + 300_000;
    const holder = { ...sampleHolder, epoch: 3, heartbeatAt: new Date(last.at + 60_000).toISOString() };
    const running = sampleRunning({ holder });
    expect(workingOn({ last }, running, now)).toBe(300_000);
    expect(workingOn({ last }, { ...running, suspended: true }, now)).toBe(60_000);
    expect(workingOn({ last }, { kind: "crashed", certain: true, holder }, now)).toBe(60_000);
    expect(workingOn({ last: { ...last, epoch: 2 } }, running, now)).toBe(0);
    expect(workingOn({ last }, { kind: "done", at: AT }, now)).toBe(0);
  });

  test("what a resume found about the folders of its machine is not the last thing that happened", () => {
    const note = (text: string, finding?: string) =>
      ({ kind: "note", at: AT, body: { text, ...(finding === undefined ? {} : { finding }) } }) as const;
    const fold = (notes: readonly ReturnType<typeof note>[]) => notes.reduce(reduceSummary, EMPTY_SUMMARY).last?.text;
    const gone = note("The worktree /home/ann/shop-worktrees/issue-42 is gone: accepted", "worktree_missing");
    expect(fold([note("Something else"), gone])).toBe("Something else");
    expect(fold([gone, note("The issue was edited: accepted", "issue_body_changed")])).toContain(
      "The issue was edited",
    );
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
