import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SAMPLE_AT, sampleRecommendation as recommend } from "./crunch-sample.ts";
import type { Conflict, Recommendation } from "./conflict.ts";
import { detectConflicts } from "./detect-conflicts.ts";

function detect(
  recommendations: readonly Recommendation[],
  known: readonly Conflict[] = [],
  at = SAMPLE_AT,
): readonly Conflict[] {
  return detectConflicts({ recommendations, known, phase: "enrich", domains: ["python"], at });
}

describe("a conflict is", () => {
  test("the same scope, different choices, both actionable", () => {
    expect(detect([recommend("a", "Redis"), recommend("b", "a cookie")])).toMatchObject([
      {
        id: expect.stringMatching(/^CONF-20260114T103000-[0-9a-f]{8}$/),
        participants: ["a", "b"],
        choices: ["Redis", "a cookie"],
        topic: "where tokens are kept",
        rounds: [],
        resolution: null,
      },
    ]);
  });

  test.each<readonly [string, readonly Recommendation[]]>([
    ["one choice in two spellings", [recommend("a", "Redis"), recommend("b", " redis")]],
    ["two scopes", [recommend("a", "Redis"), recommend("b", "a cookie", { scope: "something else" })]],
    ["a remark that cannot be acted on", [recommend("a", "Redis"), recommend("b", "x", { actionable: false })]],
    ["one agent that changed its mind", [recommend("a", "Redis"), recommend("a", "a cookie")]],
    ["no scope at all", [recommend("a", "Redis", { scope: " " }), recommend("b", "x", { scope: "" })]],
    ["alone", [recommend("a", "Redis")]],
  ])("not %s", (_, recommendations) => {
    expect(detect(recommendations)).toEqual([]);
  });

  test("one of all who differ, whatever the spelling of the scope", () => {
    const three = [recommend("c", "x"), recommend("a", "y", { scope: "Where  tokens are KEPT" }), recommend("b", "x")];
    expect(detect(three)).toMatchObject([{ participants: ["a", "b", "c"], choices: ["y", "x"] }]);
  });
});

test("what is known is not found again, at any time; a new choice is a new conflict", () => {
  const sides = [recommend("a", "Redis"), recommend("b", "a cookie")];
  const known = detect(sides);
  expect(detect(sides, known, "2027-01-01T00:00:00.000Z")).toEqual([]);
  expect(detect([recommend("a", "Redis"), recommend("b", "a file")], known)).toHaveLength(1);
});

test("its domains are those its words name, else the issue's", () => {
  const named = [recommend("a", "store the JWT in a cookie"), recommend("b", "in Redis")];
  expect(detect(named)).toMatchObject([{ domains: ["security"] }]);
  expect(detect([recommend("a", "x"), recommend("b", "y")])).toMatchObject([{ domains: ["python"] }]);
});

test("found alike in whatever order the answers came", () => {
  const one = fc.record({
    agent: fc.constantFrom("a", "b", "c", "d"),
    choice: fc.constantFrom("x", "y", "X"),
    scope: fc.constantFrom("s", "t"),
    actionable: fc.boolean(),
  });
  const some = fc.uniqueArray(one, { selector: ({ agent, scope }) => `${agent} ${scope}` });
  fc.assert(
    fc.property(some, (drawn) => {
      const recommendations = drawn.map(({ agent, choice, ...rest }) => recommend(agent, choice, rest));
      const byTopic = (found: readonly Conflict[]): readonly Conflict[] =>
        found.toSorted((a, b) => (a.topic < b.topic ? -1 : 1));
      expect(byTopic(detect(recommendations.toReversed()))).toEqual(byTopic(detect(recommendations)));
    }),
  );
});
