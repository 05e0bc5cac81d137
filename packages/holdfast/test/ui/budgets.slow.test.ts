import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { installPackage } from "../installed-package.ts";
import { noBrowser } from "./browser.ts";

test("the page and its server keep their budgets of processor time, elements and sizes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-budgets-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  const bench = join(import.meta.dirname, "../../../../bench/ui.mjs");
  const args = [bench, "--idle", "9", "--package", installPackage(folder)];
  // It rejects, with what was printed, if a budget is missed by far.
  const { stdout } = await promisify(execFile)(process.execPath, args);
  expect(stdout).toContain("| list of runs again |");
  if (noBrowser === null) expect(stdout).toContain("| page of all runs |");
  process.stdout.write(stdout);
});
