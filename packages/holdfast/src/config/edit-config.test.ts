import fc from "fast-check";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { configTemplate } from "./config-template.ts";
import { editConfig } from "./config-template.ts";
import { parseConfig } from "./schema.ts";

const GATE = { key: ["impl", "gate"], value: "npm test" };

test.each([
  ["", "impl:\n  gate: npm test\n"],
  ["# only words\n", "# only words\nimpl:\n  gate: npm test\n"],
  ["agent: claude # mine", "agent: claude # mine\nimpl:\n  gate: npm test\n"],
  ["impl:\n    draft: true # yes\n", "impl:\n    gate: npm test\n    draft: true # yes\n"],
  ["impl:\n  gate: make # old\n# end\n", "impl:\n  gate: npm test # old\n# end\n"],
  ['impl: { gate: "make", draft: true }\n', "impl: { gate: npm test, draft: true }\n"],
  ["impl: { draft: true }\n", "impl: { draft: true, gate: npm test }\n"],
  ["impl:\nbudget:\n  maxTokens: 5\n", "impl:\n  gate: npm test\nbudget:\n  maxTokens: 5\n"],
])("%j", (before, after) => {
  expect(editConfig(before, [GATE])).toBe(after);
});

test("every line of the file that init writes stays, and the new ones are next to their examples", () => {
  const before = configTemplate();
  const edits = [{ key: ["agent"], value: "claude:opus" }, GATE, { key: ["models", "review"], value: "codex" }];
  const after = editConfig(before, edits);
  expect(parseConfig(after)).toMatchObject({
    ok: true,
    values: { agent: "claude:opus", models: { review: "codex" }, impl: { gate: "npm test", maxIterations: 10 } },
  });
  const [old, now] = [before.split("\n"), after.split("\n")];
  expect(now.filter((line) => !old.includes(line))).toEqual([
    "agent: claude:opus",
    "  gate: npm test",
    "models:",
    "  review: codex",
  ]);
  expect(old.filter((line) => !now.includes(line))).toEqual([]);
  expect(after).toContain("\n# agent: command:./my-agent\nagent: claude:opus\n");
  expect(after).toContain("\n  # gate: npm test\n  gate: npm test\n");
});

test("any value is read back unchanged, and the rest stays", () => {
  const other = fc.record({ draft: fc.boolean(), base: fc.string() }, { requiredKeys: [] });
  fc.assert(
    fc.property(fc.string(), fc.option(other), (value, impl) => {
      const before = impl === null ? "" : `${JSON.stringify({ impl })}\n`;
      const after: unknown = parse(editConfig(before, [{ key: ["impl", "gate"], value }]));
      expect(after).toEqual({ impl: { ...impl, gate: value } });
    }),
  );
});
