import fc from "fast-check";
import { expect, test } from "vitest";
import { spentOf } from "./spent.ts";

test("each record once, whatever else is in the file and wherever it breaks off", () => {
  const usage = fc.record({ inputTokens: fc.nat(), outputTokens: fc.nat() });
  fc.assert(
    fc.property(fc.array(usage), fc.array(fc.json()), (usages, others) => {
      const lines = usages.map((used, id) =>
        JSON.stringify({ type: "session.usage_record", id: `${id}`, data: { usage: used } }),
      );
      const text = [...lines, ...others, ...lines, (lines[0] ?? "").slice(0, -3)].join("\n");
      expect([...spentOf(text).values()]).toEqual(
        usages.map(({ inputTokens, outputTokens }) => ({ input: inputTokens, output: outputTokens })),
      );
    }),
  );
});
