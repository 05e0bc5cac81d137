import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Graph, GraphEdge, NodeState } from "./graph.ts";
import { batchesOf } from "./graph-order.ts";
import { nodeName, someGraph } from "./graph-random.ts";
import { sampleGraph as graph, sampleNode as node } from "./graph-sample.ts";
import { GraphSchedule } from "./graph-schedule.ts";
import { progressOf, readyNodes, stateOf, stepGraph } from "./graph-state.ts";
import type { GraphEvent } from "./graph-state.ts";

const at = "2026-01-01T00:00:00Z";
const KINDS = [
  "start",
  "start",
  "start",
  "complete",
  "complete",
  "fail",
  "timeout",
  "skip",
  "retry",
  "recover",
  "approve",
  "replay",
  "add",
] as const;

/** Sensible as a rule, so that graphs get somewhere; nonsense now and then, so that refusals are compared too. */
function eventOf(current: Graph, kind: (typeof KINDS)[number], pick: number): GraphEvent {
  const choose = <T>(from: readonly T[]): T | undefined => from[pick % Math.max(1, from.length)];
  const having = (...statuses: readonly string[]): readonly string[] =>
    current.nodes.map((one) => one.id).filter((id) => statuses.includes(stateOf(current, id).status));
  const of = (ids: readonly string[]): string =>
    (pick % 7 === 0 ? undefined : choose(ids)) ?? choose(current.nodes.map((one) => one.id)) ?? "";
  switch (kind) {
    case "start":
      return { kind, node: of(readyNodes(current, { limit: 99 })), at };
    case "complete":
      return { kind, node: of(having("running", "unknown")), at, result: pick };
    case "fail":
      return { kind, node: of(having("running")), at, error: "broke", ...(pick % 3 === 0 ? { final: true } : {}) };
    case "timeout":
    case "recover":
      return { kind, node: of(having("running")), at };
    case "skip":
      return { kind, node: of(having("pending")), at, reason: "not wanted" };
    case "retry":
      return { kind, node: of(having("failed", "unknown")), at };
    case "approve": {
      const edge = choose(current.edges.filter((one) => one.type === "approval"));
      return { kind, from: edge?.from ?? "n0", to: edge?.to ?? "n0", at };
    }
    case "replay":
      return { kind, at };
    case "add": {
      const count = current.nodes.length;
      const id = nodeName(pick % 11 === 0 ? 0 : count);
      const from = nodeName(pick % (count + (pick % 13 === 0 ? 1 : 0)));
      const edges: readonly GraphEdge[] =
        pick % 2 === 0 ? [{ from, to: id, type: "approval", by: "qa", approvedAt: null }] : [];
      return { kind, definition: node(id, pick % 2 === 0 ? [] : [from]), edges, at };
    }
  }
}

function expectSame(schedule: GraphSchedule, model: Graph): void {
  const said = schedule.graph();
  const states = (of: Graph): readonly (readonly [string, NodeState])[] =>
    of.nodes.map(({ id }) => [id, stateOf(of, id)] as const);
  expect(states(said)).toEqual(states(model));
  expect(said.nodes).toEqual(model.nodes);
  expect(said.edges).toEqual(model.edges);
  for (const limit of [1, 3, 99]) expect(schedule.ready({ limit })).toEqual(readyNodes(model, { limit }));
  expect(schedule.progress()).toEqual(progressOf(model));
  const batches = batchesOf(model);
  expect(Array.from({ length: schedule.batches }, (_, batch) => schedule.batch(batch + 1))).toEqual(batches);
  const isOver = (id: string): boolean => ["complete", "failed", "skipped"].includes(stateOf(model, id).status);
  expect(batches.map((_, batch) => schedule.isOver(batch + 1))).toEqual(batches.map((ids) => ids.every(isOver)));
}

const someEvents = fc.array(
  fc.array(fc.record({ kind: fc.constantFrom(...KINDS), pick: fc.nat() }), { minLength: 1, maxLength: 4 }),
  { maxLength: 25 },
);

