import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { EntryKind, JournalEntry } from "../journal/journal.ts";
import type { JsonObject } from "../json.ts";
import { callKey, readRecording } from "./recording.ts";

const journal = (entries: readonly (readonly [EntryKind, JsonObject])[]): readonly JournalEntry[] =>
  entries.map(([kind, body], index) => ({
    run: "r",
    entry: index + 1,
    kind,
    at: new Date(index * 1000).toISOString(),
    epoch: 1,
    body,
    digest: "",
    hash: "",
  }));

const amounts = { tokens: 1, microUsd: 2, milliseconds: 0 };
const started = (step: string, agent: boolean) =>
  ["step.started", { visit: 1, step, files: true, estimate: agent ? amounts : null }] as const;
const finished = (step: string, result: string) =>
  ["step.finished", { visit: 1, step, result, spent: amounts }] as const;
const failed = (step: string) =>
  ["step.failed", { visit: 1, step, reason: "no", spent: amounts, code: "IO_FAILED" }] as const;
const triedAgain = (step: string) =>
  [
    "step.failed",
    { visit: 1, step, reason: "no", spent: amounts, verdict: { rule: "r", action: "retry", why: "" } },
  ] as const;
const saved = (sequence: number, trigger: string, name: string | null) =>
  ["checkpoint", { sequence, trigger, name, stage: "work", iteration: 1 }] as const;

describe("a record", () => {
  test("has every step that ended, in order, with what its tries took", () => {
    const step = fc.record({ name: fc.constantFrom("a", "b", "c"), agent: fc.boolean(), tries: fc.nat(2) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 10 }), (steps) => {
        const entries = steps.flatMap(({ name, agent, tries }, nth) => [
          started(`${name}${nth}`, agent),
          ...Array.from({ length: agent ? tries : 0 }, () => triedAgain(`${name}${nth}`)),
          finished(`${name}${nth}`, "r"),
          saved(nth + 1, "automatic", `${name}${nth}`),
        ]);
        const read = readRecording("r", journal(entries));
        expect(read.steps.map(({ step: name, checkpoint, spent }) => [name, checkpoint, spent.length])).toEqual(
          steps.map(({ name, agent, tries }, nth) => [`${name}${nth}`, nth + 1, agent ? tries + 1 : 1]),
        );
        expect(read.checkpoints.every(({ isOwn }) => isOwn)).toBe(true);
      }),
    );
  });

  test("tells a checkpoint of a step from one that somebody took right behind it", () => {
    const read = readRecording(
      "r",
      journal([
        ["step.finished", { visit: 1, step: "plain", result: 1, spent: null }],
        saved(1, "manual", "plain"),
        started("write", false),
        finished("write", "done"),
        saved(2, "automatic", "write"),
        ["stage.ended", { visit: 1, stage: "work", event: "x" }],
        ["stage.entered", { visit: 2, stage: "check", iteration: 1 }],
        saved(3, "stage", null),
        saved(4, "manual", null),
      ]),
    );
    expect(read.checkpoints.map(({ sequence, isOwn }) => [sequence, isOwn])).toEqual([
      [1, false],
      [2, true],
      [3, true],
      [4, false],
    ]);
    expect(read.steps.map(({ checkpoint }) => checkpoint)).toEqual([null, 2]);
    expect(read.ended).toEqual(new Map([[1, 6]]));
  });

  test("a plain step that failed is an end of its own, as is a call that threw or ended the run; one that was tried again is not", () => {
    const over = { visit: 1, step: "last", reason: "no", spent: amounts, errors: { abort: "over" }, verdict: {} };
    const read = readRecording(
      "r",
      journal([
        failed("plain"),
        started("agent", true),
        triedAgain("agent"),
        finished("agent", "x"),
        started("thrown", true),
        failed("thrown"),
        started("last", true),
        ["step.failed", over],
      ]),
    );
    expect(read.steps.map(({ step, came }) => [step, came.kind])).toEqual([
      ["plain", "failed"],
      ["agent", "finished"],
      ["thrown", "failed"],
      ["last", "aborted"],
    ]);
    expect(read.steps[0]?.came).toMatchObject({ reason: "no", code: "IO_FAILED" });
    expect(callKey(1, "agent")).toBe("1/agent");
  });
});
