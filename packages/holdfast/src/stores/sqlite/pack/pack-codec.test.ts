import * as fc from "fast-check";
import { expect, test } from "vitest";
import { bury, fromRecord, isRecord, NO_DIGEST, packChunks, readSlots, toRecord, unpackChunks } from "./pack-codec.ts";
import { referenceBody, referredChunk } from "./root-body.ts";

const chunks = fc.array(
  fc.record({
    digest: fc.stringMatching(/^[0-9a-f]{64}$/),
    bytes: fc.oneof(
      fc.uint8Array({ maxLength: 3000 }),
      fc.string({ maxLength: 400 }).map((text) => Buffer.from(text.repeat(9))),
    ),
  }),
  { maxLength: 12 },
);

test("what is packed comes out again, at any level, also as one record", () => {
  fc.assert(
    fc.property(chunks, fc.constantFrom(1, 3, 12), (list, level) => {
      const packed = packChunks(list, level);
      const record = toRecord(packed);
      expect(isRecord(record)).toBe(true);
      for (const form of [packed, fromRecord(record)]) {
        const found = unpackChunks(form);
        expect(found.map(({ digest }) => digest)).toEqual(list.map(({ digest }) => digest));
        for (const [i, { bytes }] of found.entries())
          expect(Buffer.compare(bytes, list[i]?.bytes ?? Buffer.alloc(0))).toBe(0);
      }
    }),
  );
});

test("damage is refused or unpacked to something else, but never crashes or fills memory", () => {
  fc.assert(
    fc.property(chunks, fc.nat(), fc.integer({ min: 0, max: 7 }), fc.nat(), (list, at, bit, cut) => {
      const record = toRecord(packChunks(list, 1));
      const flipped = Buffer.from(record);
      flipped[at % record.length] = (flipped[at % record.length] ?? 0) ^ (1 << bit);
      for (const damaged of [flipped, record.subarray(0, cut % record.length)]) {
        try {
          if (isRecord(damaged)) unpackChunks(fromRecord(damaged));
        } catch (error) {
          expect(error).toMatchObject({ code: "STORE_CORRUPT" });
        }
      }
    }),
  );
});

test("buried slots keep their place but not their digest", () => {
  const list = [1, 2, 3].map((n) => ({ digest: String(n).repeat(64), bytes: Buffer.from(`chunk ${n}`) }));
  const packed = packChunks(list, 1);
  const slots = readSlots(bury(packed.slots, [1]));
  expect(slots.map(({ digest }) => digest)).toEqual(["1".repeat(64), NO_DIGEST, "3".repeat(64)]);
  expect(Buffer.from(unpackChunks({ ...packed, slots: bury(packed.slots, [1]) })[2]?.bytes ?? []).toString()).toBe(
    "chunk 3",
  );
});

test("a body that refers to a chunk is told from every other kind", () => {
  fc.assert(
    fc.property(fc.nat({ max: Number.MAX_SAFE_INTEGER }), (id) => {
      expect(referredChunk(referenceBody(id))).toBe(id);
    }),
  );
  for (const other of [Buffer.from("{}"), toRecord(packChunks([], 1)), Buffer.alloc(0), Buffer.from([2, 0, 0])])
    expect(referredChunk(other)).toBeUndefined();
});
