import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RunStatus } from "@holdfast/core/status";
import {
  type Attempt,
  MAX_FAILURES,
  type WorkFacts,
  type WorkRun,
  closeAttempt,
  openAttempt,
  planWork,
  workKey,
} from "./plan-work.ts";

const NOW = Date.parse("2026-11-18T12:00:00.000Z");
const at = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();
const HOLDER = { label: "holdfast", pid: 7, host: "laptop", epoch: 1, takenAt: at(-900), heartbeatAt: at(-60) };
const CRASHED: RunStatus = { kind: "crashed", certain: true, holder: HOLDER };
const STOPPED: RunStatus = { kind: "paused", reason: null, started: true };
type Waiting = Extract<RunStatus, { readonly kind: "waiting" }>;
const waiting = (more: Partial<Waiting>): RunStatus => ({
  kind: "waiting",
  for: "quota",
  reason: "usage limit reached",
  until: null,
  due: false,
  question: null,
  ...more,
});
const RUNNING: RunStatus = {
  kind: "running",
  holder: HOLDER,
  starting: false,
  finishing: false,
  stopping: null,
  silentSince: null,
  suspended: false,
  hostKnown: true,
};

const runOf = (more: Partial<WorkRun> = {}): WorkRun => ({
  repository: "/shop",
  run: "issue-1",
  status: CRASHED,
  priority: 0,
  createdAt: at(-3600),
  entries: 10,
  terminated: false,
  stopped: false,
  submitted: false,
  ...more,
});
const plan = (runs: readonly WorkRun[], more: Partial<WorkFacts> = {}) =>
  planWork({ runs, now: NOW, history: new Map(), active: new Set(), limits: new Map([["/shop", 4]]), ...more });
const kindOf = (run: WorkRun, attempt?: Attempt): string | undefined =>
  plan([run], attempt === undefined ? {} : { history: new Map([[workKey(run), attempt]]) })[0]?.kind;

const QUESTION = { name: "go", question: "Continue?", options: ["yes", "no"] };

test.each<readonly [string, "start" | "wait" | "skip", Partial<WorkRun>]>([
  ["a run whose process died", "start", { status: CRASHED }],
  ["a submitted run whose process died", "skip", { submitted: true }],
  [
    "a submitted run that no process has executed",
    "skip",
    { status: { kind: "queued", holder: null, position: null } },
  ],
  ["a run whose process is on another host", "skip", { status: { ...CRASHED, certain: false } }],
  ["a run that a process executes", "skip", { status: RUNNING }],
  ["a queued run", "skip", { status: { kind: "queued", holder: HOLDER, position: 1 } }],
  ["a run that SIGTERM ended", "start", { status: STOPPED, terminated: true }],
  ["a run that the user stopped", "skip", { status: STOPPED }],
  ["a run that the user stopped with a second Ctrl+C", "skip", { status: CRASHED, stopped: true }],
  ["a run that the user paused after SIGTERM", "skip", { status: { ...STOPPED, reason: "later" }, terminated: true }],
  ["a run that never started", "skip", { status: { ...STOPPED, started: false }, terminated: true }],
  ["a rate limit that is over", "start", { status: waiting({ until: at(-1), due: true }) }],
  ["a rate limit that is not over", "wait", { status: waiting({ until: at(600) }) }],
  ["CI without a known time", "start", { status: waiting({ for: "ci" }) }],
  ["disk space", "start", { status: waiting({ for: "disk" }) }],
  ["a question", "skip", { status: waiting({ for: "you", question: QUESTION }) }],
  [
    "a question with a time that has come",
    "skip",
    { status: waiting({ until: at(-1), due: true, question: QUESTION }) },
  ],
  ["a login", "skip", { status: waiting({ for: "you" }) }],
  ["a budget", "skip", { status: waiting({ for: "budget" }) }],
  ["the end of a session", "skip", { status: waiting({ for: "session" }) }],
  ["saved checkpoints", "skip", { status: { kind: "saved", holder: null } }],
  ["a done run", "skip", { status: { kind: "done", at: at(-5) } }],
  ["a failed run", "skip", { status: { kind: "failed", at: at(-5), reason: "no", limit: false } }],
  ["an aborted run", "skip", { status: { kind: "aborted", at: null, reason: "no" } }],
])("%s: %s", (_, kind, more) => expect(kindOf(runOf(more))).toBe(kind));

test("a wait names its end, and a question names the command that answers it", () => {
  expect(plan([runOf({ status: waiting({ until: at(600) }) })])).toEqual([
    { kind: "wait", repository: "/shop", run: "issue-1", until: at(600), why: "it waits for quota" },
  ]);
  expect(plan([runOf({ status: waiting({ question: QUESTION }) })])).toMatchObject([
    { why: "it waits for your answer: holdfast approve issue-1" },
  ]);
});

