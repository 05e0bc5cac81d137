// The contract of dispatches: cases that every one must pass, on node:assert alone. Cases with killed processes are in packages/dispatch/test.

import assert from "node:assert/strict";
import type { Dispatch, DispatchLimits, Entry, Job, Next, Work } from "@holdfast/core/dispatch";
import { rejectsWith } from "./refuses.ts";

/** One dispatch under test, fresh for each case. */
export interface DispatchHarness {
  /** Another handle on the same dispatch. Workers join through one handle of a process. */
  open(params?: { readonly limits?: DispatchLimits; readonly onProblem?: (error: unknown) => void }): Promise<Dispatch>;
  /** Removes all that the dispatch has stored, while no handle is open. */
  lose(): Promise<void>;
}

export interface DispatchCase {
  readonly name: string;
  run(harness: DispatchHarness): Promise<void>;
}

function job(run: string, more: Partial<Job> = {}): Job {
  return { run, queue: "q", repository: "r", priority: 0, needs: [], ...more };
}

const ENDED: Next = { kind: "ended" };
const FAR = Date.UTC(2100, 0, 1);

/** Without a limit of its own: the test runner has one. */
async function until<T>(check: () => Promise<T | false | undefined> | T | false | undefined): Promise<T> {
  for (;;) {
    const found = await check();
    if (found !== false && found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function entryOf(dispatch: Dispatch, run: string): Promise<Entry | undefined> {
  return (await dispatch.list()).find((entry) => entry.run === run);
}

const stateOf = async (dispatch: Dispatch, run: string): Promise<string | undefined> =>
  (await entryOf(dispatch, run))?.state;

/** The active runs once `last` is: an entry that is due before it and still waits was passed over. */
async function activeWith(dispatch: Dispatch, last: string): Promise<readonly string[]> {
  return until(async () => {
    const active = (await dispatch.list()).filter(({ state }) => state === "active").map(({ run }) => run);
    return active.includes(last) && active.toSorted();
  });
}

async function emptied(dispatch: Dispatch): Promise<void> {
  await until(async () => (await dispatch.list()).length === 0);
}

/** Work that waits until the case lets it return. */
function createHeldWork(next: Next = ENDED): {
  readonly work: Work;
  readonly started: string[];
  readonly signals: Map<string, AbortSignal>;
  release(): void;
  waitFor(run: string): Promise<unknown>;
} {
  const started: string[] = [];
  const signals = new Map<string, AbortSignal>();
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return {
    started,
    signals,
    release: () => open(),
    waitFor: (run) => until(() => started.includes(run)),
    async work({ run }, signal) {
      started.push(run);
      signals.set(run, signal);
      const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      await Promise.race([opened, aborted]);
      return next;
    },
  };
}

const WORKER = { labels: [], slots: 4, version: "1" };

const entryCases: readonly DispatchCase[] = [
  {
    name: "a run has one entry however often and from wherever it is submitted",
    async run({ open }) {
      const handles = await Promise.all([open(), open(), open()]);
      const answers = await Promise.all(
        handles.flatMap((handle) => Array.from({ length: 5 }, () => handle.submit(job("a")))),
      );
      assert.equal(answers.filter((answer) => answer === "submitted").length, 1);
      assert.equal(answers.filter((answer) => answer === "known").length, 14);
      const [first] = handles;
      assert.deepEqual(await first?.list(), [{ ...job("a"), state: "waiting", wakeAt: 0, worker: null }]);
      const other = job("a", { queue: "other", priority: 9, needs: ["x"] });
      assert.equal(await first?.submit(other), "known");
      assert.equal((await first?.list())?.[0]?.queue, "q");
    },
  },
  {
    name: "an invalid job is refused, and nothing is stored",
    async run({ open }) {
      const dispatch = await open();
      const invalid = [
        { run: "" },
        { queue: "a\0b" },
        { repository: "x".repeat(2000) },
        { priority: 0.5 },
        { needs: ["a\nb"] },
      ];
      for (const more of invalid) await rejectsWith("USAGE", () => dispatch.submit(job("a", more)));
      await rejectsWith("USAGE", () => dispatch.submit(job("a"), Number.NaN));
      await rejectsWith("USAGE", () => dispatch.wakeAt("a", -1));
      await rejectsWith("USAGE", () => dispatch.join({ ...WORKER, slots: -1 }, async () => ENDED));
      assert.deepEqual([await dispatch.list(), await dispatch.workers()], [[], []]);
    },
  },
  {
    name: "what is asked of a run without an entry is false",
    async run({ open }) {
      const dispatch = await open();
      assert.deepEqual(
        [await dispatch.cancel("a"), await dispatch.signal("a"), await dispatch.wakeAt("a", 1)],
        [false, false, false],
      );
    },
  },
  {
    name: "any text can be a name",
    async run({ open }) {
      const dispatch = await open();
      const odd = "'; DROP TABLE entries; -- ? $1 \u2028 ü \u{1f600} %";
      const given = job(odd, { queue: odd, repository: odd, needs: [odd], priority: -5 });
      await dispatch.submit(given);
      assert.deepEqual(await dispatch.list(), [{ ...given, state: "waiting", wakeAt: 0, worker: null }]);
      const seen: Job[] = [];
      await dispatch.join({ ...WORKER, labels: [odd] }, async (found) => {
        seen.push(found);
        return ENDED;
      });
      await emptied(dispatch);
      assert.deepEqual(seen, [given]);
    },
  },
  {
    name: "after a loss of all that was stored, submitting the runs again restores the queue",
    async run({ open, lose }) {
      const first = await open();
      for (const run of ["a", "b"]) await first.submit(job(run));
      await first.close();
      await lose();
      const dispatch = await open();
      assert.deepEqual(await dispatch.list(), []);
      const seen: string[] = [];
      await dispatch.join(WORKER, async ({ run }) => {
        seen.push(run);
        return ENDED;
      });
      for (const run of ["a", "b"]) assert.equal(await dispatch.submit(job(run)), "submitted");
      await emptied(dispatch);
      assert.deepEqual(seen.toSorted(), ["a", "b"]);
    },
  },
];

const orderCases: readonly DispatchCase[] = [
  {
    name: "the highest priority is first, of equal ones the oldest, in all queues and repositories",
    async run({ open }) {
      const dispatch = await open();
      const jobs = [job("a"), job("b", { priority: 5, queue: "p" }), job("c", { repository: "s" })];
      for (const one of [...jobs, job("d", { priority: 5 }), job("e", { priority: -1 })]) await dispatch.submit(one);
      assert.deepEqual(
        (await dispatch.list()).map(({ run }) => run),
        ["b", "d", "a", "c", "e"],
      );
      const seen: string[] = [];
      await dispatch.join({ ...WORKER, slots: 1 }, async ({ run }) => {
        seen.push(run);
        return ENDED;
      });
      await emptied(dispatch);
      assert.deepEqual(seen, ["b", "d", "a", "c", "e"]);
    },
  },
  {
    name: "a queue has a limit, and one of its own",
    async run({ open }) {
      const dispatch = await open({ limits: { perQueue: 2, queues: { paused: 0, small: 1 } } });
      const held = createHeldWork();
      for (const run of ["a", "b", "c"]) await dispatch.submit(job(run, { priority: 1 }));
      for (const run of ["p", "q"]) await dispatch.submit(job(run, { queue: "paused", priority: 1 }));
      for (const run of ["s", "t"]) await dispatch.submit(job(run, { queue: "small", priority: 1 }));
      await dispatch.submit(job("last", { queue: "z" }));
      await dispatch.join({ ...WORKER, slots: 20 }, held.work);
      assert.deepEqual(await activeWith(dispatch, "last"), ["a", "b", "last", "s"]);
      await until(() => held.started.length === 4);
      held.release();
      await until(async () => (await dispatch.list()).length === 2);
      assert.deepEqual(held.started.slice(4).toSorted(), ["c", "t"]);
    },
  },
  {
    name: "a repository has a limit over all queues",
    async run({ open }) {
      const dispatch = await open({ limits: { perRepository: 2, repositories: { one: 1 } } });
      const held = createHeldWork();
      for (const run of ["a", "b", "c"]) await dispatch.submit(job(run, { queue: `queue-${run}`, priority: 1 }));
      for (const run of ["d", "e"]) await dispatch.submit(job(run, { repository: "one", priority: 1 }));
      await dispatch.submit(job("last", { repository: "s" }));
      await dispatch.join({ ...WORKER, slots: 20 }, held.work);
      assert.deepEqual(await activeWith(dispatch, "last"), ["a", "b", "d", "last"]);
      await until(() => held.started.length === 4);
      held.release();
      await emptied(dispatch);
      assert.deepEqual(held.started.slice(4).toSorted(), ["c", "e"]);
    },
  },
  {
    name: "a label has a limit over all entries that need it, whatever else they need",
    async run({ open }) {
      const dispatch = await open({ limits: { labels: { x: 2, paused: 0 } } });
      const held = createHeldWork();
      for (const run of ["a", "b", "c"])
        await dispatch.submit(
          job(run, { queue: `queue-${run}`, priority: 1, needs: run === "b" ? ["x", "y"] : ["x"] }),
        );
      await dispatch.submit(job("p", { needs: ["y", "paused"], priority: 1 }));
      await dispatch.submit(job("last", { needs: ["y"] }));
      await dispatch.join({ ...WORKER, labels: ["x", "y", "paused"], slots: 20 }, held.work);
      assert.deepEqual(await activeWith(dispatch, "last"), ["a", "b", "last"]);
      await until(() => held.started.length === 3);
      held.release();
      await until(async () => (await dispatch.list()).length === 1);
      assert.deepEqual(held.started.slice(3), ["c"]);
    },
  },
  {
    name: "a worker executes as many entries as it has slots, of all queues together",
    async run({ open }) {
      const dispatch = await open();
      const [held, other] = [createHeldWork(), createHeldWork()];
      for (const run of ["a", "b", "c"])
        await dispatch.submit(job(run, { queue: `queue-${run}`, priority: 1, needs: ["x"] }));
      await dispatch.submit(job("last", { needs: ["y"] }));
      await dispatch.join({ ...WORKER, labels: ["x"], slots: 2 }, held.work);
      await dispatch.join({ ...WORKER, labels: ["y"], slots: 5 }, other.work);
      assert.deepEqual(await activeWith(dispatch, "last"), ["a", "b", "last"]);
      const workers = await dispatch.workers();
      assert.deepEqual(
        workers
          .map(({ labels, slots, busy, version, draining }) => ({ labels, slots, busy, version, draining }))
          .toSorted((a, b) => a.slots - b.slots),
        [
          { labels: ["x"], slots: 2, busy: 2, version: "1", draining: false },
          { labels: ["y"], slots: 5, busy: 1, version: "1", draining: false },
        ],
      );
      assert.ok(workers.every(({ heartbeatAgeMs }) => heartbeatAgeMs >= 0));
      held.release();
      other.release();
      await emptied(dispatch);
    },
  },
  {
    name: "an entry goes to a worker with all the labels that it needs",
    async run({ open }) {
      const dispatch = await open();
      const seen: string[] = [];
      const record =
        (name: string): Work =>
        async ({ run }) => {
          seen.push(`${run} on ${name}`);
          return ENDED;
        };
      await dispatch.submit(job("a", { needs: ["x", "y"], priority: 9 }));
      await dispatch.submit(job("b", { needs: ["x"] }));
      await dispatch.join({ ...WORKER, labels: ["x", "z"] }, record("first"));
      await until(() => seen.length === 1);
      assert.equal(await stateOf(dispatch, "a"), "waiting");
      await dispatch.join({ ...WORKER, labels: ["y", "x"] }, record("second"));
      await emptied(dispatch);
      assert.deepEqual(seen, ["b on first", "a on second"]);
    },
  },
  {
    name: "a worker of an older version hands an entry on to one that knows it",
    async run({ open }) {
      const dispatch = await open();
      const seen: string[] = [];
      await dispatch.submit(job("a"));
      await dispatch.join({ ...WORKER, labels: ["flow-1"] }, async () => {
        seen.push("old");
        return { kind: "needs", labels: ["flow-2"] };
      });
      await until(async () => (await entryOf(dispatch, "a"))?.needs[0] === "flow-2");
      await dispatch.join({ ...WORKER, labels: ["flow-1", "flow-2"], version: "2" }, async () => {
        seen.push("new");
        return ENDED;
      });
      await emptied(dispatch);
      assert.deepEqual(seen, ["old", "new"]);
    },
  },
  {
    name: "many runs on several workers are each executed once",
    async run({ open }) {
      const dispatch = await open();
      const seen: string[] = [];
      for (let n = 0; n < 3; n++)
        await dispatch.join({ ...WORKER, slots: 3 }, async ({ run }) => {
          seen.push(run);
          return ENDED;
        });
      const runs = Array.from({ length: 40 }, (_, n) => `run-${n}`);
      const others = await Promise.all([open(), open()]);
      await Promise.all(runs.map((run, n) => others[n % 2]?.submit(job(run))));
      await emptied(dispatch);
      assert.deepEqual(seen.toSorted(), runs.toSorted());
    },
  },
];

const timeCases: readonly DispatchCase[] = [
  {
    name: "an entry is executed at its time and not before, also after a restart of everything",
    async run({ open }) {
      const first = await open();
      const at = Date.now() + 1500;
      await first.join(WORKER, async () => ENDED);
      // Only the second worker can execute it, however long the restart takes.
      await first.submit(job("a", { needs: ["x"] }), at);
      await first.submit(job("never"), FAR);
      assert.equal((await entryOf(first, "a"))?.wakeAt, at);
      await first.close();
      const dispatch = await open();
      let startedAt = 0;
      await dispatch.join({ ...WORKER, labels: ["x"] }, async () => {
        startedAt = Date.now();
        return ENDED;
      });
      await until(async () => (await dispatch.list()).length === 1);
      assert.ok(startedAt >= at);
      assert.equal((await entryOf(dispatch, "never"))?.wakeAt, FAR);
    },
  },
  {
    name: "an entry waits without a slot until its time, a signal, or another time",
    async run({ open }) {
      const dispatch = await open();
      let turns = 0;
      await dispatch.join({ ...WORKER, slots: 1 }, async ({ run }) => {
        if (run === "other") return ENDED;
        turns += 1;
        return turns === 1 ? { kind: "wake", at: FAR } : turns === 2 ? { kind: "signal" } : ENDED;
      });
      await dispatch.submit(job("a"));
      await until(async () => (await entryOf(dispatch, "a"))?.wakeAt === FAR);
      await dispatch.submit(job("other"));
      await until(async () => (await dispatch.list()).length === 1);
      assert.equal(await dispatch.wakeAt("a", FAR + 1), true);
      assert.equal((await entryOf(dispatch, "a"))?.wakeAt, FAR + 1);
      assert.equal(await dispatch.wakeAt("a", 5), true);
      await until(async () => (await entryOf(dispatch, "a"))?.wakeAt === null && turns === 2);
      await until(async () => (await stateOf(dispatch, "a")) === "waiting");
      assert.equal(await dispatch.signal("a"), true);
      await emptied(dispatch);
      assert.equal(turns, 3);
    },
  },
  {
    name: "after signals during its work an entry is executed once more",
    async run({ open }) {
      const dispatch = await open();
      const held = createHeldWork({ kind: "signal" });
      await dispatch.join(WORKER, held.work);
      await dispatch.submit(job("a"));
      await held.waitFor("a");
      for (let n = 0; n < 3; n++) assert.equal(await dispatch.signal("a"), true);
      assert.equal(await dispatch.wakeAt("a", 5), false);
      held.release();
      await until(async () => held.started.length === 2 && (await stateOf(dispatch, "a")) === "waiting");
      await dispatch.submit(job("b"));
      await held.waitFor("b");
      assert.deepEqual(held.started, ["a", "a", "b"]);
      assert.equal((await entryOf(dispatch, "a"))?.wakeAt, null);
    },
  },
  {
    name: "a signal during the last work of a run is not lost",
    async run({ open }) {
      const dispatch = await open();
      const held = createHeldWork();
      await dispatch.join(WORKER, held.work);
      await dispatch.submit(job("a"));
      await held.waitFor("a");
      await dispatch.signal("a");
      held.release();
      await emptied(dispatch);
      assert.deepEqual(held.started, ["a", "a"]);
    },
  },
  {
    name: "work that throws is reported and tried again later",
    async run({ open }) {
      const problems: unknown[] = [];
      const dispatch = await open({ onProblem: (error) => problems.push(error) });
      let turns = 0;
      await dispatch.join(WORKER, async () => {
        turns += 1;
        if (turns === 1) throw new Error("no");
        return ENDED;
      });
      await dispatch.submit(job("a"));
      await until(async () => problems.length > 0 && (await stateOf(dispatch, "a")) !== "active");
      assert.match(String(problems[0]), /no/);
      assert.notEqual((await entryOf(dispatch, "a"))?.wakeAt, 0);
      await dispatch.signal("a");
      await emptied(dispatch);
    },
  },
  {
    name: "work with a result that is none is reported and tried again later",
    async run({ open }) {
      const problems: unknown[] = [];
      const dispatch = await open({ onProblem: (error) => problems.push(error) });
      let turns = 0;
      await dispatch.join(WORKER, async () => {
        turns += 1;
        return turns === 1 ? { kind: "wake", at: Number.NaN } : ENDED;
      });
      await dispatch.submit(job("a"));
      await until(async () => problems.length > 0 && (await stateOf(dispatch, "a")) !== "active");
      await dispatch.signal("a");
      await emptied(dispatch);
    },
  },
];

const endCases: readonly DispatchCase[] = [
  {
    name: "a cancelled entry is gone; its active work is aborted and its result ignored",
    async run({ open }) {
      const dispatch = await open();
      const held = createHeldWork({ kind: "wake", at: FAR });
      await dispatch.submit(job("waits"), FAR);
      assert.equal(await dispatch.cancel("waits"), true);
      assert.deepEqual(await dispatch.list(), []);
      await dispatch.join({ ...WORKER, slots: 1 }, held.work);
      await dispatch.submit(job("a"));
      await held.waitFor("a");
      assert.equal(await (await open()).cancel("a"), true);
      await until(() => held.signals.get("a")?.aborted);
      assert.deepEqual(await dispatch.list(), []);
      // The slot is free, and the same run can be submitted again.
      assert.equal(await dispatch.submit(job("a")), "submitted");
      held.release();
      await until(async () => (await entryOf(dispatch, "a"))?.wakeAt === FAR);
      assert.deepEqual(held.started, ["a", "a"]);
    },
  },
  {
    name: "a run that has ended can be submitted again",
    async run({ open }) {
      const dispatch = await open();
      let turns = 0;
      await dispatch.join(WORKER, async () => {
        turns += 1;
        return ENDED;
      });
      for (const expected of [1, 2, 3]) {
        assert.equal(await dispatch.submit(job("a")), "submitted");
        await emptied(dispatch);
        assert.equal(turns, expected);
      }
    },
  },
  {
    name: "a worker that drains completes its work, takes nothing new, and leaves",
    async run({ open }) {
      const dispatch = await open();
      const [held, other] = [createHeldWork(), createHeldWork()];
      const membership = await dispatch.join({ ...WORKER, labels: ["x"] }, held.work);
      await dispatch.submit(job("a", { needs: ["x"] }));
      await held.waitFor("a");
      const drained = membership.drain();
      await until(async () => (await dispatch.workers())[0]?.draining);
      await dispatch.submit(job("b", { needs: ["x"], priority: 1 }));
      await dispatch.submit(job("last"));
      await dispatch.join(WORKER, other.work);
      await other.waitFor("last");
      assert.deepEqual([held.started, await stateOf(dispatch, "b")], [["a"], "waiting"]);
      assert.equal(held.signals.get("a")?.aborted, false);
      held.release();
      await drained;
      await membership.drain();
      assert.equal(await stateOf(dispatch, "a"), undefined);
      assert.deepEqual(
        (await dispatch.workers()).map(({ id }) => id === membership.id),
        [false],
      );
      other.release();
    },
  },
  {
    name: "workers that join and leave again and again leave nothing behind",
    async run({ open }) {
      const dispatch = await open();
      const { id } = await dispatch.join(WORKER, async () => ENDED);
      for (let n = 0; n < 20; n++) {
        const other = await dispatch.join(WORKER, async () => ENDED);
        await dispatch.submit(job(`run-${n}`));
        await other.drain();
        assert.deepEqual(
          (await dispatch.workers()).map((worker) => worker.id),
          [id],
        );
      }
      await emptied(dispatch);
    },
  },
  {
    name: "close aborts active work, records its result, and leaves",
    async run({ open }) {
      const first = await open();
      const held = createHeldWork({ kind: "wake", at: FAR });
      await first.join(WORKER, held.work);
      await first.submit(job("a"));
      await held.waitFor("a");
      await first.close();
      assert.equal(held.signals.get("a")?.aborted, true);
      const dispatch = await open();
      assert.deepEqual(await dispatch.workers(), []);
      assert.deepEqual([await stateOf(dispatch, "a"), (await entryOf(dispatch, "a"))?.wakeAt], ["waiting", FAR]);
    },
  },
];

export const dispatchContract: readonly DispatchCase[] = [...entryCases, ...orderCases, ...timeCases, ...endCases];
