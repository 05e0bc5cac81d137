import fc from "fast-check";
import { expect, test } from "vitest";
import { cutValues, divergenceText } from "./divergence.ts";

test("long values are cut so that the place at which they part is seen", () => {
  fc.assert(
    fc.property(
      fc.string({ maxLength: 500 }),
      fc.string({ maxLength: 500 }),
      fc.integer({ min: 16, max: 80 }),
      (head, tail, width) => {
        const [a, b] = cutValues(`${head}A${tail}`, `${head}B${tail}`, width);
        expect(a).not.toBe(b);
        for (const text of [a, b]) expect(text.length).toBeLessThanOrEqual(Math.max(width, 0) + 2);
      },
    ),
  );
});

test("one line says where, what, and both values", () => {
  const where = { stage: "work", iteration: 4, visit: 9, step: "agent", checkpoint: null, entry: 51 };
  expect(divergenceText({ where, what: "call", field: "model", expected: "a", actual: null })).toBe(
    'iteration 4, stage work, step agent, entry 51: the agent\'s model: recorded "a", now nothing',
  );
});
