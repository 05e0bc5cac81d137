import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { cleanUpDaily } from "@holdfast/workflows/ralph/layout-upkeep";
import type { LayoutLocation } from "@holdfast/workflows/plugin";
import { LoopLayout } from "@holdfast/workflows/ralph/layout";
import { DEFAULT_LAYOUT } from "@holdfast/workflows/plugin";
import { openMemoryStore } from "@holdfast/core/store-memory";
import { createTestAdapters } from "@holdfast/test-support/core/work-bench";
import { LOOP, beginLoop, names, save } from "./loop-run.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

let root: string;
let now: number;
let place: LayoutLocation;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "holdfast-daily-"));
  now = Date.parse("2026-03-01T12:00:00Z");
  const clock = { now: () => now };
  const { adapters } = createTestAdapters({ store: openMemoryStore({ clock }), clock });
  place = {
    adapters,
    root,
    settings: DEFAULT_LAYOUT,
    limit: 4,
    completing: ["publish", "done"],
    holds: async () => true,
  };
  await beginLoop(adapters);
});
afterEach(() => {
  rmSync(root, { recursive: true });
});

async function iterate(...iterations: readonly number[]): Promise<void> {
  for (const iteration of iterations) {
    now += 1000;
    await save(place.adapters, { iteration });
  }
  await new LoopLayout({ ...place, run: LOOP }).catchUp();
}

const numbers = () => names(root).map((name) => Number(/\d+/.exec(name)?.[0]));

test("at most once a day, for any caller; a clock that goes back does not change that", async () => {
  await iterate(1, 2, 3, 4, 5, 6, 7, 8);
  await cleanUpDaily(place);
  expect(numbers()).toEqual([4, 5, 6, 7, 8]);
  await iterate(9, 10);
  for (const pause of [0, HOUR, 22 * HOUR, -12 * HOUR]) {
    now += pause;
    expect(await cleanUpDaily(place)).toEqual([]);
  }
  expect(numbers()).toEqual([4, 5, 6, 7, 8, 9, 10]);
  now += DAY;
  await cleanUpDaily(place);
  expect(numbers()).toEqual([6, 7, 8, 9, 10]);
});

test("after thirty days all but the newest, and what has a tag", async () => {
  await iterate(1, 2, 3, 4);
  await place.adapters.store.tag({ run: LOOP, sequence: 2, name: "good" });
  now += 29 * DAY;
  await cleanUpDaily(place);
  expect(numbers()).toEqual([1, 2, 3, 4]);
  now += 2 * DAY;
  await cleanUpDaily(place);
  expect(numbers()).toEqual([2, 4]);
  // Nothing that was dropped comes back, however often it is written.
  await iterate(5);
  expect(numbers()).toEqual([2, 4, 5]);
});

test("switched off, nothing is checked", async () => {
  await iterate(1, 2, 3, 4, 5, 6, 7);
  await cleanUpDaily({ ...place, settings: { ...DEFAULT_LAYOUT, mirror: false } });
  expect(numbers()).toHaveLength(7);
});
