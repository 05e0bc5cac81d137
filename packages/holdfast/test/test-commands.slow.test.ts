import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

/** The test commands themselves, in a copy of the repository that has a handful of tests. */

const root = join(import.meta.dirname, "../../..");
const folder = mkdtempSync(join(tmpdir(), "holdfast-test-commands-"));
const copy = join(folder, "repository");
const GOOD =
  'import { expect, test } from "vitest"; test("good", () => expect(1).toBe(1)); test.skip("later", () => {});';
const BAD = 'import { expect, test } from "vitest"; test("bad", () => expect(1).toBe(2));';

beforeAll(() => {
  for (const name of [".ci", "scripts", "test-agents", "tsconfig.json", "vitest.config.ts", "package.json", "packages"])
    cpSync(join(root, name), join(copy, name), {
      recursive: true,
      filter: (path) => !/node_modules|\/dist$|\.test\.ts$/.test(path),
    });
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  place("core/good.test.ts", GOOD);
  place("cli/good.slow.test.ts", GOOD);
  git("init", "--quiet");
  git("add", ".ci", "scripts");
  git("commit", "--quiet", "--message", "a version");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("npm test and npm run test:slow", () => {
  test("each run their own files and end with the counts", () => {
    expect(run("scripts/test.mjs")).toEqual({ status: 0, last: "1 passed, 0 failed, 1 skipped" });
    expect(run("scripts/test.mjs", "slow", "-t", "good")).toMatchObject({ status: 0 });
    expect(run("scripts/test.mjs", "all")).toEqual({ status: 0, last: "2 passed, 0 failed, 2 skipped" });
  });

  test("fail with a failing test, a file that cannot be loaded, and without any test", () => {
    expect(run("scripts/test.mjs", "-t", "no such test")).toMatchObject({ status: 1 });
    place("core/bad.test.ts", BAD);
    expect(run("scripts/test.mjs")).toEqual({ status: 1, last: "1 passed, 1 failed, 1 skipped" });
    place("core/bad.test.ts", 'import "./missing.ts";');
    expect(run("scripts/test.mjs")).toEqual({ status: 1, last: "1 passed, 1 failed, 1 skipped" });
    rmSync(join(copy, "packages/holdfast/src/core/bad.test.ts"));
  });
});

describe("npm run test:full", () => {
  const full = (...args: readonly string[]) => run("scripts/test-full.mjs", ...args);

  test("continues after an interruption, and counts what passed before", () => {
    place("../test/faults/one.slow.test.ts", GOOD.replace("later", "never"));
    place("../test/faults/two.slow.test.ts", `${BAD} test("fine (1 > 0)", () => {});`);
    expect(full("--list").all).toContain("5 shards, 0 have passed before, 5 left");
    expect(full("--most", "2")).toMatchObject({ status: 0, last: "2 passed, 0 failed, 2 skipped" });
    const second = full();
    expect(second).toMatchObject({ status: 1, last: "4 passed, 1 failed, 2 skipped" });
    expect(second.all).toContain("5 shards, 2 have passed before, 3 left");
    expect(second.all).toContain("failed: packages/holdfast/test/faults/two.slow.test.ts > bad");
    // The failed one is the only one that is run again.
    expect(full("--list").all).toContain("5 shards, 4 have passed before, 1 left");
    expect(full("--list", "--shard", "2/3").all).toMatch(/^2 shards/m);
    expect(full("--shard", "4/3")).toMatchObject({ status: 2 });
  });

  test("begins again when the code has changed", () => {
    writeFileSync(join(copy, ".ci/run"), "changed");
    expect(full("--list").all).toContain("5 shards, 0 have passed before, 5 left");
    git("checkout", "--quiet", ".ci/run");
    expect(full("--list").all).toContain("5 shards, 4 have passed before, 1 left");
  });
});

describe(".ci/run", () => {
  test.each([
    ["3 passed, 0 failed", 0, "2 passed, 0 failed", 0, { status: 0, last: "5 passed, 0 failed" }],
    [
      "3 passed, 0 failed, 1 skipped",
      0,
      "2 passed, 4 failed, 5 skipped",
      1,
      { status: 1, last: "5 passed, 4 failed, 6 skipped" },
    ],
    ["3 passed, 0 failed", 0, "killed", 137, { status: 1, last: "3 passed, 1 failed" }],
    ["3 passed, 0 failed", 1, "2 passed, 0 failed", 0, { status: 1, last: "5 passed, 1 failed" }],
  ])("adds up %s (exit %i) and %s (exit %i)", (fast, fastStatus, slow, slowStatus, expected) => {
    const npm = `#!/bin/sh
      echo "$HOLDFAST_SEED $*" >> "${join(folder, "calls")}"
      case "$*" in
        "test --silent") echo "${fast}"; exit ${fastStatus};;
        "run test:slow --silent") echo "${slow}"; exit ${slowStatus};;
        "run test:mac --silent" | "run test:folding --silent") echo "0 passed, 0 failed";;
      esac`;
    writeFileSync(join(folder, "npm"), npm);
    chmodSync(join(folder, "npm"), 0o755);
    rmSync(join(folder, "calls"), { force: true });
    const { PATH } = process.env;
    const env = { ...environment(), PATH: `${folder}:${PATH}` };
    const ended = spawnSync(join(root, ".ci/run"), { encoding: "utf8", env });
    expect({ status: ended.status, last: ended.stdout.trim().split("\n").at(-1) }).toEqual(expected);
    const calls = readFileSync(join(folder, "calls"), "utf8").trim().split("\n");
    const seed = calls[0]?.split(" ")[0] ?? "";
    expect(seed).toMatch(/^\d+$/);
    const parts = ["test --silent", ...["slow", "mac", "folding"].map((name) => `run test:${name} --silent`)];
    expect(calls).toEqual(["ci", "run check --silent", ...parts].map((call) => `${seed} ${call}`));
  });
});

function place(path: string, text: string): void {
  const file = join(copy, "packages/holdfast/src", path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

function run(script: string, ...args: readonly string[]) {
  const ended = spawnSync(process.execPath, [join(copy, script), ...args], {
    cwd: copy,
    encoding: "utf8",
    env: environment(),
  });
  const all = ended.stdout + ended.stderr;
  const found = { status: ended.status, last: ended.stdout.trim().split("\n").at(-1) };
  // Only for messages: two results are equal when status and last line are.
  Object.defineProperty(found, "all", { value: all });
  return found as typeof found & { readonly all: string };
}

/** Without what the outer test run has set. Nothing is built and nothing installed: this is about counting. */
function environment(): NodeJS.ProcessEnv {
  const outer = /^(HOLDFAST_|VITEST|npm_|NODE_OPTIONS)/;
  const kept = Object.entries(process.env).filter(([name]) => !outer.test(name));
  return { ...Object.fromEntries(kept), HOLDFAST_TEST_DIST: folder, HOLDFAST_INSTALL: "0", NO_COLOR: "1" };
}

function git(...args: readonly string[]): void {
  const identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
  const { status, stderr } = spawnSync("git", [...identity, ...args], { cwd: copy, encoding: "utf8" });
  if (status !== 0) throw new Error(`git ${args.join(" ")}: ${stderr}`);
}
