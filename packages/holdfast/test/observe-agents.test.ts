import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { withEnvironment } from "@holdfast/test-support/agents/real-agent-suite";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { observeAgents } from "../src/check-agents.ts";

function program(folder: string, name: string, lines: readonly string[]): void {
  writeFileSync(join(folder, name), ["#!/bin/sh", ...lines, ""].join("\n"));
  chmodSync(join(folder, name), 0o755);
}

test("each agent is reported as it is, and one that does not answer does not delay the others", async ({
  onTestFinished,
}) => {
  const folder = scratchDirectory(onTestFinished);
  // Each waits for the other to be there too: one after the other, neither would ever end.
  const meet = (mine: string, other: string) => [
    `: > ${folder}/${mine}`,
    `while [ ! -e ${folder}/${other} ]; do sleep 0.02; done`,
  ];
  program(folder, "claude", [...meet("a", "b"), '[ "$1" = auth ] && echo \'{"loggedIn": false}\' || echo 9.8.7']);
  program(folder, "gemini", [...meet("b", "a"), "echo 1.2.3"]);
  program(folder, "codex", ["exec sleep 20"]);
  const env = { PATH: `${folder}:/usr/bin:/bin`, HOME: folder, GEMINI_API_KEY: "x" };
  const names = ["claude", "codex", "gemini"];
  const agents = await withEnvironment(env, () => observeAgents({ names, boundMs: 5000 }));
  expect(agents.map(({ name, probe }) => ({ name, ...probe }))).toEqual([
    {
      name: "claude",
      installed: true,
      version: "9.8.7",
      problem: "Claude Code is not logged in",
      hint: expect.stringContaining("claude auth login"),
    },
    {
      name: "codex",
      installed: true,
      version: null,
      problem: "It did not respond within 5 s",
      hint: expect.stringContaining("codex --version"),
    },
    { name: "gemini", installed: true, version: "1.2.3", problem: null, hint: null },
  ]);
});

test("a missing program is not installed, and the hint installs it", async ({ onTestFinished }) => {
  const env = { PATH: scratchDirectory(onTestFinished) };
  const [agent] = await withEnvironment(env, () => observeAgents({ names: ["codex"] }));
  expect(agent?.probe).toMatchObject({ installed: false, hint: expect.stringContaining("npm install") });
});
