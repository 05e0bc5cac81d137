import { expect, test } from "vitest";
import { createProgress } from "./progress.ts";

function recorder(terminal: boolean) {
  const written: string[] = [];
  const clock = { now: 0 };
  const progress = createProgress({ write: (text) => written.push(text), terminal, width: 20, now: () => clock.now });
  return { written, clock, progress };
}

test("a terminal has one line, redrawn and then taken away", () => {
  const { written, clock, progress } = recorder(true);
  progress.update("1 of 3");
  progress.update("2 of 3 is too soon");
  clock.now += 200;
  progress.update("3 of 3, and this is far too long for the line");
  progress.done();
  expect(written).toEqual(["\x1b[G\x1b[2K1 of 3", "\x1b[G\x1b[2K3 of 3, and this i…", "\x1b[G\x1b[2K"]);
});

test("elsewhere short work is silent and long work has plain lines", () => {
  const { written, clock, progress } = recorder(false);
  progress.update("1");
  clock.now += 6000;
  progress.update("2");
  progress.done();
  expect(written).toEqual(["2\n"]);
});
