import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RERUN_OF, numberedId, planBegin } from "./plan-begin.ts";
import type { BeginRequest } from "./plan-begin.ts";
import { RUN_ID } from "./run.ts";
import type { RunState, RunSummary, Work } from "./run.ts";

const ISSUE: Work = { kind: "issue", number: 1 };
const TASK: Work = { kind: "task", text: "Fix it" };
const DONE: RunState = { kind: "done", at: "2026-01-01T00:00:00Z" };
const FAILED: RunState = { kind: "fatal", at: "2026-01-01T00:00:00Z", reason: "no" };
const OPEN: RunState = { kind: "open" };

function run(id: string, more: Partial<RunSummary> = {}): RunSummary {
  return {
    id,
    createdAt: "2026-01-01T00:00:00Z",
    workflow: "impl",
    work: ISSUE,
    forkedFrom: null,
    labels: {},
    state: OPEN,
    unfinishedRestore: null,
    checkpoints: 1,
    latest: null,
    entries: 1,
    ...more,
  };
}

function request(more: Partial<BeginRequest> = {}): BeginRequest {
  const work = more.work ?? ISSUE;
  const stem = work.kind === "issue" ? `issue-${work.number}` : "fix-it";
  return {
    workflow: "impl",
    work,
    id: null,
    again: false,
    nameOf: (count) => numberedId(more.id ?? stem, count),
    ...more,
  };
}

describe("the same work", () => {
  test("begins where there is no run of it", () => {
    expect(planBegin([], request())).toEqual({ kind: "begin", id: "issue-1" });
    expect(planBegin([run("issue-2", { work: { kind: "issue", number: 2 } })], request())).toMatchObject({
      kind: "begin",
    });
  });

  test.each([DONE, FAILED, { ...FAILED, cause: "aborted" } as const])(
    "returns the run that has ended (%j)",
    (state) => {
      const ended = run("issue-1", { state });
      expect(planBegin([ended], request())).toEqual({ kind: "ended", run: ended });
      expect(planBegin([ended], request({ again: true }))).toEqual({ kind: "begin", id: "issue-1-2" });
    },
  );

  test("continues the unfinished run, also with `again` and also beside one that has ended", () => {
    const runs = [run("issue-1-2"), run("issue-1", { state: DONE })];
    expect(planBegin(runs, request())).toEqual({ kind: "continue", id: "issue-1-2" });
    expect(planBegin(runs, request({ again: true }))).toEqual({ kind: "continue", id: "issue-1-2" });
  });

  test("of a task in words, `again` begins another run although one is unfinished", () => {
    const runs = [run("fix-it", { work: TASK })];
    expect(planBegin(runs, request({ work: TASK }))).toEqual({ kind: "continue", id: "fix-it" });
    expect(planBegin(runs, request({ work: TASK, again: true }))).toEqual({ kind: "begin", id: "fix-it-2" });
  });

  test("is found by the workflow and the issue or text, whatever the run is called", () => {
    const named = run("mine", { state: DONE });
    expect(planBegin([named], request())).toEqual({ kind: "ended", run: named });
    expect(planBegin([named], request({ workflow: "crunch" }))).toEqual({ kind: "begin", id: "issue-1" });
    expect(planBegin([named], request({ id: "other" }))).toEqual({ kind: "begin", id: "other" });
  });

  test("with an id of its own is found by that alone", () => {
    const mine = run("mine", { state: DONE });
    expect(planBegin([mine], request({ id: "mine" }))).toEqual({ kind: "ended", run: mine });
    expect(planBegin([mine], request({ id: "mine", again: true }))).toEqual({ kind: "begin", id: "mine-2" });
    // The store refuses an id that belongs to other work.
    expect(planBegin([run("mine", { workflow: "crunch", state: DONE })], request({ id: "mine" }))).toEqual({
      kind: "continue",
      id: "mine",
    });
  });

  test("is not a rerun of it, and an unfinished fork does not continue it", () => {
    const rerun = run("again", { state: DONE, labels: { [RERUN_OF]: "issue-1" } });
    expect(planBegin([rerun], request())).toEqual({ kind: "begin", id: "issue-1" });
    const fork = run("fork", { forkedFrom: { id: "issue-1@3", digest: "x" } });
    const done = run("issue-1", { state: DONE });
    expect(planBegin([fork, done], request())).toEqual({ kind: "ended", run: done });
  });
});

test("a supervisor that starts the same work for ever gets one run, whatever becomes of it", () => {
  const step = fc.constantFrom("start", "crash", "done", "fatal", "park");
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(ISSUE, TASK), (steps, work) => {
      let runs: readonly RunSummary[] = [];
      for (const what of steps) {
        if (what === "start") {
          const plan = planBegin(runs, request({ work }));
          if (plan.kind === "begin") runs = [run(plan.id, { work, checkpoints: 0 }), ...runs];
        } else {
          const state: RunState = what === "done" ? DONE : what === "fatal" ? FAILED : OPEN;
          runs = runs.map((one) => ({ ...one, state, checkpoints: one.checkpoints + 1 }));
        }
      }
      expect(runs.length).toBeLessThanOrEqual(1);
    }),
  );
});

test("numbered ids are run ids", () => {
  fc.assert(
    fc.property(
      fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/),
      fc.integer({ min: 1, max: 5000 }),
      (id, count) => {
        fc.pre(RUN_ID.test(id));
        expect(numberedId(id, count)).toMatch(RUN_ID);
      },
    ),
  );
  expect(numberedId("issue-1", 1)).toBe("issue-1");
  expect(numberedId("issue-1", 2)).toBe("issue-1-2");
});
