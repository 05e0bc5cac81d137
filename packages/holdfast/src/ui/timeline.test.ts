import type { JournalEntry } from "@holdfast/core/journal";
import type { JsonObject } from "@holdfast/core/json";
import type { Span, Timeline } from "@holdfast/dashboard/api";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type TimelineNow, TimelineReader } from "./timeline.ts";

type Entry = Pick<JournalEntry, "entry" | "kind" | "at" | "epoch" | "body">;
const START = Date.parse("2026-11-18T07:00:00.000Z");
const NOW = { now: START + 10 * 3_600_000, live: false, crashedAt: null };

/** Each line: seconds after the start, kind, body. */
function journal(...lines: readonly (readonly [number, string, JsonObject?])[]): readonly Entry[] {
  return lines.map(([seconds, kind, body = {}], at) => ({
    entry: at + 1,
    kind: kind as Entry["kind"],
    at: new Date(START + seconds * 1000).toISOString(),
    epoch: kind.startsWith("tag.") ? 0 : 1,
    body,
  }));
}

function foldTimeline(entries: readonly Entry[], now: TimelineNow): Timeline {
  const reader = new TimelineReader();
  for (const entry of entries) reader.read(entry);
  return reader.timeline(now);
}

const seconds = (iso: string | null): number | null => (iso === null ? null : (Date.parse(iso) - START) / 1000);
const from = (heartbeat: number): JsonObject => ({
  from: { epoch: 1, heartbeatAt: new Date(START + heartbeat * 1000).toISOString() },
});
const brief = ({ kind, name, startedAt, endedAt, result }: Span) => [
  `${kind} ${name}`,
  seconds(startedAt),
  seconds(endedAt),
  result,
];

const STAGE = { stage: "impl", iteration: 1, stageAttempt: 1 };
const CALL = { stageAttempt: 1, step: "agent", estimate: { tokens: 0, microUsd: 0, milliseconds: 0 }, files: true };
const SPENT = { tokens: 10, microUsd: 500, milliseconds: 1000 };

test("a crash is a mark inside the stage and the call, which continue after it", () => {
  const folded = foldTimeline(
    journal(
      [0, "lease.taken", { from: null }],
      [1, "stage.entered", STAGE],
      [2, "step.started", CALL],
      [60, "lease.taken", from(10)],
      [70, "step.finished", { stageAttempt: 1, step: "agent", result: null, spent: SPENT }],
      [80, "stage.ended", { ...STAGE, event: "impl_done", reason: "complete", next: null, score: null }],
    ),
    NOW,
  );
  expect(folded.spans.map(brief)).toEqual([
    ["stage impl", 1, 80, "done"],
    ["agent agent", 2, 70, "done"],
  ]);
  expect(folded.marks.map(({ kind, at }) => [kind, seconds(at)])).toEqual([["crash", 10]]);
  expect(folded.gaps.map((gap) => [seconds(gap.from), seconds(gap.to), gap.reason])).toEqual([
    [10, 60, "idle after a crash"],
  ]);
  expect(folded.spans[0]?.spent).toEqual({ tokens: 10, microUsd: 500, milliseconds: 1000 });
});

test("a stage that makes the run fail has failed, and a reason does not repeat the score", () => {
  const ends = (stage: string, event: string, score: number | null, reason: string): JsonObject => ({
    ...STAGE,
    stage,
    event,
    score,
    reason,
    next: null,
  });
  const folded = foldTimeline(
    journal(
      [0, "stage.entered", { ...STAGE, stage: "review" }],
      [1, "stage.ended", ends("review", "review_fail", 68, "The review failed with 68: docs=55<85")],
      [2, "stage.entered", { ...STAGE, stage: "review" }],
      [3, "stage.ended", ends("review", "review_pass", 94, "The review passed with 94")],
      [4, "stage.entered", STAGE],
      [5, "stage.ended", ends("impl", "fatal", null, "The limit is reached")],
    ),
    NOW,
  );
  expect(folded.spans.map(({ text, result }) => [text, result])).toEqual([
    ["review #1 failed with 68: docs=55<85", "failed"],
    ["review #1 (attempt 2) finished with 94", "done"],
    ["impl #1 failed: The limit is reached", "failed"],
  ]);
});

