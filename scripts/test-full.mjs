// npm run test:full: every point of every sweep (HOLDFAST_FULL=1). That takes many hours, so it runs in shards and remembers the finished
// ones in .tmp/test-full.json: interrupted, the same command continues with the next shard.
//   npm run test:full                      every shard that has not passed yet at this commit
//   npm run test:full -- --shard 2/4       only each fourth of them, beginning with the second, for several machines
//   npm run test:full -- --only faults     only test files whose path contains the text
//   npm run test:full -- --most 3          stop after three shards
//   npm run test:full -- --list            print what is left and run nothing
//   npm run test:full -- --restart         forget what has passed
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values } = parseArgs({
  options: {
    shard: { type: "string" },
    only: { type: "string" },
    most: { type: "string" },
    list: { type: "boolean" },
    restart: { type: "boolean" },
    state: { type: "string" },
  },
});
const [index, of] = shardNumbers(values.shard ?? "1/1");
const most = Number(values.most ?? Infinity);
const stateFile = values.state ?? join(root, ".tmp/test-full.json");
// Files in these folders have few tests that each take long: there a shard is a test, elsewhere a file.
const SPLIT = /\/test\/(faults|endurance)\//;

const version = versionOfTree();
const state = readState();
const shards = listShards().filter((_, at) => at % of === index - 1);
const waiting = shards.filter((shard) => state.passed[shard.name] === undefined);
console.log(`${shards.length} shards, ${shards.length - waiting.length} have passed before, ${waiting.length} left`);
if (values.list) {
  for (const { name } of waiting) console.log(`  ${name}`);
  process.exit(0);
}

const total = { passed: 0, failed: 0, skipped: 0 };
for (const shard of shards) if (state.passed[shard.name] !== undefined) add(state.passed[shard.name]);
const failed = [];
for (const shard of waiting.slice(0, most)) {
  console.log(`\n── ${shard.name}`);
  const counts = runShard(shard);
  add(counts);
  if (counts.failed === 0) {
    state.passed[shard.name] = counts;
    writeState();
  } else failed.push(shard.name);
}
const left = waiting.filter(({ name }) => state.passed[name] === undefined && !failed.includes(name));
for (const name of failed) console.log(`failed: ${name}`);
for (const { name } of left) console.log(`not run yet: ${name}`);
if (left.length > 0) console.log(`${left.length} of ${shards.length} shards are left; the same command continues`);
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : "";
console.log(`${total.passed} passed, ${total.failed} failed${skipped}`);
process.exit(total.failed === 0 ? 0 : 1);

function shardNumbers(text) {
  const match = /^(\d+)\/(\d+)$/.exec(text);
  const [one, count] = [Number(match?.[1]), Number(match?.[2])];
  if (!(one >= 1 && one <= count)) {
    console.error(`--shard ${text}: expected two numbers such as 2/4`);
    process.exit(2);
  }
  return [one, count];
}

/** All files that are not slow together; then each slow file, or each of its tests. */
function listShards() {
  const files = list(["--filesOnly"]).map(({ file }) => file);
  const slow = files.filter((file) => file.endsWith(".slow.test.ts"));
  const split = slow.filter((file) => SPLIT.test(file));
  const tests = split.length === 0 ? [] : list(["--no-static-parse", ...split]);
  const others = files.length > slow.length ? [{ name: "all files that are not slow" }] : [];
  const whole = slow.filter((file) => !SPLIT.test(file)).map((file) => ({ name: relative(root, file), file }));
  const single = tests.map(({ file, name }) => ({ name: `${relative(root, file)} > ${name}`, file, test: name }));
  return [...others, ...whole, ...single];
}

function list(args) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-full-"));
  const output = join(folder, "list.json");
  try {
    const filter = values.only === undefined || args.length > 1 ? [] : [values.only];
    const status = vitest(["list", ...args, ...filter, `--json=${output}`]);
    if (status !== 0) throw new Error(`vitest list ended with ${status}`);
    return JSON.parse(readFileSync(output, "utf8"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function runShard({ file, test }) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-full-"));
  const report = join(folder, "report.json");
  // vitest joins the names of suites and test with " > " in its list, and with a space where it filters. A name may hold " > " too.
  const pattern = test === undefined ? undefined : `^${test.split(" > ").map(escape).join("(?: > | )")}$`;
  const filter = pattern === undefined ? [] : ["-t", pattern];
  const files = file !== undefined ? [file] : values.only === undefined ? [] : [values.only];
  const env = { HOLDFAST_TESTS: file === undefined ? "fast" : "slow" };
  const args = ["run", ...files, ...filter, "--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const status = vitest(args, env);
  try {
    const { testResults } = JSON.parse(readFileSync(report, "utf8"));
    // Tests that the filter leaves out are in the report too.
    const found = testResults
      .flatMap(({ assertionResults }) => assertionResults)
      .filter(({ fullName }) => pattern === undefined || new RegExp(pattern).test(fullName));
    const count = (...kinds) => found.filter((one) => kinds.includes(one.status)).length;
    const [passed, failures] = [count("passed"), count("failed")];
    // A filter that finds no test must not count as a success.
    const failed = status === 0 && found.length > 0 ? failures : Math.max(1, failures);
    return { passed, failed, skipped: found.length - passed - failures };
  } catch {
    return { passed: 0, failed: 1, skipped: 0 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function vitest(args, env = {}) {
  const child = spawnSync(process.execPath, [join(root, "node_modules/vitest/vitest.mjs"), ...args], {
    cwd: root,
    stdio: "inherit",
    // Some names of tests have the seed in them; with another one they would be other shards.
    env: { HOLDFAST_SEED: "1", ...process.env, HOLDFAST_FULL: "1", ...env },
  });
  if (child.signal !== null || child.status === 130) process.exit(130);
  return child.status ?? 1;
}

function add(counts) {
  for (const kind of Object.keys(total)) total[kind] += counts[kind];
}

function escape(text) {
  return text.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}

/** What passed says something about this version only: the commit and what was changed since. */
function versionOfTree() {
  const git = (...args) => spawnSync("git", args, { cwd: root, encoding: "utf8", maxBuffer: 2 ** 28 }).stdout;
  return createHash("sha256").update(git("rev-parse", "HEAD")).update(git("diff", "HEAD")).digest("hex").slice(0, 16);
}

function readState() {
  const fresh = { version, passed: {} };
  if (values.restart) return fresh;
  try {
    const known = JSON.parse(readFileSync(stateFile, "utf8"));
    return known.version === version ? known : fresh;
  } catch {
    return fresh;
  }
}

function writeState() {
  mkdirSync(dirname(stateFile), { recursive: true });
  writeFileSync(`${stateFile}.new`, JSON.stringify(state, null, 2));
  renameSync(`${stateFile}.new`, stateFile);
}