describe("laws", () => {
  /** Large ones keep their states from look to look. */
  test.each([
    ["small", 0, 600],
    ["large", 60, 60],
  ])(
    "whatever happens to a %s graph, it says and refuses what stepGraph, readyNodes and progressOf do",
    (_, more, numRuns) => {
      const others = Array.from({ length: more }, (_unused, index) => node(`other-${index}`));
      fc.assert(
        fc.property(someGraph({ maxNodes: 9 }), someEvents, (some, moves) => {
          const initial: Graph = { ...some, nodes: [...some.nodes, ...others] };
          const schedule = new GraphSchedule(initial);
          let model = initial;
          for (const acts of moves) {
            let next: Graph | undefined = model;
            const events: GraphEvent[] = [];
            for (const { kind, pick } of acts) {
              const event = eventOf(next, kind, pick);
              events.push(event);
              try {
                next = stepGraph(next, event);
              } catch (error) {
                expect(error).toMatchObject({ code: "USAGE" });
                next = undefined;
                break;
              }
            }
            const last = events.splice(-1);
            const apply = (): unknown => schedule.apply(events, (view) => (view.graph(), last));
            if (next === undefined) expect(apply).toThrow(expect.objectContaining({ code: "USAGE" }));
            else apply();
            model = next ?? model;
            expectSame(schedule, model);
            expect(Object.keys(schedule.graph().states).filter((id) => !schedule.has(id))).toEqual([]);
          }
        }),
        { numRuns },
      );
    },
  );

  test("taken up from any state, also one that nobody settled, it goes on the same", () => {
    const someStatus = fc.constantFrom("pending", "running", "complete", "failed", "skipped", "unknown", "queued");
    fc.assert(
      fc.property(
        someGraph({ maxNodes: 7 }),
        fc.array(fc.option(someStatus), { maxLength: 7 }),
        someEvents,
        (made, statuses, moves) => {
          const states = statuses.flatMap((status, index) => {
            const id = made.nodes[index]?.id;
            return status === null || id === undefined
              ? []
              : [[id, { status, attempt: 1, startedAt: at, endedAt: null, result: { cause: "n0" } }] as const];
          });
          let model: Graph = { ...made, states: Object.fromEntries(states) };
          const schedule = new GraphSchedule(model);
          expectSame(schedule, model);
          for (const { kind, pick } of moves.flat()) {
            const event = eventOf(model, kind, pick);
            try {
              model = stepGraph(model, event);
            } catch {
              expect(() => schedule.apply([event])).toThrow(expect.objectContaining({ code: "USAGE" }));
              continue;
            }
            schedule.apply([event]);
            expectSame(schedule, model);
          }
        },
      ),
      { numRuns: 400 },
    );
  });
});

describe("the gate", () => {
  const wide = graph([node("a"), node("b"), node("c", ["a"]), node("d", ["c"])]);
  const done = (id: string): readonly GraphEvent[] => [
    { kind: "start", node: id, at },
    { kind: "complete", node: id, at, result: null },
  ];

  test("nothing of a later batch is ready until it is set further, and what is held back is not forgotten", () => {
    const schedule = new GraphSchedule(wide);
    schedule.setGate(1);
    schedule.apply(done("a"));
    expect(schedule.ready({ limit: 9 })).toEqual(["b"]);
    schedule.apply(done("b"));
    expect(schedule.ready({ limit: 9 })).toEqual([]);
    expect(schedule.progress()).toEqual({ kind: "active" });
    expect([schedule.isOver(1), schedule.isOver(2)]).toEqual([true, false]);
    schedule.setGate(2);
    expect(schedule.ready({ limit: 9 })).toEqual(["c"]);
    schedule.setGate(1);
    expect(schedule.ready({ limit: 9 })).toEqual([]);
    schedule.setGate(Infinity);
    expect(schedule.ready({ limit: 9 })).toEqual(["c"]);
  });
});

test("a snapshot is the same object until something happens", () => {
  const schedule = new GraphSchedule(graph([node("a")]));
  const before = schedule.graph();
  expect(schedule.graph()).toBe(before);
  schedule.apply([{ kind: "start", node: "a", at }]);
  expect(schedule.graph()).not.toBe(before);
  expect(schedule.graph().nodes).toBe(before.nodes);
  expect(stateOf(before, "a").status).toBe("pending");
});
