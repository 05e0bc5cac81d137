// The test commands. Each builds first unless it says otherwise, and its last line is `N passed, N failed[, N skipped]`.
//   npm test             every test file but *.slow.test.ts: no network, no root, nothing is installed
//   npm run test:quick   the pure ones of these, with a tenth of the random cases; builds nothing
//   npm run test:slow    only *.slow.test.ts: real agents, forge programs, sampled sweeps. Installs what it can (2 GB of agents, once)
//   npm run test:all     both
//   npm run test:mac     some of both on a modelled Mac (scripts/test-mac.mjs)
//   npm run test:folding some of both on a disk that ignores case (scripts/test-folding.mjs)
// Further arguments go to vitest: npm test -- packages/core/src/store-sql
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const [first, ...others] = process.argv.slice(2);
const which = ["quick", "fast", "slow", "all", "mac", "folding"].includes(first) ? first : "fast";
const more = which === first ? others : process.argv.slice(2);

// A caller that has built already names the folder.
const dist = process.env["HOLDFAST_TEST_DIST"] ?? join(root, "packages/holdfast/dist");
if (which !== "quick" && process.env["HOLDFAST_TEST_DIST"] === undefined && run("scripts/build.mjs") !== 0) {
  console.log("0 passed, 1 failed");
  process.exit(1);
}
if ((which === "slow" || which === "all") && process.env["HOLDFAST_INSTALL"] !== "0") {
  // Neither is a reason to fail: tests that lack their program are skipped with a reason, and counted as skipped.
  run("scripts/install-tools.mjs");
  run("scripts/install-agents.mjs");
}

const total = { passed: 0, failed: 0, skipped: 0 };
for (const part of which === "all" ? ["fast", "slow"] : [which]) {
  const counts = test(part);
  for (const kind of Object.keys(total)) total[kind] += counts[kind];
}
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : "";
console.log(`${total.passed} passed, ${total.failed} failed${skipped}`);
process.exit(total.failed === 0 && total.passed > 0 ? 0 : 1);

function test(part) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  const report = join(folder, "report.json");
  const env = {
    HOLDFAST_TESTS: part,
    HOLDFAST_TEST_DIST: dist,
    ...(["fast", "mac", "folding"].includes(part) ? { HOLDFAST_NO_AGENTS: "1" } : {}),
  };
  const args = ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`, ...more];
  try {
    const status = run("node_modules/vitest/vitest.mjs", args, env);
    const found = JSON.parse(readFileSync(report, "utf8"));
    const { numPassedTests: passed, numFailedTests: failed, numPendingTests } = found;
    printSlowest(found.testResults);
    printFailed(found.testResults);
    if (Date.now() > Number(process.env["HOLDFAST_TESTS_UNTIL"] ?? "Infinity") * 1000)
      console.log("skipped: tests that had not begun when the time for tests was over");
    // A file that cannot be loaded, or an error between tests, fails no test. It must not count as a success.
    if (status !== 0 && failed === 0) console.log("failed: outside the tests, see above");
    return { passed, failed: status === 0 ? failed : Math.max(1, failed), skipped: numPendingTests };
  } catch {
    return { passed: 0, failed: 1, skipped: 0 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The files to look at when `npm test` takes too long. */
function printSlowest(results) {
  const seconds = ({ startTime, endTime }) => (endTime - startTime) / 1000;
  const slowest = results.toSorted((one, other) => seconds(other) - seconds(one)).slice(0, 10);
  console.log("the slowest files:");
  for (const one of slowest) console.log(`${seconds(one).toFixed(1).padStart(8)} s  ${relative(root, one.name)}`);
}

/** Once more at the end, because a long output is read from there. `.ci/run` repeats these lines. */
function printFailed(results) {
  for (const { name, message, assertionResults } of results) {
    const file = relative(root, name);
    if (message !== "") console.log(`failed: ${file}: ${firstLine(message)}`);
    for (const { status, fullName, failureMessages } of assertionResults)
      if (status === "failed") console.log(`failed: ${file}: ${fullName}: ${firstLine(failureMessages.join("\n"))}`);
  }
}

function firstLine(text) {
  return text.split("\n").find((line) => line !== "") ?? "";
}

function run(script, args = [], env = {}) {
  const child = spawnSync(process.execPath, [join(root, script), ...args], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...env },
  });
  return child.status ?? 1;
}
