import fc from "fast-check";
import { expect, test } from "vitest";
import { newBudget, settleLost } from "../position/budget.ts";
import { emptyPlanes } from "../checkpoint/checkpoint.ts";
import type { EntryKind } from "./journal.ts";
import type { JsonObject } from "../json.ts";
import { parsePosition } from "../checkpoint/checkpoint-parse.ts";
import { sampleGraph, sampleNode } from "../graph/graph-sample.ts";
import { foldProgress } from "./progress-fold.ts";

type Line = readonly [EntryKind, JsonObject];
const amounts = (tokens: number) => ({ tokens, microUsd: 0, milliseconds: 0 });
const started = (step: string, tokens: number | null = null, files = true): Line => [
  "step.started",
  { visit: 3, step, files, estimate: tokens === null ? null : amounts(tokens) },
];
const finished = (step: string, result = 1, tokens: number | null = null, visit = 3): Line => [
  "step.finished",
  { visit, step, result, spent: tokens === null ? null : amounts(tokens) },
];
const failed = (step: string, tokens: number | null = null): Line => [
  "step.failed",
  { visit: 3, step, reason: "no", spent: tokens === null ? null : amounts(tokens) },
];
const session = (step: string, id: string): Line => ["step.session", { visit: 3, step, session: id }];

const start = {
  ...emptyPlanes({ workflow: "w", stage: "work" }).position,
  budget: newBudget({ tokens: 100 }),
  visit: { number: 3, steps: { a: "kept" }, failures: {} },
};

function entries(lines: readonly Line[]) {
  return lines.map(([kind, body], index) => ({ run: "r", entry: index + 10, kind, body }));
}
const fold = (...lines: readonly Line[]) => foldProgress({ position: start, sequence: 5, entries: entries(lines) });

test("steps that finished since the checkpoint answer beside those in it", () => {
  expect(fold(finished("b", 2)).position.visit).toMatchObject({ number: 3, steps: { a: "kept", b: 2 } });
});

test("a failed try is counted until the step is finished: a restart does not refill it", () => {
  expect(fold(failed("b"), failed("b")).position.visit.failures).toEqual({ b: 2 });
  expect(fold(failed("b"), failed("b"), finished("b")).position.visit.failures).toEqual({});
});

test("a step begun and not ended is running, and knows where its files go back to", () => {
  const { visit } = fold(started("b", 30), started("c")).position;
  expect(visit.running).toEqual({
    b: { files: true, estimate: amounts(30), base: 5 },
    c: { files: true, estimate: null, base: 5 },
  });
  expect(fold(started("b"), finished("b"), started("c"), failed("c")).position.visit.running).toBeUndefined();
});

test("reservations are settled by what the call took; a try that died counts as it was reserved", () => {
  expect(fold(started("b", 30), finished("b", 1, 12)).position.budget).toMatchObject({
    spent: amounts(12),
    reserved: amounts(0),
  });
  expect(fold(started("b", 30), failed("b", 7)).position.budget).toMatchObject({
    spent: amounts(7),
    reserved: amounts(0),
  });
  const twice = fold(started("b", 30), started("b", 30)).position.budget;
  expect(twice).toMatchObject({ spent: amounts(30), reserved: amounts(30) });
  expect(settleLost(twice).spent).toEqual(amounts(60));
});

test("an agent's session is kept until its step is finished", () => {
  expect(fold(started("b", 0), session("b", "s1"), session("b", "s2")).position.visit.sessions).toEqual({ b: "s2" });
  expect(fold(session("b", "s1"), failed("b")).position.visit.sessions).toEqual({ b: "s1" });
  expect(fold(session("b", "s1"), finished("b")).position.visit.sessions).toBeUndefined();
});

test("with newer checkpoints that cannot be used, only spending is taken over, under a number never given", () => {
  const { position, fellBack } = fold(
    finished("b", 2, 12),
    ["stage.entered", { visit: 4, stage: "next", iteration: 1 }],
    ["checkpoint", { sequence: 6 }],
    finished("c", 3, 5, 4),
  );
  expect(fellBack).toBe(true);
  expect(position.visit).toEqual({ number: 5, steps: { a: "kept" }, failures: {} });
  expect(position.budget.spent).toEqual(amounts(17));
});

