import { describe, expect, test } from "vitest";
import type { Entry } from "@holdfast/core/dispatch";
import type { RunStatus } from "@holdfast/core/status";
import {
  type Correction,
  type FleetRun,
  type Submission,
  failuresOf,
  jobOf,
  keepsAttempt,
  parseAttempt,
  parseEntryKey,
  parseSubmission,
  planNext,
  planReconciliation,
  submissionText,
  whyWaiting,
} from "./plan-fleet.ts";
import type { Attempt } from "./plan-work.ts";

const NOW = Date.parse("2026-11-18T12:00:00.000Z");
const at = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();
const HOLDER = { label: "holdfast", pid: 7, host: "a", epoch: 1, takenAt: at(-900), heartbeatAt: at(-60) };
const QUEUED: RunStatus = { kind: "queued", holder: null, position: null };
const CRASHED: RunStatus = { kind: "crashed", certain: false, holder: HOLDER };
const RUNNING: RunStatus = {
  kind: "running",
  holder: HOLDER,
  starting: false,
  finishing: false,
  stopping: null,
  silentSince: null,
  suspended: false,
  hostKnown: false,
};
const QUESTION = { name: "go", question: "Continue?", options: ["yes"] };
const waiting = (more: Partial<Extract<RunStatus, { readonly kind: "waiting" }>>): RunStatus => ({
  kind: "waiting",
  for: "quota",
  reason: "limit",
  until: null,
  due: false,
  question: null,
  ...more,
});
const SUBMISSION: Submission = {
  queue: "claude",
  repository: "acme/shop",
  priority: 0,
  needs: ["agent:claude"],
  host: null,
  at: null,
};

const runOf = (more: Partial<FleetRun> = {}): FleetRun => ({
  run: "issue-1",
  status: QUEUED,
  entries: 10,
  submission: SUBMISSION,
  attempt: undefined,
  ...more,
});

test.each<readonly [string, Partial<FleetRun>, ReturnType<typeof planNext>]>([
  ["submitted", {}, { kind: "wake", at: 0 }],
  ["submitted for later", { submission: { ...SUBMISSION, at: at(60) } }, { kind: "wake", at: NOW + 60_000 }],
  ["submitted for a time that has come", { submission: { ...SUBMISSION, at: at(-1) } }, { kind: "wake", at: 0 }],
  ["crashed on a host that cannot be checked", { status: CRASHED }, { kind: "wake", at: 0 }],
  ["running", { status: RUNNING }, { kind: "signal" }],
  ["waiting for a slot", { status: { kind: "queued", holder: HOLDER, position: 1 } }, { kind: "signal" }],
  ["paused", { status: { kind: "paused", reason: "later", started: true } }, { kind: "signal" }],
  ["half created", { status: { kind: "paused", reason: null, started: false } }, { kind: "signal" }],
  ["waiting for you", { status: waiting({ for: "you", question: QUESTION }) }, { kind: "signal" }],
  ["waiting for a budget", { status: waiting({ for: "budget" }) }, { kind: "signal" }],
  ["waiting for quota", { status: waiting({ until: at(600) }) }, { kind: "wake", at: NOW + 600_000 }],
  // This machine's clock may say otherwise; that of the store counts.
  ["waiting for quota that is back", { status: waiting({ until: at(-1), due: false }) }, { kind: "wake", at: 0 }],
  ["saved by hand", { status: { kind: "saved", holder: null } }, { kind: "ended" }],
  ["done", { status: { kind: "done", at: at(-1) } }, { kind: "ended" }],
  ["aborted", { status: { kind: "aborted", at: null, reason: "no" } }, { kind: "ended" }],
])("a run that is %s", (_, more, next) => expect(planNext(runOf(more), NOW)).toEqual(next));

test("a run that was removed or taken out leaves the queue", () =>
  expect(planNext(null, NOW)).toEqual({ kind: "ended" }));

