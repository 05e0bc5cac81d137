import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { installPackage } from "../installed-package.ts";

/** A small sample of the scene. `node bench/ui.mjs` measures the whole one, whose figures are in docs/ui.md. */
const SAMPLE = ["--runs", "100", "--repositories", "5", "--entries", "4000", "--idle", "4"];

test("the page server keeps its budgets of processor time and of size", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-budgets-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  const bench = join(import.meta.dirname, "../../../../bench/ui.mjs");
  const args = [bench, ...SAMPLE, "--package", installPackage(folder)];
  // It rejects, with what was printed, if a budget is missed by far.
  const { stdout } = await promisify(execFile)(process.execPath, args);
  expect(stdout).toContain("| list of runs again |");
  process.stdout.write(stdout);
});
