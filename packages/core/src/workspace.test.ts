import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "./json.ts";
import { asideKey, asideTip, forgetAsideCalls, neededAside, openAsides } from "./workspace.ts";

const opened = (base: string): Json => ({ kind: "aside.opened", base, skipped: [] });
const closed = (aside: string): Json => ({ kind: "aside.closed", aside, files: [] });
const called = (name: string, from: string, commit: string): Json => ({ commit, aside: { name, from, skipped: [] } });

describe("a key", () => {
  test("is safe in a path, and another one for every other name", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.string({ minLength: 1 }), (one, other) => {
        expect(asideKey(one)).toMatch(/^[a-z0-9][a-z0-9-]{0,62}$/);
        expect(asideKey(one) === asideKey(other)).toBe(one === other);
      }),
    );
    expect(asideKey("Fix the Parser!")).toMatch(/^fix-the-parser-[0-9a-f]{10}$/);
    expect(asideKey("../..")).toMatch(/^[0-9a-f]{10}$/);
  });
});

describe("the asides of a visit", () => {
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

  test("are open until they are closed, and need their commits as long", () => {
    expect([...openAsides(steps)]).toEqual(["y"]);
    expect([...neededAside(steps)].toSorted()).toEqual(["b2", "c2", "c3"]);
  });

  test("hold what the last call in them came to, in whatever order the steps stand", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([...steps], { minLength: steps.length }), (shuffled) => {
        expect(asideTip(shuffled, { name: "y", base: "b2" })).toBe("c3");
        expect(asideTip(shuffled, { name: "x", base: "b1" })).toBe("c1");
        expect(asideTip(shuffled, { name: "z", base: "b9" })).toBe("b9");
      }),
    );
    expect(
      asideTip(
        [
          ["w", called("w", "a", "b")],
          ["v", called("w", "b", "a")],
        ],
        { name: "w", base: "a" },
      ),
    ).toBe("a");
  });
});

test("calls aside are forgotten where a run goes back; the run's own are not", () => {
  const step = { files: false, estimate: null, base: 1 };
  const visit = {
    number: 2,
    steps: { x: opened("b") },
    failures: {},
    running: { "work x": step, own: step },
    sessions: { "work x": "s1", own: "s2", between: null },
    asides: { "work x": "x" },
  };
  expect(forgetAsideCalls(visit)).toEqual({
    number: 2,
    steps: visit.steps,
    failures: {},
    running: { own: step },
    sessions: { own: "s2", between: null },
  });
});