test("a call that starts again after a crash is a second attempt, and the first ended with its process", () => {
  const folded = foldTimeline(
    journal(
      [0, "lease.taken", { from: null }],
      [1, "stage.entered", STAGE],
      [2, "step.started", CALL],
      [60, "lease.taken", from(10)],
      [61, "step.lost", { stageAttempt: 1, step: "agent", spent: SPENT }],
      [62, "step.started", CALL],
    ),
    { ...NOW, live: true },
  );
  expect(folded.spans.map(brief)).toEqual([
    ["stage impl", 1, null, "open"],
    ["agent agent", 2, 10, "interrupted"],
    ["agent agent", 62, null, "open"],
  ]);
  expect(folded.spans.at(-1)?.attempt).toBe(2);
});

test("waits and the time without a process are gaps with their reason", () => {
  const folded = foldTimeline(
    journal(
      [0, "lease.taken", { from: null }],
      [1, "stage.entered", STAGE],
      [5, "run.waiting", { for: "quota", reason: "the provider refuses requests", until: null }],
      [5, "lease.released"],
      [3605, "lease.taken", { from: null }],
      [3605, "run.continued", {}],
      [3610, "step.finished", { stageAttempt: 1, step: "gate", result: { kind: "exited", code: 1 }, spent: null }],
      [3611, "lease.released"],
    ),
    { ...NOW, now: START + 3700_000 },
  );
  expect(folded.gaps.map(({ reason, ...gap }) => [seconds(gap.from), seconds(gap.to), reason])).toEqual([
    [5, 3605, "waiting for quota"],
    [3611, 3700, "idle"],
  ]);
  expect(folded.spans.map(brief)).toEqual([
    ["stage impl", 1, null, "open"],
    ["wait waiting for quota", 5, 3605, "done"],
    ["check gate", 3605, 3610, "failed"],
  ]);
});

test("a restore ends the stage, and the next step opens the stage of the checkpoint again", () => {
  const folded = foldTimeline(
    journal(
      [0, "lease.taken", { from: null }],
      [1, "stage.entered", STAGE],
      [2, "checkpoint", { sequence: 1, trigger: "stage", stage: "impl", iteration: 1, name: null }],
      [3, "stage.ended", { ...STAGE, event: "impl_done", reason: "", next: "review", score: null }],
      [3, "stage.entered", { stage: "review", iteration: 1, stageAttempt: 2 }],
      [4, "lease.released"],
      [9, "checkpoint", { sequence: 2, trigger: "before_restore", stage: "review", iteration: 1, name: null }],
      [9, "restore.finished", { target: "issue-1@1" }],
      [9, "checkpoint", { sequence: 3, trigger: "restore", stage: "impl", iteration: 1, name: "restore of issue-1@1" }],
      [20, "step.finished", { stageAttempt: 3, step: "time", result: null, spent: null }],
    ),
    NOW,
  );
  expect(folded.spans.map(brief)).toEqual([
    ["stage impl", 1, 3, "done"],
    ["stage review", 3, 9, "interrupted"],
    ["stage impl", 9, null, "open"],
    ["step time", 9, 20, "done"],
  ]);
  expect(folded.marks.filter(({ kind }) => kind === "restore")).toMatchObject([
    { sequence: 1, text: "restored to @1" },
  ]);
});