describe("the limit", () => {
  const runs = [
    runOf({ run: "old" }),
    runOf({ run: "new", createdAt: at(-60) }),
    runOf({ run: "urgent", createdAt: at(-5), priority: 10 }),
    runOf({ run: "busy", status: RUNNING }),
    runOf({ run: "there", repository: "/other" }),
  ];

  test("counts the runs of other processes, and goes by priority and age in each repository", () => {
    const limits = new Map([
      ["/shop", 3],
      ["/other", 1],
    ]);
    const decided = Object.fromEntries(plan(runs, { limits }).map(({ run, kind }) => [run, kind]));
    expect(decided).toEqual({ urgent: "start", old: "start", new: "wait", busy: "skip", there: "start" });
    expect(plan(runs, { limits: new Map() }).filter(({ kind }) => kind === "start")).toHaveLength(4);
  });

  test("counts a run that the worker started and that holds no lease yet, once", () => {
    const active = new Set([workKey({ repository: "/shop", run: "old" })]);
    const decided = plan(runs, { limits: new Map([["/shop", 3]]), active });
    expect(decided.find(({ run }) => run === "old")).toMatchObject({ kind: "skip" });
    expect(decided.filter(({ kind, repository }) => kind === "start" && repository === "/shop")).toHaveLength(1);
  });
});

describe("after a failure", () => {
  const closed = (failures: number, endedAt: string): Attempt => ({
    failures,
    startedAt: at(-4000),
    endedAt,
    entries: 10,
  });

  test.each([
    [1, 30],
    [2, 60],
    [3, 120],
    [5, 480],
  ])("number %i the run waits for %i seconds", (failures, seconds) => {
    expect(kindOf(runOf(), closed(failures, at(1 - seconds)))).toBe("wait");
    expect(kindOf(runOf(), closed(failures, at(-seconds)))).toBe("start");
  });

  test("and too many of them, only the user continues it", () => {
    const [decision] = plan([runOf()], { history: new Map([[workKey(runOf()), closed(MAX_FAILURES, at(-9e4))]]) });
    expect(decision).toMatchObject({ kind: "skip", why: "it failed 6 times; to see why: holdfast resume issue-1" });
  });

  test("another process that continued the run makes them void", () => {
    expect(kindOf(runOf({ entries: 11 }), closed(MAX_FAILURES, at(-31)))).toBe("start");
  });

  test("a run that worked for ten minutes before its worker was killed starts again", () => {
    const open: Attempt = { failures: MAX_FAILURES, startedAt: at(-700), endedAt: null, entries: null };
    expect(kindOf(runOf(), open)).toBe("start");
    expect(kindOf(runOf(), { ...open, startedAt: at(-600) })).toBe("skip");
  });

  test("a time from the future, after the clock was set back, delays nothing", () => {
    expect(kindOf(runOf(), closed(1, at(86_400)))).toBe("start");
  });

  test("a wait without a known time is tried every five minutes", () => {
    const run = runOf({ status: waiting({ for: "ci" }) });
    expect(kindOf(run, closed(0, at(-299)))).toBe("wait");
    expect(kindOf(run, closed(0, at(-300)))).toBe("start");
  });
});

describe("attempts", () => {
  const opened = openAttempt(runOf(), { failures: 2, startedAt: at(-500), endedAt: at(-400), entries: 10 }, NOW);

  test("are counted before the process starts", () => {
    expect(opened).toEqual({ failures: 3, startedAt: at(0), endedAt: null, entries: null });
    expect(openAttempt(runOf(), undefined, NOW)).toMatchObject({ failures: 1 });
  });

  test.each([
    ["done", 0],
    ["waiting", 0],
    ["held", 2],
    ["terminated", 2],
    ["failed", 3],
    ["needs_you", 3],
    [null, 3],
  ] as const)("that end with %s leave %i failures", (exit, failures) => {
    expect(closeAttempt(opened, { exit, entries: 12, now: NOW + 5000 })).toEqual({
      failures,
      startedAt: at(0),
      endedAt: at(5),
      entries: 12,
    });
  });

  test("that worked for long begin a new count", () => {
    expect(closeAttempt(opened, { exit: null, entries: 12, now: NOW + 601_000 })).toMatchObject({ failures: 1 });
  });
});

test("whatever the history is, only runs that may continue start, and never more than the limit", () => {
  const status = fc.constantFrom<RunStatus>(
    CRASHED,
    STOPPED,
    RUNNING,
    waiting({ for: "you" }),
    waiting({ for: "ci" }),
    waiting({ until: at(60) }),
    { kind: "done", at: at(-5) },
  );
  const attempt = fc.record({
    failures: fc.nat(9),
    startedAt: fc.integer({ min: -9e4, max: 9e4 }).map(at),
    endedAt: fc.option(fc.integer({ min: -9e4, max: 9e4 }).map(at)),
    entries: fc.option(fc.constantFrom(9, 10)),
  });
  const cases = fc.array(fc.record({ status, terminated: fc.boolean(), attempt: fc.option(attempt) }), {
    maxLength: 8,
  });
  fc.assert(
    fc.property(cases, fc.integer({ min: 1, max: 4 }), (given, limit) => {
      const runs = given.map(({ status, terminated }, index) => runOf({ run: `r-${index}`, status, terminated }));
      const history = new Map(
        given.flatMap(({ attempt }, index) =>
          attempt === null ? [] : [[workKey({ repository: "/shop", run: `r-${index}` }), attempt] as const],
        ),
      );
      const started = plan(runs, { history, limits: new Map([["/shop", limit]]) }).filter(
        ({ kind }) => kind === "start",
      );
      const working = runs.filter((one) => one.status.kind === "running").length;
      expect(started.length).toBeLessThanOrEqual(Math.max(0, limit - working));
      for (const { run } of started) {
        const one = runs.find((known) => known.run === run);
        const may =
          one?.status.kind === "crashed" ||
          (one?.status.kind === "paused" && one.terminated) ||
          (one?.status.kind === "waiting" && one.status.for === "ci");
        expect(may).toBe(true);
      }
    }),
  );
});
