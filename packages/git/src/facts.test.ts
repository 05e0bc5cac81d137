import { mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
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
  let asked = 0;
  const recall = createFileFacts<number>(() => [file, later]);
  const ask = () => recall("settings", () => Promise.resolve((asked += 1)));
  const age = (path: string) => utimesSync(path, new Date(2020, 0, asked + 1), new Date(2020, 0, asked + 1));
  writeFileSync(file, "a");
  expect([await ask(), await ask()]).toEqual([1, 2]);
  age(file);
  expect([await ask(), await ask()]).toEqual([3, 3]);
  writeFileSync(file, "ab");
  age(file);
  expect([await ask(), await ask()]).toEqual([4, 4]);
  mkdirSync(join(folder, "sub"));
  writeFileSync(later, "b");
  age(later);
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
