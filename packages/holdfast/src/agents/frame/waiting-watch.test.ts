import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { createWaitingWatch } from "./waiting-watch.ts";

test("only lines that say that it waits bring it to an end, however many they are", async () => {
  const watch = createWaitingWatch(40);
  const busy = setInterval(() => watch.line(true), 5);
  watch.signal.addEventListener("abort", () => clearInterval(busy));
  while (!watch.signal.aborted) await pause(5);
});

test("another line calls it off, and so does the end", async () => {
  const watch = createWaitingWatch(20);
  watch.line(true);
  watch.line(false);
  await pause(60);
  watch.line(true);
  watch.stop();
  await pause(60);
  expect(watch.signal.aborted).toBe(false);
});

test("without a time there is no end", async () => {
  const watch = createWaitingWatch(null);
  watch.line(true);
  await pause(30);
  expect(watch.signal.aborted).toBe(false);
});

test("the third prompt in a row that is too long is the end, but not with a tool call in between", () => {
  const watch = createWaitingWatch(null);
  for (let count = 0; count < 5; count += 1) {
    watch.overflow();
    watch.overflow();
    watch.acted();
  }
  expect(watch.signal.aborted).toBe(false);
  for (let count = 0; count < 3; count += 1) watch.overflow();
  expect(watch.signal.aborted).toBe(true);
});
