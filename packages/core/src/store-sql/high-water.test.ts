import { fsyncSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { type HeadRecord, openHighWaterMark, slotOffset } from "./high-water.ts";

// The real functions, watched, so that one sync can fail.
vi.mock("node:fs", { spy: true });

const SLOT = 64;

const storeId = "0123456789abcdef0123456789abcdef";

test("the mark gives the newest head of each run, and distinguishes damaged records", () => {
  const directory = scratchDirectory(onTestFinished);
  let n = 0;
  const moves = fc.uniqueArray(fc.integer({ min: 1, max: 140 }), { maxLength: 10 });
  fc.assert(
    fc.property(fc.array(moves, { minLength: 1, maxLength: 5 }), fc.nat(), fc.nat(), (rounds, flip, other) => {
      const path = join(directory, String((n += 1)));
      const newest = new Map<number, HeadRecord>();
      for (const moved of rounds) {
        const heads = moved.map((no) => record(no, (newest.get(no)?.entry ?? 0) + 1));
        note(path, heads);
        for (const head of heads) newest.set(head.run, head);
      }
      const file = openHighWaterMark(path).read();
      if (newest.size === 0) {
        expect(file.kind).toBe("absent");
        return;
      }
      expect(file).toMatchObject({ kind: "read", storeId, damaged: [] });
      expect(heads(path)).toEqual(newest);
      const [no = 1] = newest.keys();
      damage(path, slotOffset(no, 0) + (flip % SLOT));
      damage(path, slotOffset(no, 1) + (other % SLOT));
      const damaged = openHighWaterMark(path).read();
      expect(damaged.kind === "read" ? damaged.damaged : null).toEqual([no]);
    }),
    { numRuns: 30 },
  );
});

describe("a write that a power cut tore is not damage", () => {
  test.each([1, 2, 3, 4])("of a run's record number %i, at every byte: the record before it counts", (count) => {
    const path = join(scratchDirectory(onTestFinished), "high-water");
    for (let entry = 1; entry < count; entry++) note(path, [record(1, entry)]);
    const before = openHighWaterMark(path).read().kind === "absent" ? begun(path) : readFileSync(path);
    note(path, [record(1, count)]);
    const after = readFileSync(path);
    for (const torn of tornBetween(before, after)) {
      writeFileSync(path, torn);
      expect([undefined, record(1, count - 1), record(1, count)].slice(count === 1 ? 0 : 1)).toContainEqual(
        heads(path).get(1),
      );
      note(path, [record(1, count + 1)]);
      expect(heads(path).get(1)).toEqual(record(1, count + 1));
    }
  });

  test("of several runs at once: each has the record before it", () => {
    const path = join(scratchDirectory(onTestFinished), "high-water");
    const together = (entry: number) => [60, 61, 62, 63, 64, 65, 70].map((no) => record(no, entry));
    for (const entry of [1, 2, 3]) note(path, together(entry));
    const before = readFileSync(path);
    note(path, together(4));
    for (const torn of tornBetween(before, readFileSync(path))) {
      writeFileSync(path, torn);
      const found = heads(path);
      expect(found.size).toBe(7);
      for (const { entry } of found.values()) expect([3, 4]).toContain(entry);
    }
  });

  test("of the store's name: the next opening rewrites it", () => {
    const path = join(scratchDirectory(onTestFinished), "high-water");
    const named = begun(path);
    for (let length = 0; length <= named.length; length += length < SLOT || length >= slotOffset(0, 1) ? 1 : 64) {
      writeFileSync(path, named.subarray(0, length));
      openHighWaterMark(path).begin(storeId);
      expect(readFileSync(path)).toEqual(named);
    }
  });

  test("of the sector that holds the store's name too: the other bank names the store", () => {
    const path = join(scratchDirectory(onTestFinished), "high-water");
    for (const entry of [1, 2]) note(path, [record(1, entry), record(2, entry)]);
    const whole = readFileSync(path);
    for (const bank of [0, 1] as const) {
      const bytes = Buffer.from(whole);
      bytes.fill(0xa5, slotOffset(0, bank), slotOffset(3, bank));
      writeFileSync(path, bytes);
      expect([1, 2]).toContain(heads(path).get(1)?.entry);
      note(path, [record(1, 3), record(2, 3)]);
      expect(heads(path).get(2)).toEqual(record(2, 3));
    }
  });
});

test("after a failed sync the store's name is written again before it counts as durable", () => {
  const path = join(scratchDirectory(onTestFinished), "high-water");
  const mark = openHighWaterMark(path);
  vi.mocked(fsyncSync).mockImplementationOnce(() => {
    throw new Error("EIO");
  });
  expect(() => mark.begin(storeId)).toThrow("EIO");
  // The kernel drops what it could not write but still shows it, so nothing of it may be taken for written.
  expect(readFileSync(path)).toHaveLength(0);
  mark.begin(storeId);
  vi.mocked(writeSync).mockClear();
  mark.begin(storeId);
  expect(writeSync).toHaveBeenCalledTimes(2);
});

/** Some first bytes of what was written, and behind them what was there before. */
function* tornBetween(before: Buffer, after: Buffer): Generator<Buffer> {
  const grown = Buffer.alloc(after.length);
  before.copy(grown);
  for (let at = 0; at < after.length; at++) {
    if (at !== 0 && after[at] === grown[at]) continue;
    yield Buffer.concat([after.subarray(0, at), grown.subarray(at)]);
    if (at >= before.length) yield after.subarray(0, at);
  }
}

function record(no: number, entry: number): HeadRecord {
  return { run: no, entry, hash: `${no}`.padStart(4, "0").padEnd(60, "a") + `${entry}`.padStart(4, "0") };
}

function note(path: string, records: readonly HeadRecord[]): void {
  const mark = openHighWaterMark(path);
  mark.note(storeId, records);
  mark.close();
}

function begun(path: string): Buffer {
  openHighWaterMark(path).begin(storeId);
  return readFileSync(path);
}

/** Of a mark in which nothing is damaged. */
function heads(path: string): ReadonlyMap<number, HeadRecord> {
  const file = openHighWaterMark(path).read();
  expect(file).toMatchObject({ kind: "read", storeId, damaged: [] });
  return new Map(file.kind === "read" ? file.heads.map((head) => [head.run, head]) : []);
}

function damage(path: string, at: number): void {
  const bytes = Buffer.alloc(Math.max(at + 1, readFileSync(path).length));
  readFileSync(path).copy(bytes);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}
