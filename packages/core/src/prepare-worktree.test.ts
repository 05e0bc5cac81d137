import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { type SetupFacts, compareFacts, readFacts, whySetUp } from "./prepare-worktree.ts";

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
