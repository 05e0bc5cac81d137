import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DIMENSIONS, defaultImplOptions, parseImplOptions } from "./options.ts";

const refuse = (given: Parameters<typeof parseImplOptions>[0]) => {
  try {
    parseImplOptions(given);
  } catch (error) {
    return error;
  }
  return undefined;
};

describe("options of impl", () => {
  test("without any, all defaults", () => {
    expect(parseImplOptions({})).toEqual({ options: defaultImplOptions, warnings: [] });
    expect(defaultImplOptions).toMatchObject({
      maxIterations: 10,
      maxReviews: 8,
      review: true,
      simplify: false,
      waitForCi: false,
      afterRebase: "review",
      thresholds: { faithful: 90, style: 85, docs: 85, cornerCases: 85 },
      limits: { prAttempts: 6, rebases: 3, parseStreak: 3, reviewStreak: 4, stuck: 3 },
    });
    expect(defaultImplOptions.tags).toHaveLength(13);
  });

  test("given options are combined with the defaults of the rest", () => {
    const { options } = parseImplOptions({ thresholds: { docs: 50 }, gate: "npm test", limits: { rebases: 0 } });
    expect(options.thresholds).toEqual({ faithful: 90, style: 85, docs: 50, cornerCases: 85 });
    expect(options.gate).toEqual({ command: "npm test", timeoutMs: 600_000 });
    expect(options.limits).toEqual({ ...defaultImplOptions.limits, rebases: 0 });
  });

  test("stored and read again they are the same", () => {
    fc.assert(
      fc.property(
        fc.record({
          maxIterations: fc.integer({ min: 1, max: 99 }),
          review: fc.boolean(),
          thresholds: fc.record(Object.fromEntries(DIMENSIONS.map((one) => [one, fc.integer({ min: 0, max: 100 })]))),
          prompts: fc.constantFrom({}, { impl: { path: "p.md" } }, { review: { text: "t" } }),
          gate: fc.constantFrom(null, { command: "true", timeoutMs: 5 }),
          afterRebase: fc.constantFrom("review", "impl"),
          agentTimeoutMs: fc.constantFrom(null, 7),
        }),
        (given) => {
          const { options } = parseImplOptions(given);
          expect(parseImplOptions(options).options).toEqual(options);
        },
      ),
    );
  });

  test.each([
    [{ maxIteration: 3 }, "maxIterations"],
    [{ maxIterations: 0 }, "whole number from 1"],
    [{ maxIterations: "3" }, "whole number"],
    [{ implModel: "my agent" }, "provider:model"],
    [{ implModel: "command" }, "command:./my-agent"],
    [{ reviewModel: "codex:" }, "provider:model"],
    [{ thresholds: { docs: 101 } }, "0 to 100"],
    [{ thresholds: { doc: 1 } }, "docs"],
    [{ afterRebase: "pr" }, "review, impl"],
    [{ tags: [] }, "words"],
    [{ tags: ["a]b"] }, "words"],
    [{ prompts: { impl: { text: "a", path: "b" } } }, "either"],
    [{ yolo: "yes" }, "true or false"],
    [{ gate: { command: "" } }, "not empty"],
  ])("%j is USAGE and names the valid values", (given, hint) => {
    expect(refuse(given)).toMatchObject({ code: "USAGE", hint: expect.stringContaining(hint) });
  });

  test("a provider alone is an agent with its default model", () => {
    const { options } = parseImplOptions({ implModel: "claude", reviewModel: "codex" });
    expect(options).toMatchObject({ implModel: "claude", reviewModel: "codex" });
  });

  test("old spellings are accepted and reported; both at once is USAGE", () => {
    const { options, warnings } = parseImplOptions({ backend: "command:x", maxIter: 3, enableReview: false });
    expect(options).toMatchObject({ implModel: "command:x", maxIterations: 3, review: false });
    expect(warnings).toHaveLength(3);
    expect(refuse({ maxIter: 3, maxIterations: 4 })).toMatchObject({ code: "USAGE" });
  });
});
