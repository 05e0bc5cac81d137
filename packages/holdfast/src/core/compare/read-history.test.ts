import { expect, test } from "vitest";
import type { EntryKind, JournalEntry } from "../journal/journal.ts";
import type { JsonObject } from "../json.ts";
import { pureSha256 } from "../sha256.ts";
import { HistoryReader } from "./read-history.ts";

function historyOf(...lines: readonly (readonly [EntryKind, JsonObject])[]) {
  const reader = new HistoryReader(pureSha256);
  for (const [at, [kind, body]] of lines.entries()) {
    const entry: JournalEntry = {
      run: "a",
      entry: at + 1,
      kind,
      at: new Date(at * 1000).toISOString(),
      epoch: 1,
      body,
      digest: "",
      hash: "",
    };
    reader.read(entry);
  }
  return reader.history();
}

const key = "a/pr";

test("steps are known by name and result, whatever they cost and however their keys are ordered", () => {
  const one = historyOf(["step.finished", { visit: 1, step: "edit", result: { a: 1, b: 2 }, spent: null }]);
  const other = historyOf(["step.finished", { visit: 4, step: "edit", result: { b: 2, a: 1 }, spent: { tokens: 5 } }]);
  expect(one.steps[0]?.digest).toBe(other.steps[0]?.digest);
  const failed = historyOf(["step.failed", { visit: 1, step: "edit", reason: "no", spent: null }]);
  expect(failed).toMatchObject({ failures: 1, steps: [{ name: "edit" }] });
  expect(failed.steps[0]?.digest).not.toBe(one.steps[0]?.digest);
});

test("what differs in any two runs is no difference; what was done is", () => {
  const made = (result: JsonObject) =>
    historyOf(["step.finished", { visit: 1, step: "work", result, spent: null }]).steps[0]?.digest;
  const one = {
    at: "2026-11-15T11:40:00.000Z",
    head: "a".repeat(40),
    milliseconds: 5,
    tree: "c".repeat(40),
    say: ["hi"],
  };
  const later = { ...one, at: "2026-11-16T01:02:03.456Z", head: "b".repeat(40), milliseconds: 9 };
  expect(made(later)).toBe(made(one));
  expect(made({ ...one, tree: "d".repeat(40) })).not.toBe(made(one));
  expect(made({ ...one, say: ["ho"] })).not.toBe(made(one));
  expect(made({ ...one, at: "later" })).not.toBe(made(one));
});

test("an effect is what it came to, with the number that the other side gave it", () => {
  const intended = ["effect.intended", { key, kind: "pull_request", target: "shop", payload: "", detail: {} }] as const;
  const settled = ["effect.settled", { key, outcome: "done", adopted: false, receipt: { number: 7 } }] as const;
  expect(historyOf(intended).effects).toMatchObject([{ state: "intended", number: null }]);
  expect(historyOf(intended, ["effect.unknown", { key, reason: "?" }]).effects).toMatchObject([{ state: "unknown" }]);
  expect(historyOf(intended, settled, intended).effects).toEqual([
    { kind: "pull_request", target: "shop", state: "done", adopted: false, number: 7 },
  ]);
});

test("time and calls", () => {
  const estimate = { tokens: 1, microUsd: 0, milliseconds: 0 };
  const history = historyOf(
    ["step.started", { visit: 1, step: "ask", files: true, estimate }],
    ["step.started", { visit: 1, step: "write", files: true, estimate: null }],
    [
      "step.finished",
      { visit: 1, step: "ask", result: null, spent: { tokens: 5, microUsd: 0, milliseconds: 1, unpriced: 1 } },
    ],
    ["step.lost", { visit: 1, step: "ask", spent: { tokens: 2, microUsd: 3, milliseconds: 0 } }],
    ["step.interrupted", { visit: 1, step: "ask", spent: { tokens: 1, microUsd: 0, milliseconds: 0 } }],
  );
  expect(history).toMatchObject({ calls: 1 });
  expect(history.wall).toBe(history.work);
  expect(history.spent).toEqual({ tokens: 8, microUsd: 3, milliseconds: 1, unpriced: 1 });
});
