import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { provenNumbers, readPidCount, updateNumbers } from "./pid-reuse.ts";

test("a number is proved until the system has started a cycle of processes", () => {
  const numbers = new Map([
    [10, 100],
    [11, 599],
    [12, 600],
  ]);
  expect([...provenNumbers(numbers, { started: 1099, cycle: 500 })]).toEqual([12]);
  expect([...provenNumbers(numbers, { started: 599, cycle: 500 })]).toEqual([10, 11, 12]);
  // More than half of all numbers are in use.
  expect([...provenNumbers(numbers, { started: 600, cycle: 0 })]).toEqual([]);
});

test("a number that is in use is kept for ever, another one for the next thousand starts", () => {
  let numbers = updateNumbers(new Map(), [10, 11], { started: 100, cycle: 5000 });
  numbers = updateNumbers(numbers, [11], { started: 1099, cycle: 5000 });
  expect([...numbers]).toEqual([
    [10, 100],
    [11, 1099],
  ]);
  numbers = updateNumbers(numbers, [11, 12], { started: 1100, cycle: 5000 });
  expect([...numbers]).toEqual([
    [11, 1100],
    [12, 1100],
  ]);
});

test("the count grows with the processes of the system, and the cycle is part of the numbers", () => {
  const before = readPidCount();
  expect(before.started).toBeGreaterThan(0);
  expect(before.cycle).toBeGreaterThan(1000);
  expect(before.cycle).toBeLessThan(2 ** 22);
  spawnSync("true");
  expect(readPidCount().started).toBeGreaterThanOrEqual(before.started + (process.platform === "linux" ? 1 : 0));
});
