import { mkdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { createFacts, createFileFacts } from "./facts.ts";

test("a fact is asked once, and the oldest of too many is asked again; a failure and null are not remembered", async () => {
  const recall = createFacts<string | null>(2);
  const asked: string[] = [];
  const ask = (key: string, answer: string | null = key) =>
    recall(key, async () => {
      asked.push(key);
      return answer;
    });
  expect([await ask("a"), await ask("a"), await ask("b"), await ask("c"), await ask("a")]).toEqual([
    "a",
    "a",
    "b",
    "c",
    "a",
  ]);
  expect(asked).toEqual(["a", "b", "c", "a"]);
  expect([await ask("n", null), await ask("n", null)]).toEqual([null, null]);
  await expect(recall("x", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await ask("x")).toBe("x");
  expect(asked).toEqual(["a", "b", "c", "a", "n", "n", "x"]);
});

test("an answer from files is asked again when one of them changes, appears or vanishes, and while one is new", async () => {
  const folder = scratchDirectory(onTestFinished);
  const [file, later] = [join(folder, "config"), join(folder, "sub/config")];
  let [asked, now] = [0, 0];
  const recall = createFileFacts<number>(
    () => [file, later],
    () => now,
  );
  const ask = () => recall("settings", () => Promise.resolve((asked += 1)));
  writeFileSync(file, "a");
  now = statSync(file).ctimeMs;
  expect([await ask(), await ask()]).toEqual([1, 2]);
  now += 3_600_000;
  expect([await ask(), await ask()]).toEqual([3, 3]);
  const { mtime } = statSync(file);
  writeFileSync(file, "b");
  // A program can set the time of the modification back.
  utimesSync(file, mtime, mtime);
  expect([await ask(), await ask()]).toEqual([4, 4]);
  mkdirSync(join(folder, "sub"));
  writeFileSync(later, "b");
  expect([await ask(), await ask()]).toEqual([5, 5]);
  rmSync(later);
  expect([await ask(), await ask()]).toEqual([6, 6]);
});

test("an answer whose files are unknown is asked for each time", async () => {
  let asked = 0;
  const recall = createFileFacts<number>(() => null);
  const ask = () => recall("settings", () => Promise.resolve((asked += 1)));
  expect([await ask(), await ask()]).toEqual([1, 2]);
});
