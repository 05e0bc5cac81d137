import { expect, test } from "vitest";
import type { ProcessEntry } from "./process-table.ts";
import { findTargets, strangersOf, type Target } from "./process-targets.ts";

const process = (pid: number, parent: number, mark: string | null = null, started = "1"): ProcessEntry => ({
  pid,
  parent,
  mark,
  started,
});

function pidsOf(processes: readonly ProcessEntry[], seen: readonly Target[] = [], spared: readonly number[] = [1]) {
  const targets = findTargets({
    processes,
    mark: "run",
    seen: new Map(seen.map((target) => [target.entry.pid, target])),
    spared: new Set(spared),
  });
  return targets.map((target) => target.entry.pid).toSorted((a, b) => a - b);
}

test("the marked, those below a mark, and what they started, however deep", () => {
  const processes = [
    process(20, 12),
    process(12, 11),
    process(11, 10),
    process(10, 1, "run/1/a"),
    process(13, 1, "run"),
    process(14, 1, "run2/1/a"),
    process(15, 1, "other"),
    process(16, 13, "inner/1/b"),
  ];
  expect(pidsOf(processes)).toEqual([10, 11, 12, 13, 16, 20]);
});

test("the spared are spared, and their children are judged by their own mark", () => {
  const processes = [process(10, 1, "run"), process(11, 10, "run"), process(12, 10), process(13, 11)];
  expect(pidsOf(processes, [], [1, 10])).toEqual([11, 13]);
});

test("once seen, a process stays a target without parent or mark; a later one with its pid is none", () => {
  const seen: Target[] = [{ entry: process(10, 9, null, "5"), foundBy: "parent" }];
  expect(pidsOf([process(10, 1, null, "5")], seen)).toEqual([10]);
  expect(pidsOf([process(10, 1, null, "6")], seen)).toEqual([]);
});

test("only strangers need not be read again", () => {
  const live = [process(5, 1), process(6, 1, "run"), process(7, 6), process(8, 1, "other/1/a"), process(9, 1)];
  const targets: Target[] = [
    { entry: process(6, 1, "run"), foundBy: "mark" },
    { entry: process(7, 6), foundBy: "parent" },
  ];
  const doubts = [
    { pid: 9, why: "blank 1" },
    { pid: 10, why: "vanished" },
  ];
  expect([...strangersOf({ live, doubts }, targets).keys()]).toEqual([5, 8]);
});
