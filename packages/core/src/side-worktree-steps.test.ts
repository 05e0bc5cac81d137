import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "./json.ts";
import {
  forgetSideWorktreeCalls,
  neededSideWorktree,
  openSideWorktrees,
  sideWorktreeTip,
} from "./side-worktree-steps.ts";
import { sideWorktreeKey } from "./workspace.ts";

const opened = (base: string): Json => ({ kind: "side-worktree.opened", base, skipped: [] });
const closed = (sideWorktree: string): Json => ({ kind: "side-worktree.closed", sideWorktree, files: [] });
const called = (name: string, from: string, commit: string): Json => ({
  commit,
  sideWorktree: { name, from, skipped: [] },
});

describe("a key", () => {
  test("is safe in a path, and different for every name", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.string({ minLength: 1 }), (one, other) => {
        expect(sideWorktreeKey(one)).toMatch(/^[a-z0-9][a-z0-9-]{0,62}$/);
        expect(sideWorktreeKey(one) === sideWorktreeKey(other)).toBe(one === other);
      }),
    );
    expect(sideWorktreeKey("Fix the Parser!")).toMatch(/^fix-the-parser-[0-9a-f]{10}$/);
    expect(sideWorktreeKey("../..")).toMatch(/^[0-9a-f]{10}$/);
  });
});

describe("the side worktrees of a stage attempt", () => {
  const steps: readonly (readonly [string, Json])[] = [
    ["x", opened("b1")],
    ["work x", called("x", "b1", "c1")],
    ["y", opened("b2")],
    ["work y again", called("y", "c2", "c3")],
    ["work y", called("y", "b2", "c2")],
    ["merge x", closed("x")],
    ["other", { kind: "conflict", files: [] }],
    ["plain", 1],
  ];

  test("are open until they are closed, and need their commits that long", () => {
    expect([...openSideWorktrees(steps)]).toEqual(["y"]);
    expect([...neededSideWorktree(steps)].toSorted()).toEqual(["b2", "c2", "c3"]);
  });

  test("hold the result of the last call in them, in any order of steps", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([...steps], { minLength: steps.length }), (shuffled) => {
        expect(sideWorktreeTip(shuffled, { name: "y", base: "b2" })).toBe("c3");
        expect(sideWorktreeTip(shuffled, { name: "x", base: "b1" })).toBe("c1");
        expect(sideWorktreeTip(shuffled, { name: "z", base: "b9" })).toBe("b9");
      }),
    );
    expect(
      sideWorktreeTip(
        [
          ["w", called("w", "a", "b")],
          ["v", called("w", "b", "a")],
        ],
        { name: "w", base: "a" },
      ),
    ).toBe("a");
  });
});

test("calls in side worktrees are forgotten when a run is restored; the run's own are not", () => {
  const step = { files: false, estimate: null, base: 1 };
  const stageAttempt = {
    number: 2,
    steps: { x: opened("b") },
    failures: {},
    running: { "work x": step, own: step },
    sessions: { "work x": "s1", own: "s2", between: null },
    sideWorktrees: { "work x": "x" },
  };
  expect(forgetSideWorktreeCalls(stageAttempt)).toEqual({
    number: 2,
    steps: stageAttempt.steps,
    failures: {},
    running: { own: step },
    sessions: { own: "s2", between: null },
  });
});
