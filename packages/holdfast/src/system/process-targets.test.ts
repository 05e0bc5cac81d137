import { expect, test } from "vitest";
import type { Doubt, ProcessEntry } from "./process-table.ts";
import { createCompleteness, findTargets, type Target } from "./process-targets.ts";

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

test("a table is complete when nobody in it can have started somebody unseen", () => {
  const completes = createCompleteness();
  const look = (live: readonly ProcessEntry[], ...doubts: Doubt[]) => completes({ live, doubts });
  const stranger = process(5, 1);
  const ours = process(6, 1, "run");
  expect(look([stranger, ours])).toBe(true);
  // It was read before and was a stranger: its children are strangers too.
  expect(look([ours], { pid: 5, why: "vanished" })).toBe(true);
  expect(look([], { pid: 6, why: "vanished" })).toBe(false);
  expect(look([], { pid: 7, why: "vanished" })).toBe(false);
  // A zombie can have had a child before the first look at it, not after.
  expect(look([], { pid: 8, why: "ended 4" })).toBe(false);
  expect(look([], { pid: 8, why: "ended 4" })).toBe(true);
  // Without any environment it is in the middle of becoming another program, or never had one.
  const blank = process(9, 1);
  expect(look([blank], { pid: 9, why: "blank 4" })).toBe(false);
  expect(look([blank], { pid: 9, why: "blank 4" })).toBe(true);
  expect(look([], { pid: 9, why: "vanished" })).toBe(false);
});
