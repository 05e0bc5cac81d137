import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleGraph, sampleNode as node, someGraph } from "@holdfast/test-support/core/graph-sample";
import { emptyPlanes } from "./checkpoint.ts";
import { type GraphEvent, addNode, progressOf, readyNodes, stateOf, stepGraph } from "./graph-state.ts";
import type { Graph, NodeStatus } from "./graph.ts";
import type { JournalEntry } from "./journal.ts";
import {
  type Counters,
  NO_ERRORS,
  type StageAttempt,
  betterOf,
  bump,
  counterOf,
  forgetAborts,
  recoveryEvents,
  reset,
  resumePoint,
} from "./position.ts";
import { type StateEntry, loadState } from "./state.ts";

describe("forget aborts", () => {
  const failed = (entry: number, body: JournalEntry["body"]) => ({
    run: "r",
    entry,
    at: "2026-01-01T00:00:00Z",
    kind: "step.failed" as const,
    body: { stageAttempt: 0, step: "edit", reason: "no", spent: null, ...body },
  });
  const ended = {
    run: "r",
    entry: 9,
    at: "2026-01-01T00:00:00Z",
    kind: "step.finished" as const,
    body: { stageAttempt: 0, step: "edit", result: 1, spent: null },
  };

  test("the count of failed attempts is folded from the journal; the end of the call resets it", () => {
    const checkpoint = { sequence: 1, planes: emptyPlanes({ workflow: "toy" }) };
    const errors = { ...NO_ERRORS, counts: { mine: 2 }, agents: ["b"] };
    const entries = [failed(1, {}), failed(2, { errors, verdict: { rule: "mine", action: "fallback", why: "so" } })];
    const body = { stageAttempt: 0, step: "edit", session: "s" };
    const session = { run: "r", entry: 1, at: "2026-01-01T00:00:00Z", kind: "step.session" as const, body };
    const fold = (...given: readonly StateEntry[]) =>
      loadState({ run: "r", checkpoint, entries: given, effects: [], apply: null }).state.position.stageAttempt;
    expect(fold(session, ...entries)).toMatchObject({ failures: { edit: 2 }, errors: { edit: errors } });
    // A session belongs to the agent that failed.
    expect(fold(session, ...entries).sessions).toBeUndefined();
    expect(fold(...entries, ended).errors).toBeUndefined();
  });

  test("a restore after an abort keeps the count", () => {
    const errors = { edit: { ...NO_ERRORS, counts: { mine: 3 }, abort: "Rule mine ends the run" }, look: NO_ERRORS };
    const stageAttempt = { number: 4, steps: {}, failures: { edit: 3 } };
    expect(forgetAborts({ ...stageAttempt, errors })).toEqual({
      ...stageAttempt,
      errors: { edit: { ...NO_ERRORS, counts: { mine: 3 } }, look: NO_ERRORS },
    });
    expect(forgetAborts(stageAttempt)).toBe(stageAttempt);
  });
});

