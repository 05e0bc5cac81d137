import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { samplePosition as position } from "./crunch-sample.ts";
import { defaultCrunchSettings } from "./default-settings.ts";
import { isClose, tallyVotes, weightOf } from "./vote.ts";

const { weights } = defaultCrunchSettings;

function tally(positions: Parameters<typeof tallyVotes>[0]["positions"], domains: readonly string[] = []) {
  return tallyVotes({ positions, domains, weights });
}

test("the reference's own example: 1.425 against 0.384", () => {
  const { scores, totals } = tally(
    [
      position("security-analyst", "no", { confidence: 95, relevance: 1 }),
      position("dev-python", "yes", { confidence: 80, relevance: 0.6 }),
    ],
    ["security"],
  );
  expect(scores.map((one) => one.score)).toEqual([0.384, 1.425]);
  expect(totals).toEqual([
    { choice: "no", total: 1.425 },
    { choice: "yes", total: 0.384 },
  ]);
});

test.each([
  ["security-analyst", 1, 0.5],
  ["system-architect", 0.9, 0.3],
  ["devops-engineer", 0.8, 0.3],
  ["dev-go", 0.8, 0.3],
  ["dev-cpp", 0.8, 0.3],
  ["dev-python", 0.8, 0.3],
  ["dev-react", 0.8, 0.3],
  ["dev-of-the-user", 0.8, 0.3],
  ["reviewer", 0.7, 0.2],
  ["qa-engineer", 0.7, 0.2],
  ["techwriter", 0.6, 0],
  ["knowledge-manager", 0.5, 0],
  ["somebody-else", 0.5, 0],
  ["constructor", 0.5, 0],
])("%s has the weight %f (+%f)", (agent, base, boost) => {
  expect(weightOf(agent, weights)).toMatchObject({ base, boost });
});

test("choices in other spelling are one choice", () => {
  expect(tally([position("reviewer", "Use  Redis"), position("dev-go", "use redis ")]).totals).toHaveLength(1);
});

describe("too close to call", () => {
  test.each([
    [100, 90, true],
    [100, 89, false],
    [100, 100, true],
    [100, 0, false],
  ])("%i against %i: %s", (one, other, close) => {
    const positions = [position("dev-go", "a", { confidence: one }), position("dev-cpp", "b", { confidence: other })];
    expect(isClose(tally(positions), 0.1)).toBe(close);
  });

  test("nobody sure of anything is a tie, also alone", () => {
    expect(isClose(tally([]), 0.1)).toBe(true);
    expect(isClose(tally([position("dev-go", "a", { confidence: 0 })]), 0.1)).toBe(true);
    expect(isClose(tally([position("dev-go", "a")]), 0.1)).toBe(false);
  });
});

const somePositions = fc.uniqueArray(
  fc.record({
    agent: fc.constantFrom("security-analyst", "dev-go", "dev-cpp", "reviewer", "qa-engineer", "techwriter", "x"),
    choice: fc.constantFrom("a", "b", "c", "A "),
    confidence: fc.double({ min: 0, max: 100, noNaN: true }),
    relevance: fc.double({ min: 0, max: 1, noNaN: true }),
  }),
  { selector: (one) => one.agent },
);

test("the order of the positions makes no difference", () => {
  fc.assert(
    fc.property(somePositions, fc.infiniteStream(fc.nat()), (some, stream) => {
      const positions = some.map(({ agent, choice, ...rest }) => position(agent, choice, rest));
      const shuffled = positions
        .map((one) => ({ one, at: stream.next().value ?? 0 }))
        .toSorted((a, b) => a.at - b.at)
        .map(({ one }) => one);
      expect(tally(shuffled, ["go"])).toEqual(tally(positions, ["go"]));
    }),
  );
});

test("more confidence never lowers a choice", () => {
  fc.assert(
    fc.property(somePositions, fc.nat(), (some, pick) => {
      const positions = some.map(({ agent, choice, ...rest }) => position(agent, choice, rest));
      const at = pick % Math.max(1, positions.length);
      const surer = positions.map((one, index) => (index === at ? { ...one, confidence: 100 } : one));
      const totalOf = (all: typeof positions): number =>
        tally(all).totals.find((one) => one.choice.trim().toLowerCase() === positions[at]?.choice.trim().toLowerCase())
          ?.total ?? 0;
      expect(totalOf(surer)).toBeGreaterThanOrEqual(totalOf(positions));
    }),
  );
});
