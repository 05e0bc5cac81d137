import { expect, test } from "vitest";
import { PAGE } from "@holdfast/test-support/sample-run";
import { usesText } from "./run-plan.ts";

type Uses = Parameters<typeof usesText>[0];

function usesOf(agents: Uses["agents"]): Uses {
  return {
    agents,
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
  };
}

test("a plan lists the same variables once, and breaks a long command between its words", () => {
  const argv = ["/usr/bin/node", `/opt/${"a".repeat(50)}.js`, "/srv/team.yaml"];
  const env = ["HOME", "LANG", "PATH"];
  const uses = usesOf([
    { role: "impl", agent: "one", argv, env },
    { role: "review", agent: "one", argv, env },
    { role: "docs", agent: "two", argv: ["two"], env: ["HOME"] },
  ]);
  const lines = usesText(uses, PAGE).split("\n");
  expect(lines.filter((line) => line.startsWith("  variables"))).toEqual([
    "  variables  HOME LANG PATH",
    "  variables  as for impl",
    "  variables  HOME",
  ]);
  const at = lines.findIndex((line) => line.startsWith("  runs"));
  expect(lines.slice(at, at + 2)).toEqual([
    `  runs       /usr/bin/node /opt/${"a".repeat(50)}.js`.slice(0, 26).trimEnd(),
    `             /opt/${"a".repeat(50)}.js`,
  ]);
  expect(usesText(uses, { ...PAGE, terminal: false })).toContain(`  runs       ${argv.join(" ")}\n`);
});

test("variables and arguments are wrapped at 80 columns, between words only", () => {
  const env = Array.from({ length: 40 }, (_, at) => `VARIABLE_NUMBER_${at}`);
  const long = "x".repeat(100);
  const argv = ["sh", "-c", `echo ${long}`];
  const text = usesText(usesOf([{ role: "impl", agent: "claude", argv, env }]), PAGE);
  const lines = text.split("\n");
  expect(lines.filter((line) => line.length > 80).map((line) => line.trim())).toEqual([long]);
  expect(text.split(/\s+/).join(" ")).toContain(argv.join(" "));
  expect(text.match(/VARIABLE_NUMBER_\d+/g)).toEqual(env);
});