describe("graph recovery", () => {
  const at = "2026-01-01T00:00:00Z";
  const start = (id: string): GraphEvent => ({ kind: "start", node: id, at });
  const complete = (id: string): GraphEvent => ({ kind: "complete", node: id, at, result: null });
  const fail = (id: string): GraphEvent => ({ kind: "fail", node: id, at, error: "broke" });
  const after = (from: Graph, ...events: readonly GraphEvent[]): Graph => events.reduce(stepGraph, from);

  describe("a node that was running when the process died", () => {
    const once = after(sampleGraph([node("once", [], { idempotent: false, retries: 1 })]), start("once"));
    const statusWith = (stageAttempt: Partial<StageAttempt>, graph = once): NodeStatus => {
      const position = { graph, stageAttempt: { number: 1, steps: {}, failures: {}, graph: true, ...stageAttempt } };
      return stateOf(after(graph, ...recoveryEvents(position, at)), "once").status;
    };
    const agent = { files: true, estimate: null, base: 1 };

    test.each<[string, Partial<StageAttempt>, NodeStatus]>([
      ["left no trace", {}, "unknown"],
      ["completed its effect", { steps: { "node:once#1": "done" } }, "pending"],
      [
        "completed its effect, and more was running",
        { steps: { "node:once#1": 1 }, running: { "node:once#1/x": agent } },
        "pending",
      ],
      ["finished a step, and nothing was running", { steps: { "node:once#1/prepare": null } }, "pending"],
      [
        "finished a step, and an agent was running",
        { steps: { "node:once#1/prepare": null }, running: { "node:once#1/agent": agent } },
        "unknown",
      ],
      ["had a call that failed, and nothing running", { failures: { "node:once#1/agent": 1 } }, "pending"],
      ["shares the beginning of its name with another", { steps: { "node:once#11": 1, "node:once2#1": 1 } }, "unknown"],
      ["belongs to an earlier stage attempt's graph", { graph: false }, "running"],
    ])("%s", (_what, stageAttempt, expected) => {
      expect(statusWith(stageAttempt)).toBe(expected);
    });

    test("is the same attempt after it, and keeps its retries", () => {
      const position = {
        graph: once,
        stageAttempt: { number: 1, steps: { "node:once#1": 1 }, failures: {}, graph: true },
      };
      const again = after(once, ...recoveryEvents(position, at), start("once"));
      expect(stateOf(again, "once")).toMatchObject({ status: "running", attempt: 1 });
      expect(stateOf(after(again, fail("once")), "once")).toMatchObject({ status: "pending", tries: 1 });
    });

    test("steps of a failed attempt say nothing about the next one", () => {
      const second = after(once, fail("once"), start("once"));
      expect(statusWith({ steps: { "node:once#1": 1 } }, second)).toBe("unknown");
      expect(statusWith({ steps: { "node:once#2": 1 } }, second)).toBe("pending");
    });

    test("is never lost, for any graph", () => {
      const { position } = emptyPlanes();
      fc.assert(
        fc.property(someGraph({ maxNodes: 6 }), (graph) => {
          const running = graph.nodes.filter(
            (one) => one.dependencies.length === 0 && !graph.edges.some((edge) => edge.to === one.id),
          );
          const died = after(graph, ...running.map((one) => start(one.id)));
          const events = recoveryEvents(
            { ...position, graph: died, stageAttempt: { ...position.stageAttempt, graph: true } },
            at,
          );
          expect(events.map((event) => ("node" in event ? event.node : null))).toEqual(running.map((one) => one.id));
          const taken = after(died, ...events);
          for (const one of running) expect(stateOf(taken, one.id).status).toBe(one.idempotent ? "pending" : "unknown");
        }),
      );
    });
  });

  describe("the next node is identified by id, not by a number (crunch: batch_3_task_1)", () => {
    const graph = sampleGraph([node("a"), node("b", ["a"]), node("c", ["b"], { priority: "high" })]);

    test.each<[string, Graph, string | null]>([
      ["nothing has started", graph, "a"],
      ["one is running", after(graph, start("a")), "a"],
      ["one is next", after(graph, start("a"), complete("a")), "b"],
      ["all has ended", after(graph, start("a"), fail("a")), null],
    ])("%s", (_what, current, expected) => {
      expect(resumePoint(current)).toBe(expected);
    });

    test("it stays the same after nodes were added before it", () => {
      const half = after(graph, start("a"), complete("a"), start("b"));
      expect(resumePoint(addNode(half, { node: node("new", []), at }))).toBe("b");
    });

    test("it is what a resumed run executes or asks first, for any graph", () => {
      const statuses = fc.constantFrom<NodeStatus>("pending", "queued", "running", "complete", "unknown");
      fc.assert(
        fc.property(someGraph({ maxNodes: 8 }), fc.array(statuses, { minLength: 8, maxLength: 8 }), (plain, drawn) => {
          const states = Object.fromEntries(
            plain.nodes.map(({ id }, index) => [id, { ...stateOf(plain, id), status: drawn[index] ?? "pending" }]),
          );
          const died: Graph = { ...plain, states };
          const resumed = recoverAll(died);
          const first = [
            ...readyNodes(resumed, { limit: Number.POSITIVE_INFINITY }),
            ...resumed.nodes.map(({ id }) => id).filter((id) => stateOf(resumed, id).status === "unknown"),
          ];
          const point = resumePoint(resumed);
          if (first.length > 0) expect(first).toContain(point);
          else expect(point === null).toBe(progressOf(resumed).kind !== "waiting");
        }),
      );
    });

    test("a node that waits for an approval is next when no other can run", () => {
      const edge = { from: "a", to: "b", type: "approval", by: "qa", approvedAt: null } as const;
      const held = after(sampleGraph([node("a"), node("b")], [edge]), start("a"), complete("a"));
      expect(resumePoint(held)).toBe("b");
    });
  });

  function recoverAll(graph: Graph): Graph {
    const died = graph.nodes.filter(({ id }) => ["running", "queued"].includes(stateOf(graph, id).status));
    return after(graph, ...died.map(({ id }): GraphEvent => ({ kind: "recover", node: id, at })));
  }
});

