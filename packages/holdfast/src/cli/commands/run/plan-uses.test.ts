import { expect, test } from "vitest";
import { PAGE } from "@holdfast/test-support/sample-run";
import { usesText } from "../../run-plan.ts";

test("the names of variables are wrapped at 80 columns; a command stays whole", () => {
  const env = Array.from({ length: 40 }, (_, at) => `VARIABLE_NUMBER_${at}`);
  const argv = ["sh", "-c", `echo ${"x".repeat(100)}`];
  const text = usesText(
    {
      agents: [{ role: "impl", agent: "claude", argv, env }],
      setup: null,
      copy: [],
      gate: null,
      checks: [],
      hooks: "none",
      yolo: false,
      store: "in the git directory",
      worktrees: "next to the main worktree",
      mirror: null,
      aiwg: null,
      forge: "local",
      untrusted: [],
    },
    PAGE,
  );
  const lines = text.split("\n");
  expect(lines.filter((line) => line.length > 80)).toEqual([expect.stringContaining(argv.join(" "))]);
  expect(text.match(/VARIABLE_NUMBER_\d+/g)).toEqual(env);
});
