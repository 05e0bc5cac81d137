import { expect, test } from "vitest";
import { usesText } from "./run-plan.ts";

const PAGE = { width: 80, color: false, terminal: true, now: 0, offset: () => 0, program: "holdfast" };

test("a plan lists the same variables once, and breaks a long command between its words", () => {
  const argv = ["/usr/bin/node", `/opt/${"a".repeat(50)}.js`, "/srv/team.yaml"];
  const env = ["HOME", "LANG", "PATH"];
  const uses = {
    agents: [
      { role: "impl", agent: "one", argv, env },
      { role: "review", agent: "one", argv, env },
      { role: "docs", agent: "two", argv: ["two"], env: ["HOME"] },
    ],
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
    forge: "auto",
    untrusted: [],
  };
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
