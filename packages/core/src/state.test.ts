import fc from "fast-check";
import { expect, test } from "vitest";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import { newBudget } from "./budget.ts";
import { parsePosition } from "./checkpoint.ts";
import { emptyPlanes } from "./checkpoint.ts";
import type { EntryKind } from "./journal.ts";
import type { Json, JsonObject } from "./json.ts";
import type { Position } from "./position.ts";
import { type RunState, loadState, planesOf, reduce, takeCheckpoint } from "./state.ts";

type Line = readonly [EntryKind, JsonObject];
const amounts = (tokens: number) => ({ tokens, microUsd: 0, milliseconds: 0 });
const started = (step: string, tokens: number | null = null, files = true): Line => [
  "step.started",
  { stageAttempt: 3, step, files, estimate: tokens === null ? null : amounts(tokens) },
];
const finished = (step: string, result = 1, tokens: number | null = null, stageAttempt = 3): Line => [
  "step.finished",
  { stageAttempt, step, result, spent: tokens === null ? null : amounts(tokens) },
];
const failed = (step: string, tokens: number | null = null): Line => [
  "step.failed",
  { stageAttempt: 3, step, reason: "no", spent: tokens === null ? null : amounts(tokens) },
];
const resumed = (counts = true): Line => ["run.resumed", { counts }];
const session = (step: string, id: string): Line => ["step.session", { stageAttempt: 3, step, session: id }];

const start = {
  ...emptyPlanes({ workflow: "w", stage: "work" }).position,
  budget: newBudget({ tokens: 100 }),
  stageAttempt: { number: 3, steps: { a: "kept" }, failures: {} },
};

function entries(lines: readonly Line[]) {
  return lines.map(([kind, body], index) => ({ run: "r", entry: index + 10, at: "2026-01-01T00:00:00Z", kind, body }));
}
const load = (
  position: Position,
  ...lines: readonly Line[]
): { position: Position; state: RunState; fellBack: boolean } => {
  const planes = { ...emptyPlanes({ workflow: "w" }), position };
  const checkpoint = { sequence: 5, planes };
  const loaded = loadState({ run: "r", checkpoint, entries: entries(lines), effects: [], apply: null });
  return { ...loaded, position: loaded.state.position };
};
const fold = (...lines: readonly Line[]) => load(start, ...lines);

test("steps that finished since the checkpoint answer beside those in it", () => {
  expect(fold(finished("b", 2)).position.stageAttempt).toMatchObject({ number: 3, steps: { a: "kept", b: 2 } });
});

test("a failed attempt is counted until the step is finished: a restart does not reset it", () => {
  expect(fold(failed("b"), failed("b")).position.stageAttempt.failures).toEqual({ b: 2 });
  expect(fold(failed("b"), failed("b"), finished("b")).position.stageAttempt.failures).toEqual({});
});

test("a started step without an end is running, and has the checkpoint of its files", () => {
  const { stageAttempt } = fold(started("b", 30), started("c")).position;
  expect(stageAttempt.running).toEqual({
    b: { files: true, estimate: amounts(30), base: 5 },
    c: { files: true, estimate: null, base: 5 },
  });
  expect(fold(started("b"), finished("b"), started("c"), failed("c")).position.stageAttempt.running).toBeUndefined();
});

test("reservations are settled by the usage of the call; an attempt that died counts as reserved", () => {
  expect(fold(started("b", 30), finished("b", 1, 12)).position.budget).toMatchObject({
    spent: amounts(12),
    reserved: amounts(0),
  });
  expect(fold(started("b", 30), failed("b", 7)).position.budget).toMatchObject({
    spent: amounts(7),
    reserved: amounts(0),
  });
  const twice = [started("b", 30), started("b", 30)];
  expect(fold(...twice).position.budget).toMatchObject({ spent: amounts(30), reserved: amounts(30) });
  expect(fold(...twice, resumed()).position.budget).toMatchObject({ spent: amounts(60), reserved: amounts(0) });
});

test("an agent's session is kept until its step is finished", () => {
  expect(fold(started("b", 0), session("b", "s1"), session("b", "s2")).position.stageAttempt.sessions).toEqual({
    b: "s2",
  });
  expect(fold(session("b", "s1"), failed("b")).position.stageAttempt.sessions).toEqual({ b: "s1" });
  expect(fold(session("b", "s1"), finished("b")).position.stageAttempt.sessions).toBeUndefined();
});

