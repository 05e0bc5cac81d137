import assert from "node:assert/strict";
import type { ForgeCase } from "./harness.ts";

export const checkCases: readonly ForgeCase[] = [
  {
    name: "a commit without any check is none, which is no failure",
    async run({ open, push }) {
      const commit = await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      assert.deepEqual(await (await open()).checks(commit), { state: "none", runs: [] });
    },
  },
  {
    name: "one failure fails, something pending is pending, skipped ones do not count",
    async run({ open, push, writeChecks }) {
      const forge = await open();
      const states = [
        ["passed", ["passed", "skipped"]],
        ["pending", ["passed", "pending"]],
        ["failed", ["pending", "failed", "passed"]],
      ] as const;
      for (const [expected, runs] of states) {
        const commit = await push({ branch: expected, from: "main", files: { "b.txt": `${expected}\n` } });
        await writeChecks(
          commit,
          runs.map((state) => ({ name: `test-${state}`, state, summary: `it ${state}` })),
        );
        const checks = await forge.checks(commit);
        assert.equal(checks.state, expected);
        assert.deepEqual(checks.runs.map(({ state }) => state).sort(), [...runs].sort());
        if (expected === "failed")
          assert.ok(checks.runs.find(({ state }) => state === "failed")?.summary.includes("it failed"));
      }
    },
  },
];
