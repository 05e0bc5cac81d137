import * as fc from "fast-check";
import { expect, test } from "vitest";
import { createFrames, frameLength, isLong, readFrame, readPlace, splitFrames } from "./frames.ts";
import type { CheckpointColumns, LogRow } from "../log.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { ENTRY_KINDS } from "@holdfast/core/journal";
import { TRIGGERS } from "@holdfast/core/checkpoint";

const digest = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString("hex"));
const natural = fc.nat({ max: Number.MAX_SAFE_INTEGER });
const words = fc.string({ unit: "grapheme", maxLength: 40 });
const real = fc.double({ noNaN: true });

const columns: fc.Arbitrary<CheckpointColumns> = fc.record({
  // Checkpoints are counted from one; zero is told as damage.
  sequence: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  trigger: fc.constantFrom(...TRIGGERS),
  name: fc.option(words),
  stage: words,
  iteration: real,
  score: fc.option(real),
  tree: fc.option(words),
  origin: fc.option(words),
  parent: fc.option(digest),
  root: digest,
  logical: natural,
  added: natural,
});

interface Sample {
  readonly row: Omit<LogRow, "pos">;
  readonly body: string | Uint8Array;
}

const common = {
  run: natural,
  entry: natural,
  at: fc.integer({ min: -1e12, max: 4e12 }),
  epoch: natural,
  hash: digest,
};
const kind = fc.oneof(
  fc.constantFrom(...ENTRY_KINDS.filter((one) => one !== "checkpoint")),
  words.map((word) => `x.${word}` as const),
);
const samples: fc.Arbitrary<Sample> = fc.oneof(
  fc
    .tuple(fc.record({ ...common, kind, checkpoint: fc.constant(null) }), fc.string({ unit: "grapheme" }))
    .map(([row, body]) => ({ row, body })),
  fc
    .tuple(fc.record({ ...common, kind: fc.constant("checkpoint" as const), checkpoint: columns }), fc.uint8Array())
    .map(([row, body]) => ({ row, body })),
);

function fill(list: readonly Sample[], first: number): { readonly bytes: Buffer; readonly rows: readonly LogRow[] } {
  const frames = createFrames();
  const rows = list.map(({ row }, i) => ({ ...row, pos: first + i }));
  for (const [i, row] of rows.entries()) {
    const body = list[i]?.body ?? "";
    expect(frames.hasRoom(frameLength(row, body))).toBe(true);
    frames.add(row, body);
  }
  expect(frames.count()).toBe(list.length);
  expect(frames.checkpoints()).toBe(rows.filter((row) => row.checkpoint !== null).length);
  return { bytes: Buffer.from(frames.bytes()), rows };
}

test("entries come out of frames as they went in, with their places", () => {
  fc.assert(
    fc.property(fc.array(samples, { minLength: 1, maxLength: 8 }), fc.nat(), (list, first) => {
      const { bytes, rows } = fill(list, first);
      const split = splitFrames(bytes, { first, count: list.length });
      for (const [i, frame] of split.entries()) {
        const row = rows[i];
        const read = readFrame(frame, first + i);
        expect(read.row).toEqual(row);
        expect(typeof read.body === "string" ? read.body : Buffer.from(read.body)).toEqual(
          typeof list[i]?.body === "string" ? list[i]?.body : Buffer.from(list[i]?.body ?? ""),
        );
        const { run, entry } = row ?? {};
        expect(readPlace(frame, first + i)).toEqual({
          pos: first + i,
          run,
          entry,
          sequence: row?.checkpoint?.sequence ?? null,
        });
      }
    }),
  );
});

test("what was staged is the body of the next entry, also when another was staged before", () => {
  const frames = createFrames();
  const row: LogRow = {
    pos: 1,
    run: 1,
    entry: 1,
    kind: "note",
    at: 0,
    epoch: 1,
    hash: "a".repeat(64),
    checkpoint: null,
  };
  frames.stage("never used, and longer than the next");
  expect(Buffer.from(frames.stage("ä😀")).toString()).toBe("ä😀");
  frames.add(row, frames.stage("ä😀"));
  frames.add(row, "another");
  const read = splitFrames(frames.bytes(), { first: 1, count: 2 }).map((frame) => readFrame(frame, 1).body);
  expect(read).toEqual(["ä😀", "another"]);
});

test("there is room for any first entry that is not long, in the widest of letters", () => {
  const row: LogRow = {
    pos: 1,
    run: 1,
    entry: 1,
    kind: "note",
    at: 0,
    epoch: 1,
    hash: "a".repeat(64),
    checkpoint: null,
  };
  let length = 0;
  while (!isLong(frameLength(row, "€".repeat(length + 1)))) length += 1;
  const frames = createFrames();
  for (let n = 1; frames.hasRoom(frameLength(row, "€".repeat(length))); n++) {
    frames.add(row, "€".repeat(length));
    const read = splitFrames(frames.bytes(), { first: 1, count: n }).map((frame) => readFrame(frame, 1).body);
    expect(read).toEqual(Array.from({ length: n }, () => "€".repeat(length)));
  }
  expect(frames.count()).toBeGreaterThan(0);
});

test("frames that were cut or scribbled over are told as damage, or read", () => {
  fc.assert(
    fc.property(
      fc.array(samples, { minLength: 1, maxLength: 3 }),
      fc.nat(),
      fc.nat({ max: 255 }),
      fc.boolean(),
      (list, where, value, cut) => {
        const { bytes } = fill(list, 1);
        const at = where % bytes.length;
        const broken = cut ? bytes.subarray(0, at) : Buffer.from(bytes).fill(value, at, at + 1);
        try {
          for (const [i, frame] of splitFrames(broken, { first: 1, count: list.length }).entries())
            readFrame(frame, 1 + i);
          if (cut) expect.unreachable("a cut went unnoticed");
        } catch (error) {
          expect(error).toBeInstanceOf(HoldfastError);
          expect(error).toMatchObject({ code: "STORE_CORRUPT" });
        }
      },
    ),
  );
});