test("with newer unusable checkpoints, only spending is taken over, under an unused number", () => {
  const { position, fellBack } = fold(
    finished("b", 2, 12),
    ["stage.entered", { stageAttempt: 4, stage: "next", iteration: 1 }],
    ["checkpoint", { sequence: 6 }],
    finished("c", 3, 5, 4),
  );
  expect(fellBack).toBe(true);
  expect(position.stageAttempt).toEqual({ number: 5, steps: { a: "kept" }, failures: {} });
  expect(position.budget.spent).toEqual(amounts(17));
});

test("an unreadable body is corrupt, with entry and path", () => {
  expect(() => fold(["step.finished", { stageAttempt: 3, step: "b" }])).toThrow(/Journal entry 10 .*\/result/);
});

const names = ["a", "b", "__proto__"];
const anyLine = fc.constantFrom(...names).chain((name) =>
  fc.oneof(
    fc.option(fc.nat(9)).map((tokens) => started(name, tokens)),
    fc.tuple(fc.nat(9), fc.option(fc.nat(9))).map(([result, tokens]) => finished(name, result, tokens)),
    fc.option(fc.nat(9)).map((tokens) => failed(name, tokens)),
    fc.constant(session(name, "s")),
    fc.boolean().map((counts) => resumed(counts)),
    fc.nat(9).map((tokens): Line => ["step.lost", { stageAttempt: 3, step: name, spent: amounts(tokens) }]),
    fc.nat(9).map((tokens): Line => ["step.interrupted", { stageAttempt: 3, step: name, spent: amounts(tokens) }]),
    fc.constant<Line>(["note", { text: "x" }]),
  ),
);

test("a checkpoint in the middle changes nothing: folding in two parts is folding in one", () => {
  fc.assert(
    fc.property(fc.array(anyLine), fc.nat(), (lines, at) => {
      const cut = at % (lines.length + 1);
      const whole = load(start, ...lines);
      const first = load(start, ...lines.slice(0, cut));
      const stored = parsePosition(JSON.parse(JSON.stringify(first.position)));
      expect(load(stored, ...lines.slice(cut)).position).toEqual(whole.position);
    }),
  );
});

test("nothing reserved or spent is lost: paid and quarantined amounts never shrink", () => {
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
    { stageAttempt: 3, step, result: event, spent: null, recorded: true },
  ];
  const { stageAttempt } = fold(recorded("b", "one"), finished("c"), recorded("d", "two")).position;
  expect(stageAttempt).toMatchObject({ steps: { b: "one", d: "two" }, unreduced: ["one", "two"] });
  const carried = { ...start, stageAttempt: { ...start.stageAttempt, unreduced: ["zero"] } };
  const again = load(carried, recorded("b", "one"));
  expect(again.position.stageAttempt.unreduced).toEqual(["zero", "one"]);
  const fellBack = load(carried, recorded("b", "one"), ["checkpoint", {}]);
  expect(fellBack.position.stageAttempt.unreduced).toEqual(["zero"]);
});

test("a graph is its checkpoint's, moved by the entries after it; another stage attempt's and a damaged checkpoint's change nothing", () => {
  const at = "2026-01-01T00:00:00Z";
  const graph = sampleGraph([sampleNode("a"), sampleNode("b", ["a"])]);
  const set: Line = ["graph.set", { stageAttempt: 3, graph: JSON.parse(JSON.stringify(graph)) as JsonObject }];
  const moved = (stageAttempt: number, ...kinds: readonly string[]): Line => [
    "graph.moved",
    {
      stageAttempt,
      events: kinds.map((kind) => ({ kind, node: "a", at, ...(kind === "complete" ? { result: 1 } : {}) })),
    },
  ];
  const whole = fold(set, moved(3, "start"), moved(3, "complete")).position;
  expect(whole.stageAttempt.graph).toBe(true);
  expect(whole.graph?.states["a"]).toMatchObject({ status: "complete", result: 1 });
  const half = fold(set, moved(3, "start")).position;
  const rest = load(half, moved(3, "complete")).position;
  expect(rest.graph).toEqual(whole.graph);
  expect(fold(set, moved(2, "start")).position.graph?.states).toEqual({});
  expect(fold(set, moved(3, "start"), ["checkpoint", {}]).position.graph).toBeNull();
});

