import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";

const full = process.env["HOLDFAST_FULL"] === "1";

function run(what: string, size: number): { readonly found: unknown; readonly grownMB: number } {
  const script = join(import.meta.dirname, "../../../test-support/src/store-processes/scale.ts");
  const directory = join(scratchDirectory(onTestFinished), "store");
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--max-old-space-size=2048", script, what, directory, String(size)],
    { encoding: "utf8" },
  );
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout);
}

describe("large data", () => {
  test(`a run of ${full ? "100,000" : "6,000"} checkpoints is written, listed, read and verified in pages`, () => {
    const count = full ? 100_000 : 6000;
    const { found, grownMB } = run("checkpoints", count);
    expect(found).toEqual({ entries: count, listed: count, problems: 0, middle: Math.ceil(count / 2) });
    // The history is ten times that when it is full, and its memory must not be.
    expect(grownMB).toBeLessThan(250);
  }, 600_000);

  test(`a state of ${full ? "a million" : "30,000"} keys is correct, and a change of one key is cheap`, () => {
    const count = full ? 1_000_000 : 30_000;
    const { found } = run("keys", count);
    expect(found).toEqual({ keys: count, changed: -7, last: count - 1, small: true });
  }, 600_000);

  test(`a value of ${full ? 100 : 6} MB is correct, an insertion in its middle is cheap, and memory follows the value`, () => {
    const megabytes = full ? 100 : 6;
    const { found, grownMB } = run("value", megabytes * 1_000_000);
    expect(found).toEqual({ same: true, small: true });
    expect(grownMB).toBeLessThan(150 + megabytes * 10);
  }, 600_000);
});
