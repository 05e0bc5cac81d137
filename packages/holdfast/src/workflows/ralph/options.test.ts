import fc from "fast-check";
import { expect, test } from "vitest";
import { loopOptionsJson, parseLoopOptions } from "./options.ts";

test("what is kept of the options, parsed once more, is the same", () => {
  const words = fc.string({ minLength: 1 }).filter((text) => text.trim() !== "");
  fc.assert(
    fc.property(
      fc.record(
        {
          until: fc.oneof(words, fc.array(words, { minLength: 1, maxLength: 3 })),
          maxIterations: fc.integer({ min: 1, max: 500 }),
          firstCheck: fc.boolean(),
          pullRequest: fc.boolean(),
          draft: fc.boolean(),
          baseBranch: fc.option(words),
          onStuck: fc.constantFrom("stop", "ask", "rollback"),
        },
        { requiredKeys: ["until"] },
      ),
      words,
      (given, task) => {
        const options = parseLoopOptions({ ...given, task });
        expect(parseLoopOptions(loopOptionsJson(options))).toEqual(options);
      },
    ),
  );
});

test("a name that nobody reads and a value that does not fit are refused", () => {
  const loop = { task: "x", until: "true" };
  expect(() => parseLoopOptions({ ...loop, pullrequest: true })).toThrow(/no option "pullrequest"/);
  expect(() => parseLoopOptions({ ...loop, pullRequest: "yes" })).toThrow(/pullRequest/);
});