describe("counters", () => {
  const name = fc.oneof(fc.constantFrom("review", "parse", "__proto__", "constructor", "toString"), fc.string());
  const act = fc.record({ kind: fc.constantFrom("bump", "bump", "reset"), name });

  test("each counter is the number of increments since its own last reset, whatever the others do", () => {
    fc.assert(
      fc.property(fc.array(act), (acts) => {
        let counters: Counters = {};
        const model = new Map<string, number>();
        for (const one of acts) {
          counters = one.kind === "bump" ? bump(counters, one.name) : reset(counters, one.name);
          model.set(one.name, one.kind === "bump" ? (model.get(one.name) ?? 0) + 1 : 0);
          for (const [key, value] of model) expect(counterOf(counters, key)).toBe(value);
        }
      }),
    );
  });

  test("counters survive serialization to JSON", () => {
    fc.assert(
      fc.property(fc.array(name), (names) => {
        const counters = names.reduce(bump, {});
        const back = JSON.parse(JSON.stringify(counters)) as Counters;
        for (const key of names) expect(counterOf(back, key)).toBe(counterOf(counters, key));
      }),
    );
  });

  test("ending one stage does not reset another's streak (agentize: the review guard could never fire)", () => {
    const counters = bump(bump(bump({}, "review"), "review"), "parse");
    expect(reset(counters, "parse")).toEqual({ review: 2 });
  });

  test("the old value is unchanged", () => {
    const before: Counters = Object.freeze({ review: 1 });
    bump(before, "review");
    reset(before, "review");
    expect(before).toEqual({ review: 1 });
  });
});

describe("score", () => {
  const scored = fc.array(fc.option(fc.oneof(fc.integer({ min: 0, max: 9 }), fc.double())));

  test("a score that is not a number is never the best, nor the first", () => {
    expect(betterOf(null, { sequence: 1, score: Number.NaN })).toBeNull();
    expect(betterOf(null, { sequence: 1, score: Number.POSITIVE_INFINITY })).toBeNull();
    expect(betterOf({ sequence: 1, score: 5 }, { sequence: 2, score: 5 })).toEqual({ sequence: 1, score: 5 });
  });

  test("the best is the earliest of the highest, and only numbers count", () => {
    fc.assert(
      fc.property(scored, (scores) => {
        const best = scores.reduce<ReturnType<typeof betterOf>>(
          (so, score, index) => betterOf(so, { sequence: index + 1, score }),
          null,
        );
        const numbers = scores.filter((score) => score !== null && Number.isFinite(score));
        if (numbers.length === 0) {
          expect(best).toBeNull();
          return;
        }
        const highest = numbers.reduce((a, b) => (Number(b) > Number(a) ? b : a));
        expect(best).toEqual({ sequence: scores.indexOf(highest) + 1, score: highest });
      }),
    );
  });
});