test("a body that cannot be read is corrupt, with entry and path", () => {
  expect(() => fold(["step.finished", { visit: 3, step: "b" }])).toThrow(/Journal entry 10 .*\/result/);
});

const names = ["a", "b", "__proto__"];
const anyLine = fc.constantFrom(...names).chain((name) =>
  fc.oneof(
    fc.option(fc.nat(9)).map((tokens) => started(name, tokens)),
    fc.tuple(fc.nat(9), fc.option(fc.nat(9))).map(([result, tokens]) => finished(name, result, tokens)),
    fc.option(fc.nat(9)).map((tokens) => failed(name, tokens)),
    fc.constant(session(name, "s")),
    fc.constant<Line>(["note", { text: "x" }]),
  ),
);

test("a checkpoint in the middle changes nothing: folding in two parts is folding in one", () => {
  fc.assert(
    fc.property(fc.array(anyLine), fc.nat(), (lines, at) => {
      const all = entries(lines);
      const cut = at % (all.length + 1);
      const whole = foldProgress({ position: start, sequence: 5, entries: all });
      const first = foldProgress({ position: start, sequence: 5, entries: all.slice(0, cut) });
      const stored = parsePosition(JSON.parse(JSON.stringify(first.position)));
      const second = foldProgress({ position: stored, sequence: 5, entries: all.slice(cut) });
      expect(second.position).toEqual(whole.position);
    }),
  );
});

test("nothing reserved or spent gets lost: what was paid and what is set aside never shrinks", () => {
  fc.assert(
    fc.property(fc.array(anyLine), (lines) => {
      let before = 0;
      for (let count = 0; count <= lines.length; count += 1) {
        const { budget } = fold(...lines.slice(0, count)).position;
        expect(budget.spent.tokens).toBeGreaterThanOrEqual(before);
        expect(budget.reserved.tokens).toBeGreaterThanOrEqual(0);
        before = budget.spent.tokens;
      }
    }),
  );
});

test("recorded events wait for the workflow's reducer, in order, with those that a checkpoint carried", () => {
  const recorded = (step: string, event: string): Line => [
    "step.finished",
    { visit: 3, step, result: event, spent: null, recorded: true },
  ];
  const { visit } = fold(recorded("b", "one"), finished("c"), recorded("d", "two")).position;
  expect(visit).toMatchObject({ steps: { b: "one", d: "two" }, unreduced: ["one", "two"] });
  const carried = { ...start, visit: { ...start.visit, unreduced: ["zero"] } };
  const again = foldProgress({ position: carried, sequence: 5, entries: entries([recorded("b", "one")]) });
  expect(again.position.visit.unreduced).toEqual(["zero", "one"]);
  const fellBack = foldProgress({
    position: carried,
    sequence: 5,
    entries: entries([recorded("b", "one"), ["checkpoint", {}]]),
  });
  expect(fellBack.position.visit.unreduced).toEqual(["zero"]);
});

test("a graph is its checkpoint's, moved by the entries after it; another visit's and a damaged checkpoint's change nothing", () => {
  const at = "2026-01-01T00:00:00Z";
  const graph = sampleGraph([sampleNode("a"), sampleNode("b", ["a"])]);
  const set: Line = ["graph.set", { visit: 3, graph: JSON.parse(JSON.stringify(graph)) as JsonObject }];
  const moved = (visit: number, ...kinds: readonly string[]): Line => [
    "graph.moved",
    { visit, events: kinds.map((kind) => ({ kind, node: "a", at, ...(kind === "complete" ? { result: 1 } : {}) })) },
  ];
  const whole = fold(set, moved(3, "start"), moved(3, "complete")).position;
  expect(whole.visit.graph).toBe(true);
  expect(whole.graph?.states["a"]).toMatchObject({ status: "complete", result: 1 });
  const half = fold(set, moved(3, "start")).position;
  const rest = foldProgress({ position: half, sequence: 6, entries: entries([moved(3, "complete")]) }).position;
  expect(rest.graph).toEqual(whole.graph);
  expect(fold(set, moved(2, "start")).position.graph?.states).toEqual({});
  expect(fold(set, moved(3, "start"), ["checkpoint", {}]).position.graph).toBeNull();
});
