import { expect, test } from "vitest";
import type { Lease, OwnerLiveness } from "../../core/lease/lease.ts";
import type { RunState } from "../../core/run/run.ts";
import { NO_PICTURE, foldEntry } from "./journal-picture.ts";
import { conditionOf } from "./run-condition.ts";

const AT = "2026-11-15T12:00:00.000Z";
const lease: Lease = {
  run: "r",
  epoch: 3,
  owner: { token: "t", host: "laptop", pid: 7, started: "1", boot: "b", label: "holdfast r" },
  takenAt: AT,
  heartbeatAt: AT,
};
const states: Readonly<Record<RunState["kind"], RunState>> = {
  open: { kind: "open" },
  parked: { kind: "parked", on: "quota", reason: "rate limit", until: AT },
  done: { kind: "done", at: AT },
  fatal: { kind: "fatal", at: AT, reason: "stuck" },
};

test.each([
  ["open", undefined, "stopped"],
  ["open", "alive", "running"],
  ["open", "dead", "crashed"],
  ["open", "unknown", "held"],
  ["parked", undefined, "parked"],
  ["parked", "dead", "parked"],
  ["parked", "alive", "running"],
  ["done", "alive", "done"],
  ["fatal", "dead", "fatal"],
] as const)("%s, held by %s: %s", (state, alive: OwnerLiveness | undefined, kind) => {
  const holder = alive === undefined ? undefined : { lease, alive };
  expect(conditionOf({ run: { state: states[state] }, holder, question: null, worked: true }).kind).toBe(kind);
});

test("a run that no workflow carries is never called resumable", () => {
  const condition = conditionOf({ run: { state: states.open }, holder: undefined, question: null, worked: false });
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
      kind: "run.parked",
      body: {
        on: "person",
        reason: "asks",
        until: null,
        decision: { name: "merge", question: "Merge?", options: ["yes", "no"] },
      },
    },
  ] as const;
  const picture = entries.reduce((folded, entry) => foldEntry(folded, { ...entry, at: AT }), NO_PICTURE);
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
    "run.parked",
    "effect.settled",
    "note",
  ] as const)
    expect(() => foldEntry(NO_PICTURE, { kind, at: AT, body: {} })).not.toThrow();
});
