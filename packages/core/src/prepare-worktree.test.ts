import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { whySetUp } from "./prepare-worktree.ts";
import { type SetupFacts, compareFacts, compareToolchains, readFacts } from "./toolchain.ts";

const FACTS: SetupFacts = { commands: ["npm ci"], lockfiles: { "package-lock.json": "a" }, node: "22.1.0" };

test("a set-up runs the first time, after an interruption, and when something differs or is gone", () => {
  const done = { facts: FACTS };
  expect(whySetUp({ record: null, facts: FACTS, missing: [] })).toEqual([]);
  expect(whySetUp({ record: { facts: null }, facts: FACTS, missing: [] })).toEqual([]);
  expect(whySetUp({ record: done, facts: FACTS, missing: [] })).toBeNull();
  expect(whySetUp({ record: done, facts: FACTS, missing: ["node_modules"] })).toEqual(["node_modules is missing"]);
  expect(whySetUp({ record: done, facts: { ...FACTS, commands: [] }, missing: [] })).toBeNull();
});

test("each difference is named", () => {
  const now = {
    commands: ["npm ci", "npm run build"],
    lockfiles: { "package-lock.json": "b", "go.sum": "c" },
    node: "24.2.0",
  };
  expect(compareFacts({ ...FACTS, lockfiles: { ...FACTS.lockfiles, "uv.lock": "d" } }, now)).toEqual([
    "go.sum is new",
    "package-lock.json changed",
    "uv.lock is gone",
    "the set-up commands changed",
    "Node 22.1.0 → 24.2.0",
  ]);
});

test("lockfiles count at the root and in packages; a manifest only where no lockfile covers it", () => {
  const root = scratchDirectory(onTestFinished);
  for (const path of [
    "package.json",
    "package-lock.json",
    "web/app/package.json",
    "api/go.mod",
    "api/go.sum",
    "tool/Cargo.toml",
    "node_modules/left/package-lock.json",
    "a/b/c/package-lock.json",
  ]) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), path);
  }
  const { lockfiles } = readFacts(root, []);
  expect(Object.keys(lockfiles).toSorted()).toEqual(["api/go.sum", "package-lock.json", "tool/Cargo.toml"]);
});

test("programs of another version are named; what is unknown on one side is not", () => {
  const before = {
    lockfiles: { "go.sum": "a" },
    setup: "a",
    node: "22.1.0",
    git: "2.43.0",
    agents: { claude: "2.0.1", pi: "1" },
  };
  const now = { lockfiles: {}, setup: null, node: "24.2.0", git: null, agents: { claude: "2.1.0", codex: "3" } };
  expect(compareToolchains(before, now)).toEqual(["Node 22.1.0 → 24.2.0", "claude 2.0.1 → 2.1.0"]);
  expect(compareToolchains(before, { ...before, git: "2.44.0", setup: "b" })).toEqual([
    "git 2.43.0 → 2.44.0",
    "the set-up commands changed",
  ]);
  expect(compareToolchains(before, before)).toEqual([]);
});
