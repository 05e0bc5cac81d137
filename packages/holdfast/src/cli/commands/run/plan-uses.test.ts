import { expect, test } from "vitest";
import { PAGE } from "@holdfast/test-support/sample-run";
import { usesText } from "../../run-plan.ts";

test("variables and arguments are wrapped at 80 columns, between words only", () => {
  const env = Array.from({ length: 40 }, (_, at) => `VARIABLE_NUMBER_${at}`);
  const long = "x".repeat(100);
  const argv = ["sh", "-c", `echo ${long}`];
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
  expect(lines.filter((line) => line.length > 80).map((line) => line.trim())).toEqual([long]);
  expect(text.split(/\s+/).join(" ")).toContain(argv.join(" "));
  expect(text.match(/VARIABLE_NUMBER_\d+/g)).toEqual(env);
});