describe("an attempt", () => {
  const attempt = (more: Partial<Attempt>): Attempt => ({
    failures: 1,
    startedAt: at(-5),
    endedAt: at(-1),
    entries: 10,
    ...more,
  });
  const nextAfter = (one: Attempt, more: Partial<FleetRun> = {}) => planNext(runOf({ attempt: one, ...more }), NOW);

  test("that failed delays the next one, longer each time, and after six of them only the user continues the run", () => {
    expect(nextAfter(attempt({}))).toEqual({ kind: "wake", at: NOW + 29_000 });
    expect(nextAfter(attempt({ failures: 2 }))).toEqual({ kind: "wake", at: NOW + 59_000 });
    expect(nextAfter(attempt({ failures: 6 }))).toEqual({ kind: "signal" });
  });

  test("whose worker died delays nothing the first time", () => {
    expect(nextAfter(attempt({ endedAt: null, entries: null }))).toEqual({ kind: "wake", at: 0 });
    expect(nextAfter(attempt({ endedAt: null, entries: null, failures: 2 }))).toEqual({
      kind: "wake",
      at: NOW + 55_000,
    });
  });

  test("is kept if it failed, if another process had the run, or if the run waits without a known time", () => {
    expect(keepsAttempt(attempt({}), "failed", QUEUED)).toBe(true);
    expect(keepsAttempt(attempt({ failures: 0 }), "terminated", QUEUED)).toBe(false);
    expect(keepsAttempt(attempt({ failures: 0 }), "held", RUNNING)).toBe(true);
    expect(keepsAttempt(attempt({ failures: 0 }), "waiting", waiting({ for: "ci" }))).toBe(true);
    expect(keepsAttempt(attempt({ failures: 0 }), "waiting", waiting({ until: at(60) }))).toBe(false);
  });

  test("is read as it was written, and what is none is none", () => {
    expect(parseAttempt(JSON.stringify(attempt({ endedAt: null })))).toEqual(attempt({ endedAt: null }));
    const here = { ...attempt({}), host: "build-1" };
    expect(parseAttempt(JSON.stringify(here))).toEqual(here);
    for (const text of [undefined, "", "x", "{}", "[]", '{"failures":"1"}']) expect(parseAttempt(text)).toBeUndefined();
  });
});

test("a submission is read as it was written, and what is none is none", () => {
  expect(parseSubmission(submissionText(SUBMISSION))).toEqual(SUBMISSION);
  for (const text of [undefined, "", "x", "{}", '{"queue":1}']) expect(parseSubmission(text)).toBeNull();
  expect(parseEntryKey(jobOf("s-1", "issue-1", SUBMISSION).run)).toEqual({ store: "s-1", run: "issue-1" });
});

describe("the reconciliation", () => {
  const JOB = jobOf("s", "issue-1", SUBMISSION);
  const entryOf = (more: Partial<Entry> = {}): Entry => ({
    ...JOB,
    state: "waiting",
    wakeAt: 0,
    worker: null,
    ...more,
  });
  const plan = (runs: readonly FleetRun[], entries: readonly Entry[]): readonly Correction[] =>
    planReconciliation({ store: "s", runs, entries, now: NOW });
  const asks = waiting({ for: "you", question: QUESTION });

  test.each<readonly [string, Partial<FleetRun>, Partial<Entry> | null, readonly Correction[]]>([
    ["a missing entry is submitted", {}, null, [{ kind: "submit", job: JOB, at: null }]],
    [
      "a missing entry of a run that waits for a time is submitted for that time",
      { status: waiting({ until: at(60) }) },
      null,
      [{ kind: "submit", job: JOB, at: NOW + 60_000 }],
    ],
    ["a missing entry of a run that waits for its user is not", { status: asks }, null, []],
    ["an entry that is due stays", {}, {}, []],
    ["an entry that waits for the user stays", { status: asks }, { wakeAt: null }, []],
    ["an answered run is signalled", {}, { wakeAt: null }, [{ kind: "signal", run: JOB.run }]],
    ["so is one that its user let continue early", {}, { wakeAt: NOW + 60_000 }, [{ kind: "signal", run: JOB.run }]],
    ["a time passes by the clock of the queue", { status: waiting({ until: at(-1) }) }, { wakeAt: NOW + 1 }, []],
    [
      "an entry gets the time of its run",
      { status: waiting({ until: at(60) }) },
      { wakeAt: null },
      [{ kind: "wakeAt", run: JOB.run, at: NOW + 60_000 }],
    ],
    ["an earlier time stays", { status: waiting({ until: at(60) }) }, { wakeAt: NOW + 5 }, []],
    ["active work is left alone", { submission: { ...SUBMISSION, queue: "x" } }, { state: "active", worker: "w" }, []],
    [
      "an entry that was submitted differently is replaced",
      {},
      { priority: 10 },
      [
        { kind: "cancel", run: JOB.run },
        { kind: "submit", job: JOB, at: null },
      ],
    ],
    [
      "the entry of an aborted run is cancelled",
      { status: { kind: "aborted", at: null, reason: "" } },
      {},
      [{ kind: "cancel", run: JOB.run }],
    ],
  ])("%s", (_, run, entry, expected) => {
    expect(plan([runOf(run)], entry === null ? [] : [entryOf(entry)])).toEqual(expected);
  });

  test("entries without a run are cancelled unless a worker has them or they belong to another store", () => {
    const gone = entryOf({ run: "s/gone" });
    const entries = [gone, entryOf({ run: "s/held", state: "active", worker: "w" }), entryOf({ run: "other/gone" })];
    expect(plan([], entries)).toEqual([{ kind: "cancel", run: gone.run }]);
  });

  test("what it plans, once applied, leaves nothing to plan", () => {
    for (const status of [QUEUED, CRASHED, waiting({ until: at(60) })])
      for (const entry of [null, entryOf({ wakeAt: null }), entryOf({ queue: "x" })]) {
        const entries = plan([runOf({ status })], entry === null ? [] : [entry]).reduce(
          applied,
          entry === null ? [] : [entry],
        );
        expect(plan([runOf({ status })], entries)).toEqual([]);
      }
  });

  function applied(entries: readonly Entry[], correction: Correction): readonly Entry[] {
    switch (correction.kind) {
      case "submit":
        return [...entries, { ...correction.job, state: "waiting", wakeAt: correction.at ?? 0, worker: null }];
      case "signal":
        return entries.map((entry) => (entry.run === correction.run ? { ...entry, wakeAt: 0 } : entry));
      case "wakeAt":
        return entries.map((entry) => (entry.run === correction.run ? { ...entry, wakeAt: correction.at } : entry));
      case "cancel":
        return entries.filter(({ run }) => run !== correction.run);
    }
  }
});