test("a stage whose agent failed, and the stage in which a run fails, have failed", () => {
  const failed = { outcome: "failed", cause: "crash", message: "exit 3", usage: {} };
  const end = { event: "iterated", reason: "", next: null, score: null };
  const { spans } = foldTimeline(
    journal(
      [1, "stage.entered", { stage: "iterate", iteration: 1 }],
      [2, "step.started", CALL],
      [3, "step.finished", { stageAttempt: 1, step: "agent", result: failed, spent: SPENT }],
      [4, "stage.ended", { stage: "iterate", ...end }],
      [4, "stage.entered", { stage: "iterate", iteration: 2 }],
      [5, "stage.ended", { stage: "iterate", ...end }],
      [5, "stage.entered", { stage: "fatal", iteration: 2 }],
      [6, "stage.ended", { stage: "fatal", ...end, event: "told" }],
      [6, "run.ended", { outcome: "failed", reason: "stuck" }],
    ),
    NOW,
  );
  expect(spans.filter(({ kind }) => kind === "stage").map(brief)).toEqual([
    ["stage iterate", 1, 4, "failed"],
    ["stage iterate", 4, 5, "done"],
    ["stage fatal", 5, 6, "failed"],
  ]);
});

test("a crash that no process has noticed yet is a mark at the last heartbeat", () => {
  const crashedAt = new Date(START + 30_000).toISOString();
  const folded = foldTimeline(journal([0, "lease.taken", { from: null }], [1, "stage.entered", STAGE]), {
    now: START + 100_000,
    live: false,
    crashedAt,
  });
  expect(folded.marks.map(({ kind, at }) => [kind, seconds(at)])).toEqual([["crash", 30]]);
  expect(folded.gaps.map((gap) => [seconds(gap.from), seconds(gap.to)])).toEqual([[30, 100]]);
});

const STEPS = fc.constantFrom("a", "b", "c");
const line: fc.Arbitrary<readonly [string, JsonObject]> = fc.oneof(
  fc.tuple(
    fc.constant("stage.entered"),
    fc.record({ stage: STEPS, iteration: fc.nat(3), stageAttempt: fc.integer({ min: 1, max: 4 }) }),
  ),
  fc.tuple(
    fc.constant("stage.ended"),
    fc.record({ stage: STEPS, event: fc.constantFrom("done", "review_fail"), score: fc.option(fc.nat(100)) }),
  ),
  fc.tuple(
    fc.constantFrom("step.started", "step.finished", "step.failed", "step.lost", "step.interrupted"),
    fc.record({
      step: STEPS,
      stageAttempt: fc.integer({ min: 1, max: 4 }),
      estimate: fc.constantFrom(null, SPENT),
      spent: fc.constantFrom(null, SPENT),
      result: fc.constantFrom<JsonObject | null>(null, { pass: false }, { kind: "exited", code: 0 }),
    }),
  ),
  fc.tuple(
    fc.constantFrom("effect.intended", "effect.settled", "effect.unknown", "effect.undone"),
    fc.record({ key: fc.constantFrom("r/pr/push.1", "r/pr/comment.1"), outcome: fc.constantFrom("done", "undone") }),
  ),
  fc.tuple(
    fc.constantFrom("run.waiting", "run.paused", "run.continued", "run.ended", "run.reopened"),
    fc.record({
      for: fc.constantFrom("you", "quota"),
      reason: fc.constant("why"),
      outcome: fc.constantFrom("done", "failed"),
    }),
  ),
  fc.tuple(
    fc.constantFrom("lease.taken", "lease.released"),
    fc.record({
      from: fc.option(fc.record({ heartbeatAt: fc.date({ noInvalidDate: true }).map((date) => date.toISOString()) })),
    }),
  ),
  fc.tuple(
    fc.constant("checkpoint"),
    fc.record({
      sequence: fc.integer({ min: 1, max: 50 }),
      trigger: fc.constantFrom("stage", "restore", "fork", "before_restore"),
      stage: fc.constantFrom("a", "none"),
    }),
  ),
  fc.tuple(
    fc.constantFrom("tag.added", "note", "x.own", "restore.finished"),
    fc.record({ target: fc.constant("r@2") }),
  ),
);

/** Also clocks that were set back. */
const journals = fc.array(fc.tuple(fc.integer({ min: -20, max: 400 }), line), { maxLength: 80 }).map((lines) => {
  let at = 0;
  return journal(...lines.map(([step, [kind, body]]) => [(at += step), kind, body] as const));
});

