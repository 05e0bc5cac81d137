import { execFile } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { parseRalphOptions } from "@holdfast/workflows/ralph/options";
import { buildCommand } from "@holdfast/test-support/built-command";
import { parseYaml } from "@holdfast/platform/yaml";
import type { JsonObject } from "@holdfast/core/json";
import { RALPH_SHAPE } from "@holdfast/workflows/ralph/workflow";

/** docs/ralph.md: its first example is executed as printed, and its tables must match the code. */

const page = await readFile(new URL("../../../../docs/ralph.md", import.meta.url), "utf8");
const blockOf = (language: string): string => new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``).exec(page)?.[1] ?? "";

test("the first run does what the page describes", async () => {
  const holdfast = await buildCommand();
  const folder = await mkdtemp(join(tmpdir(), "holdfast-ralph-docs-"));
  try {
    await writeFile(
      join(folder, "holdfast"),
      `#!/bin/sh\nexec "${process.execPath}" "${join(holdfast.directory, "bin/holdfast.cjs")}" "$@"\n`,
    );
    await chmod(join(folder, "holdfast"), 0o755);
    const env = {
      PATH: [folder, dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter),
      HOME: folder,
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_AUTHOR_NAME: "You",
      GIT_AUTHOR_EMAIL: "you@example.org",
      GIT_COMMITTER_NAME: "You",
      GIT_COMMITTER_EMAIL: "you@example.org",
    };
    const { stdout } = await promisify(execFile)("sh", ["-ec", blockOf("sh")], { cwd: folder, env });
    expect(stdout).toMatch(/The criterion passes after 2 iterations/);
    expect(stdout).toMatch(/^loop +iteration 2 of 200 {2}✗✓$/m);
    expect(await readFile(join(folder, "app/sum.js"), "utf8")).toContain("a + b");
  } finally {
    await rm(folder, { recursive: true, force: true });
    await holdfast.remove();
  }
});

test("every stage is explained with its events, and the diagram matches", () => {
  for (const stage of RALPH_SHAPE.stages) expect(page, stage).toContain(`| \`${stage}\` |`);
  for (const event of RALPH_SHAPE.events) expect(page, event).toContain(`\`${event}\``);
  const flow = parseYaml(blockOf("yaml"));
  // The page's own, a mapping with steps in it.
  const { steps } = (flow.ok ? flow.value : {}) as JsonObject;
  expect(parseRalphOptions({ workflowType: "flow_command", steps: steps ?? null }).steps).toHaveLength(2);
});
