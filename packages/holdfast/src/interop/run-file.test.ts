import fc from "fast-check";
import { expect, test } from "vitest";
import { openMemoryStore } from "@holdfast/core/store-memory";
import { leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { type RunFile, decodeRunFile, encodeRunFile, isRunFile } from "./run-file.ts";

const store = openMemoryStore();
const lease = await leasedRun(store);
for (let n = 0; n < 3; n++) await save(store, lease, { values: { n, text: "line\n".repeat(3000) } });
const FILE: RunFile = {
  source: { store: store.id, createdAt: "2026-01-01T00:00:00.000Z" },
  stored: await store.exportRun("sample"),
  logs: [{ stageAttempt: 1, step: "impl", lines: ["a", "b\\n"] }],
  objects: {
    format: "sha1",
    refs: [{ ref: "refs/holdfast/sample/1", id: "a".repeat(40) }],
    prerequisites: ["b".repeat(40)],
    pack: Buffer.from("PACK\n\0"),
  },
};
const BYTES = encodeRunFile(FILE);

test("a run file is read back unchanged, and the same run gives the same bytes", () => {
  expect(isRunFile(BYTES)).toBe(true);
  const read = decodeRunFile(BYTES);
  expect({ ...read, objects: { ...read.objects, pack: Buffer.from(read.objects?.pack ?? []) } }).toEqual(FILE);
  expect(encodeRunFile(read).equals(BYTES)).toBe(true);
});

test("a changed, cut, added or moved byte is found", () => {
  const at = fc.integer({ min: 0, max: BYTES.length - 1 });
  fc.assert(
    fc.property(at, fc.integer({ min: 1, max: 255 }), (place, change) => {
      const flipped = Buffer.from(BYTES);
      flipped[place] = (flipped[place] ?? 0) ^ change;
      expect(() => decodeRunFile(flipped)).toThrow(/run file/);
      expect(() => decodeRunFile(BYTES.subarray(0, place))).toThrow(/run file/);
      const longer = Buffer.concat([BYTES.subarray(0, place), Buffer.of(change), BYTES.subarray(place)]);
      if (!longer.subarray(0, BYTES.length).equals(BYTES)) expect(() => decodeRunFile(longer)).toThrow(/run file/);
    }),
  );
  expect(() => decodeRunFile(Buffer.concat([BYTES, Buffer.of(0)]))).toThrow("does not give its digest");
});

test("a newer version is named; any other file is not a run file", () => {
  const newer = Buffer.from(BYTES.toString("latin1").replace("holdfast-run 1", "holdfast-run 2"), "latin1");
  expect(() => decodeRunFile(newer)).toThrow(expect.objectContaining({ code: "FORMAT_TOO_NEW" }));
  expect(isRunFile(Buffer.from('{"holdfast-run": 1}'))).toBe(false);
  expect(isRunFile(Buffer.alloc(0))).toBe(false);
});