describe("why an entry waits", () => {
  const JOB = jobOf("s", "issue-1", SUBMISSION);
  const entry: Entry = { ...JOB, state: "waiting", wakeAt: 0, worker: null };
  const worker = {
    id: "w",
    host: "a",
    labels: JOB.needs,
    slots: 1,
    busy: 0,
    version: "1",
    draining: false,
    heartbeatAgeMs: 0,
  };
  const why = (more: Partial<Parameters<typeof whyWaiting>[1]> = {}, of = entry) =>
    whyWaiting(of, { entries: [entry], workers: [worker], limits: {}, now: NOW, status: QUEUED, failures: 0, ...more });

  test("is what it lacks", () => {
    expect(why({ workers: [] })).toBe("no worker has joined");
    expect(why({ workers: [{ ...worker, draining: true }] })).toBe("no worker has joined");
    expect(why({ workers: [{ ...worker, labels: ["store:s"] }] })).toBe("no worker has agent:claude");
    expect(why({ workers: [{ ...worker, busy: 1 }] })).toBe("all slots are in use");
    expect(why({ limits: { queues: { claude: 0 } } })).toBe("the limit of queue claude is reached");
    expect(why({ limits: { perRepository: 0 } })).toBe("the limit of repository acme/shop is reached");
    expect(why({ limits: { labels: { "agent:claude": 0, "agent:codex": 0 } } })).toBe(
      "the limit of agent claude is reached",
    );
    expect(why()).toBe("a worker takes it soon");
    const signalled = { ...entry, wakeAt: null };
    expect(why({ status: waiting({ for: "you" }) }, signalled)).toBe("its run waits for you");
    const paused: RunStatus = { kind: "paused", reason: "lunch", started: true };
    expect(why({ status: paused }, signalled)).toBe("it is paused: holdfast submit issue-1");
    expect(why({ status: RUNNING }, signalled)).toBe("process 7 on a executes it");
    expect(why({ status: RUNNING })).toBe("process 7 on a executes it");
    expect(why({ status: null }, signalled)).toBe("its run waits for you, or another process executes it");
    expect(why({}, { ...entry, wakeAt: NOW + 1 })).toBeNull();
    expect(why({}, { ...entry, state: "active", worker: "w" })).toBeNull();
  });

  test("names the attempts that failed", () => {
    const later = { ...entry, wakeAt: NOW + 30_000 };
    const [active, signalled] = [{ ...entry, state: "active", worker: "w" } as const, { ...entry, wakeAt: null }];
    expect(why({ failures: 1 }, later)).toBe("1 attempt failed");
    expect(why({ failures: 3 }, later)).toBe("3 attempts failed");
    expect(why({ failures: 3, host: "build-1" }, later)).toBe("3 attempts failed, the last one on build-1");
    expect(why({ failures: 3, host: "build-1" }, active)).toBe("3 attempts failed");
    expect(why({ failures: 3 })).toBe("3 attempts failed; a worker takes it soon");
    expect(why({ failures: 3, workers: [] })).toBe("3 attempts failed; no worker has joined");
    expect(why({ failures: 3 }, active)).toBe("3 attempts failed");
    expect(why({ failures: 6 }, signalled)).toBe("it failed 6 times; to see why: holdfast resume issue-1");
    // The attempt of a worker that was killed counts as failed, but its process works on.
    expect(why({ failures: 1, status: RUNNING })).toBe("process 7 on a executes it");
    expect(why({ failures: null }, later)).toBeNull();
  });

  test("the attempt under way has not failed, and what continued the run since ends the count", () => {
    const closed: Attempt = { failures: 2, startedAt: at(-40), endedAt: at(-30), entries: 4 };
    const open: Attempt = { failures: 3, startedAt: at(-5), endedAt: null, entries: null };
    const count = (attempt: Attempt | undefined, state: Entry["state"], entries = 4): number =>
      failuresOf({ status: QUEUED, entries, attempt }, { state });
    expect(count(undefined, "waiting")).toBe(0);
    expect(count(closed, "waiting")).toBe(2);
    expect(count(closed, "active")).toBe(2);
    expect(count(open, "active")).toBe(2);
    expect(count(open, "waiting")).toBe(3);
    expect(count(closed, "waiting", 5)).toBe(0);
  });
});
