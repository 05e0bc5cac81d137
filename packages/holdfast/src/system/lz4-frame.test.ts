import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeLz4, isLz4Frame } from "./lz4-frame.ts";
import { packFor } from "./pack.ts";
import { unpack } from "./unpack.ts";
import { xxh32 } from "./xxh32.ts";

const ROOM = 1024 * 1024;
const utf8 = new TextEncoder();
/** Written by the reference program. */
const REFERENCE = Buffer.from("BCJNGGRApxAAAABvaGVsbG8gBgATUGxsbyEKAAAAAAIFKs4=", "base64");
/** The same with a checksum of each block. */
const CHECKED = Buffer.from("BCJNGHRAvRAAAABvaGVsbG8gBgATUGxsbyEKAkxtYQAAAAACBSrO", "base64");
const TEXT = "hello hello hello hello hello hello hello hello!\n";

describe("an LZ4 frame", () => {
  test.each([REFERENCE, CHECKED])("of the reference program is read", (frame) => {
    expect(isLz4Frame(frame)).toBe(true);
    expect(decodeLz4(frame, ROOM)).toEqual({ kind: "read", bytes: new Uint8Array(utf8.encode(TEXT)) });
  });

  test("frames after one another are one text", () => {
    const read = decodeLz4(Buffer.concat([REFERENCE, CHECKED]), ROOM);
    expect(read.kind === "read" && new TextDecoder().decode(read.bytes)).toBe(TEXT + TEXT);
  });

  test("a block that repeats itself is bounded, whatever it claims", () => {
    // One literal, then a match of offset 1 whose length is 255 as often as there are bytes.
    const block = Buffer.concat([Buffer.from([0x1f, 0x61, 1, 0]), Buffer.alloc(60_000, 255), Buffer.from([0])]);
    const bomb = Buffer.concat([REFERENCE.subarray(0, 7), size(block.length), block]);
    expect(decodeLz4(bomb, ROOM)).toEqual({ kind: "refused", why: expect.stringContaining("more than") });
  });

  test("cut anywhere it is refused, never thrown and never half read", () => {
    for (let end = 4; end < REFERENCE.length; end += 1)
      expect(decodeLz4(REFERENCE.subarray(0, end), ROOM).kind).toBe("refused");
  });

  test("with a flipped byte it is refused or reads the same", () => {
    fc.assert(
      fc.property(fc.nat(REFERENCE.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const bent = Buffer.from(REFERENCE);
        bent.writeUInt8(bent.readUInt8(at) ^ flip, at);
        const read = decodeLz4(bent, ROOM);
        if (read.kind === "read") expect(Buffer.from(read.bytes).toString()).toBe(TEXT);
      }),
    );
  });
});

test("xxh32 as published", () => {
  expect(xxh32(new Uint8Array())).toBe(0x02cc5d05);
  expect(xxh32(utf8.encode("abc"))).toBe(0x32d153ff);
  expect(xxh32(utf8.encode("Nobody inspects the spammish repetition"))).toBe(0xe2293b2f);
});

test.each(["x.json", "x.json.gz", "x.json.lz4"])("what is packed for %s is unpacked again", (name) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 5000 }), (bytes) => {
      const read = unpack(packFor(name, utf8.encode(`{${bytes.join()}}`)), ROOM);
      expect(read.kind === "read" && new TextDecoder().decode(read.bytes)).toBe(`{${bytes.join()}}`);
    }),
  );
});

test("a gzip bomb ends at the bound, a cut one is refused", () => {
  const zip = packFor("x.gz", new Uint8Array(10 * ROOM));
  expect(unpack(zip, ROOM)).toEqual({ kind: "refused", why: expect.stringContaining("more than") });
  expect(unpack(zip.subarray(0, 100), ROOM * 20)).toEqual({ kind: "refused", why: "its gzip data is cut off" });
});

function size(length: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(length);
  return bytes;
}
