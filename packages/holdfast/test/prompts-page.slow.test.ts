import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { REAL_CLAUDE } from "@holdfast/test-support/agents/real-agents";
import { buildCommand } from "@holdfast/test-support/built-command";

const why = REAL_CLAUDE.kind === "absent" ? ` (${REAL_CLAUDE.why})` : "";

test.skipIf(REAL_CLAUDE.kind === "absent")(
  `docs/prompts.md is what a real Claude Code gets in a run of each workflow, before and after a kill${why}`,
  async ({ onTestFinished }) => {
    const holdfast = await buildCommand();
    onTestFinished(() => holdfast.remove());
    const script = join(import.meta.dirname, "../../../scripts/write-prompts.mjs");
    const checked = spawnSync(process.execPath, [script, "--check", "--command", holdfast.entry], { encoding: "utf8" });
    expect(checked.stderr).toBe("");
    expect(checked.status).toBe(0);
  },
);