test("a lost call counts as reserved until its usage is known; one that had finished is running again", () => {
  const dead = [started("b", 30), resumed()];
  expect(fold(...dead).position.stageAttempt).toMatchObject({ lost: { b: { estimate: amounts(30), base: 5 } } });
  expect(fold(...dead).position.stageAttempt.running).toBeUndefined();
  const lost = fold(...dead, [
    "step.lost",
    { stageAttempt: 3, step: "b", spent: amounts(45), held: amounts(2) },
  ]).position;
  expect(lost.budget).toMatchObject({ spent: amounts(45), reserved: amounts(0), held: amounts(2) });
  expect(lost.stageAttempt.lost).toBeUndefined();
  const adopted = fold(...dead, ["step.adopted", { stageAttempt: 3, step: "b" }]).position;
  expect(adopted.budget).toMatchObject({ spent: amounts(0), reserved: amounts(30) });
  expect(adopted.stageAttempt).toMatchObject({ running: { b: { estimate: amounts(30) } } });
  expect(
    fold(...dead, ["step.adopted", { stageAttempt: 3, step: "b" }], finished("b", 1, 9)).position.budget.spent,
  ).toEqual(amounts(9));
  expect(fold(...dead, started("b", 7)).position.budget).toMatchObject({ spent: amounts(30), reserved: amounts(7) });
  expect(fold(started("b", 30), resumed(false)).position.stageAttempt.lost).toBeUndefined();
});

test("an interrupted call is paid by its reported usage, and stays running until the run is resumed", () => {
  const stopped = fold(started("b", 30), [
    "step.interrupted",
    { stageAttempt: 3, step: "b", spent: amounts(4) },
  ]).position;
  expect(stopped.budget).toMatchObject({ spent: amounts(4), reserved: amounts(0) });
  expect(stopped.stageAttempt.running).toEqual({ b: { files: true, estimate: amounts(0), base: 5, settled: true } });
});

test("the first session after a rewind completes it; one in a side worktree does not", () => {
  const planes = {
    ...emptyPlanes({ workflow: "w" }),
    position: start,
    conversation: { agent: "a", session: "s", transcript: null, lastMessage: null, rewound: "restore" as const },
  };
  const checkpoint = { sequence: 5, planes };
  const after = (...lines: readonly Line[]) =>
    loadState({ run: "r", checkpoint, entries: entries(lines), effects: [], apply: null }).state.conversation?.rewound;
  expect(after(session("b", "s1"))).toBeUndefined();
  const side: Line = [
    "step.started",
    { stageAttempt: 3, step: "b", files: false, estimate: amounts(0), sideWorktree: "x" },
  ];
  expect(after(side, session("b", "s1"))).toBe("restore");
});

test("with the workflow, recorded events change the values, also those that a checkpoint carried", () => {
  const planes = {
    ...emptyPlanes({ workflow: "w" }),
    position: { ...start, stageAttempt: { ...start.stageAttempt, unreduced: ["x"] } },
  };
  const apply = (values: JsonObject, event: Json): JsonObject => ({
    seen: `${String(values["seen"] ?? "")}${String(event)}`,
  });
  const recorded: Line = ["step.finished", { stageAttempt: 3, step: "b", result: "y", spent: null, recorded: true }];
  const { state } = loadState({
    run: "r",
    checkpoint: { sequence: 5, planes },
    entries: entries([recorded]),
    effects: [],
    apply,
  });
  expect(state.values).toEqual({ seen: "xy" });
  expect(state.position.stageAttempt.unreduced).toBeUndefined();
  expect(state.unsaved).toBe(true);
});

test("a checkpoint of a state loads as that state, with what was observed", () => {
  fc.assert(
    fc.property(fc.array(anyLine), (lines) => {
      const { state } = fold(...lines);
      const planes = planesOf(state, { definition: "d", files: null, conversation: null, milliseconds: 3, entry: 9 });
      const again = takeCheckpoint(state, { sequence: 6, planes });
      const { budget, stageAttempt, definition } = again.position;
      expect(definition).toBe("d");
      expect(budget.spent.milliseconds).toBe(3);
      expect(stageAttempt).toEqual(state.position.stageAttempt);
      expect(again.unsaved).toBe(false);
    }),
  );
});

test("an invalid entry leaves the state unchanged", () => {
  const { state } = fold(finished("b", 2));
  const before = JSON.stringify(state);
  const [entry] = entries([["effect.settled", { key: "k", outcome: "failed", reason: "no" }]]);
  if (entry === undefined) throw new Error("no entry");
  expect(() => reduce(state, entry, null)).toThrow(/never intended/);
  expect(JSON.stringify(state)).toBe(before);
});
