// The test command: builds, runs every suite, and ends with the counts as its last line.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = new URL("..", import.meta.url).pathname;
const build = spawnSync(process.execPath, [join(root, "scripts/build.mjs")], { cwd: root, stdio: "inherit" });
if (build.status !== 0) process.exit(build.status ?? 1);

// Never a reason to fail: suites that lack their program skip aloud, and are counted.
for (const script of ["install-agents.mjs", "install-forge-programs.mjs"])
  spawnSync(process.execPath, [join(root, "scripts", script)], { cwd: root, stdio: "inherit" });

const folder = mkdtempSync(join(tmpdir(), "holdfast-test-"));
const report = join(folder, "report.json");
const vitest = join(root, "node_modules/vitest/vitest.mjs");
const args = ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`, ...process.argv.slice(2)];
const dist = join(root, "packages/holdfast/dist");
const env = { ...process.env, HOLDFAST_FORGE_PROGRAMS: "tried", HOLDFAST_TEST_DIST: dist };
const run = spawnSync(process.execPath, [vitest, ...args], { cwd: root, stdio: "inherit", env });

const counts = readCounts();
rmSync(folder, { recursive: true, force: true });
if (counts === undefined) {
  console.log("0 passed, 1 failed");
  process.exit(1);
}
const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
console.log(`${counts.passed} passed, ${counts.failed} failed${skipped}`);
process.exit(run.status === 0 && counts.failed === 0 && counts.passed > 0 ? 0 : 1);

function readCounts() {
  try {
    const json = JSON.parse(readFileSync(report, "utf8"));
    const { numPassedTests, numFailedTests, numPendingTests, numFailedTestSuites } = json;
    // A file that fails to load runs no test, but it must not pass for one.
    const failed = numFailedTests > 0 ? numFailedTests : json.success ? 0 : Math.max(1, numFailedTestSuites);
    return { passed: numPassedTests, failed, skipped: numPendingTests };
  } catch {
    return undefined;
  }
}