/** Everything that must hold for any journal, whole or cut. */
function problemsOf({ from, to, spans, marks, gaps }: Timeline): readonly string[] {
  const problems: string[] = [];
  const byId = new Map(spans.map((span) => [span.id, span]));
  const end = (span: Span): string => span.endedAt ?? to;
  if (byId.size !== spans.length) problems.push("two spans have one id");
  for (const span of spans) {
    if (span.startedAt < from || end(span) > to || end(span) < span.startedAt) problems.push(`${span.id} is outside`);
    const parent = span.parent === null ? null : byId.get(span.parent);
    if (parent === undefined) problems.push(`${span.id} has no parent`);
    else if (parent !== null && (span.startedAt < parent.startedAt || end(span) > end(parent)))
      problems.push(`${span.id} leaves ${parent.id}`);
    if ((span.endedAt === null) !== (span.result === "open")) problems.push(`${span.id} is open and ended`);
  }
  const sequential = Map.groupBy(spans, ({ kind, name, parent }) =>
    kind === "stage" ? "" : `${parent}/${kind}/${name}`,
  );
  for (const siblings of sequential.values())
    for (const [at, span] of siblings.entries()) {
      const next = siblings[at + 1];
      // Two effects of one kind may be under way at once.
      if (next !== undefined && span.kind !== "effect" && next.startedAt < end(span))
        problems.push(`${span.id} overlaps ${next.id}`);
    }
  for (const mark of marks) if (mark.at < from || mark.at > to) problems.push(`a ${mark.kind} is outside`);
  for (const [at, gap] of gaps.entries()) {
    const next = gaps[at + 1];
    if (gap.reason === "" || gap.to <= gap.from) problems.push("a gap is empty or has no reason");
    if (next !== undefined && next.from < gap.to) problems.push("gaps overlap");
  }
  return problems;
}

test("spans nest, one stage at a time, for any journal", () => {
  fc.assert(
    fc.property(journals, fc.boolean(), (entries, live) => {
      const folded = foldTimeline(entries, { now: START + 4_000_000, live, crashedAt: null });
      expect(problemsOf(folded)).toEqual([]);
      const crashes = entries.filter(({ kind, body }) => kind === "lease.taken" && body["from"] !== null);
      expect(folded.marks.filter(({ kind }) => kind === "crash")).toHaveLength(crashes.length);
    }),
    { numRuns: 500 },
  );
});

test("a journal read in parts gives the same timeline", () => {
  fc.assert(
    fc.property(journals, fc.nat(80), (entries, cut) => {
      const reader = new TimelineReader();
      for (const entry of entries.slice(0, cut)) reader.read(entry);
      reader.timeline(NOW);
      for (const entry of entries.slice(cut)) reader.read(entry);
      expect(reader.timeline(NOW)).toEqual(foldTimeline(entries, NOW));
    }),
  );
});

test("100,000 entries fold into an answer of bounded size", () => {
  const lines = Array.from(
    { length: 20_000 },
    (_one, round) =>
      [
        [round * 5, "stage.entered", { stage: "loop", iteration: round, stageAttempt: round }],
        [round * 5 + 1, "step.started", { ...CALL, stageAttempt: round }],
        [round * 5 + 3, "step.finished", { stageAttempt: round, step: "agent", result: null, spent: SPENT }],
        [round * 5 + 3, "checkpoint", { sequence: round + 1, trigger: "iteration", stage: "loop", iteration: round }],
        [round * 5 + 4, "stage.ended", { stage: "loop", event: "done", reason: "", score: round % 100, next: "loop" }],
      ] as const,
  ).flat();
  const folded = foldTimeline(journal(...lines), NOW);
  expect(folded.spans.length).toBeLessThanOrEqual(4000);
  expect(folded.spans.length + folded.omitted).toBe(40_000);
  expect(folded.marks.length).toBeLessThanOrEqual(2000);
  expect(problemsOf(folded)).toEqual([]);
  expect(JSON.stringify(folded).length).toBeLessThan(2_000_000);
});
