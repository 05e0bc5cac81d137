import { hash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { ChunkShelf, TIMEOUT, runs } from "@holdfast/test-support/core/json-sample";
import type { Hasher, Json } from "../json.ts";
import { ByteWriter } from "./byte-writer.ts";
import { canonicalJson } from "./canonical-json.ts";
import { capture } from "./capture.ts";
import type { Chunk } from "./chunk.ts";
import { decode } from "./decode.ts";
import { digestOf } from "./digest-of.ts";
import { type Encoded, encode } from "./encode.ts";
import { MAX_DEPTH } from "./limits.ts";
import { createMemo } from "./memo.ts";
import { TAGS } from "./page-format.ts";
import { references } from "./references.ts";

const hasher: Hasher = (data) => hash("sha256", data);
/** Every kind of chunk: leaves, pages of both kinds, pages of pages, pieces. */
const SAMPLE: Json = {
  row: Array.from({ length: 900 }, (_, i): Json => (i % 3 === 0 ? i : { i, text: `note ${i} `.repeat(i % 80) })),
  files: Object.fromEntries(Array.from({ length: 400 }, (_, i) => [`file ${i}`, { size: i * 7919 }])),
  text: Array.from({ length: 30_000 }, (_, i) => `${(i * 7919) % 9973}`).join(" "),
  small: { a: [1, 2, 3], 9: null, 10: true, __proto__: "x" },
};

const original = new ChunkShelf();
const encoded = encode({ value: capture(SAMPLE), memo: createMemo(), hasher, sink: original });

/** A fresh copy, to do harm to. */
function sample(): { readonly shelf: ChunkShelf; readonly encoded: Encoded } {
  const shelf = new ChunkShelf();
  for (const [id, chunk] of original.chunks) shelf.chunks.set(id, chunk);
  return { shelf, encoded };
}

function isDeeplyFrozen(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isDeeplyFrozen);
}

function failureOf(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe("decode", () => {
  test("gives deeply frozen values that capture takes as its own", () => {
    const { shelf, encoded } = sample();
    const value = decode({ root: encoded.root, source: shelf });
    expect(canonicalJson(value)).toBe(canonicalJson(SAMPLE));
    expect(isDeeplyFrozen(value)).toBe(true);
    expect(capture(value)).toBe(value);
    expect(capture(SAMPLE, value)).toBe(value);
  });

  test("with a memo, a later encode of the same value reads and hashes nothing", () => {
    const { shelf, encoded } = sample();
    const memo = createMemo();
    const value = decode({ root: encoded.root, source: shelf, memo, check: { hasher, digest: encoded.digest } });
    const refuse: Hasher = () => {
      throw new Error("nothing should be hashed");
    };
    shelf.mark();
    expect(encode({ value, memo, hasher: refuse, sink: shelf })).toEqual(encoded);
    expect(shelf.added.chunks).toBe(0);
  });

  test("with a check, refuses a value that is whole but not the one asked for", () => {
    const { shelf, encoded } = sample();
    const check = { hasher, digest: hasher("another") };
    expect(() => decode({ root: encoded.root, source: shelf, check })).toThrow(/digest/u);
  });
});

describe("damage", () => {
  /** The sample with one chunk (or the root) replaced. */
  function damaged(pick: number, change: (bytes: Uint8Array) => Uint8Array) {
    const { shelf, encoded } = sample();
    const ids = [...shelf.chunks.keys()];
    const id = ids[pick % (ids.length + 1)];
    if (id === undefined) return { source: shelf, root: change(encoded.root.slice()), digest: encoded.digest, id };
    const chunk = shelf.chunks.get(id);
    if (chunk !== undefined) shelf.chunks.set(id, { digest: chunk.digest, bytes: change(chunk.bytes.slice()) });
    return { source: shelf, root: encoded.root, digest: encoded.digest, id };
  }

  const damage = fc.oneof(
    fc.record({ kind: fc.constant("flip" as const), at: fc.nat(), bit: fc.nat(7) }),
    fc.record({ kind: fc.constant("cut" as const), at: fc.nat(), bit: fc.nat(7) }),
    fc.record({ kind: fc.constant("byte" as const), at: fc.nat(12), bit: fc.nat(255) }),
  );

  function hurt(bytes: Uint8Array, how: { kind: "flip" | "cut" | "byte"; at: number; bit: number }): Uint8Array {
    const at = how.at % bytes.length;
    if (how.kind === "cut") return bytes.subarray(0, at);
    bytes[at] = how.kind === "byte" ? how.bit : (bytes[at] ?? 0) ^ (1 << how.bit);
    return bytes;
  }

  test("of any chunk is found, names the chunk, and throws nothing else", TIMEOUT, () => {
    fc.assert(
      fc.property(fc.nat(2000), fc.array(damage, { minLength: 1, maxLength: 3 }), (pick, hows) => {
        let changed = false;
        const { source, root, digest, id } = damaged(pick, (bytes) => {
          const before = bytes.slice();
          const after = hows.reduce(hurt, bytes);
          changed = after.length !== before.length || after.some((byte, i) => byte !== before[i]);
          return after;
        });
        fc.pre(changed);
        for (const error of [
          failureOf(() => decode({ root, source, memo: createMemo(), check: { hasher, digest } })),
          failureOf(() => {
            const found = digestOf({ root, source, hasher });
            if (found !== digest)
              throw new HoldfastError({ code: "STORE_CORRUPT", message: "", data: { chunk: null } });
          }),
        ]) {
          expect(error).toBeInstanceOf(HoldfastError);
          expect(error).toMatchObject({ code: "STORE_CORRUPT" });
          if (id !== undefined) expect(error).toHaveProperty("data.chunk", expect.any(Number));
        }
        // Without a check the damage may go unseen, but never turns into another kind of failure.
        const unchecked = failureOf(() => decode({ root, source }));
        if (unchecked !== undefined) expect(unchecked).toMatchObject({ code: "STORE_CORRUPT" });
        const direct = failureOf(() => references(id === undefined ? root : (source.get(id)?.bytes ?? root)));
        if (direct !== undefined) expect(direct).toMatchObject({ code: "STORE_CORRUPT" });
      }),
      runs(150),
    );
  });

  test("random bytes give STORE_CORRUPT or a value, nothing else", TIMEOUT, () => {
    const bytes = fc.uint8Array({ maxLength: 40 });
    fc.assert(
      fc.property(fc.array(bytes, { maxLength: 5 }), bytes, fc.nat(8), (chunks, tail, tag) => {
        const source = { get: (id: number): Chunk | undefined => chunk(chunks[id]) };
        const root = Uint8Array.of(tag, ...tail);
        for (const error of [
          failureOf(() => decode({ root, source })),
          failureOf(() => digestOf({ root, source, hasher })),
        ]) {
          if (error !== undefined) expect(error).toMatchObject({ code: "STORE_CORRUPT" });
        }
      }),
      runs(1000),
    );
  });

  function chunk(bytes: Uint8Array | undefined): Chunk | undefined {
    return bytes === undefined ? undefined : { digest: hasher(bytes), bytes };
  }

  function written(write: (writer: ByteWriter) => void): Uint8Array {
    const writer = new ByteWriter();
    write(writer);
    return writer.take();
  }

  const json = (text: string): Uint8Array => new TextEncoder().encode(text);
  const upper = (tag: number, level: number, ids: number[]): Uint8Array =>
    written((writer) => {
      writer.byte(tag);
      writer.varint(level);
      writer.ids(ids);
    });
  const array = (text: string, runs: number[], ids: number[]): Uint8Array =>
    written((writer) => {
      writer.byte(TAGS.array);
      writer.sizedText(text);
      writer.varint(runs.length / 2);
      for (const run of runs) writer.varint(run);
      writer.ids(ids);
    });
  const object = (text: string, keys: string, ids: number[]): Uint8Array =>
    written((writer) => {
      writer.byte(TAGS.object);
      writer.sizedText(text);
      writer.sizedText(keys);
      writer.ids(ids);
    });
  /** Each level names the one below 200 times: 200^7 entries in a few hundred bytes. */
  const bomb = [
    array("[1,2]", [], []),
    ...[1, 2, 3, 4, 5, 6, 7].map((n) => upper(TAGS.arrays, n, Array<number>(200).fill(n - 1))),
  ];
  const textBomb = [
    Uint8Array.of(TAGS.piece, ...json("x".repeat(60_000))),
    ...[1, 2, 3].map((n) => upper(TAGS.pieces, n, Array<number>(200).fill(n - 1))),
  ];
  /** Nine arrays of two million elements, none of them too long by itself. */
  const crowd = [
    ...Array.from({ length: 9 }, (_, n) => array(`[${n},2]`, [], [])),
    ...[1, 2, 3].flatMap((level) =>
      Array.from({ length: 9 }, (_, n) => upper(TAGS.arrays, level, Array<number>(100).fill((level - 1) * 9 + n))),
    ),
  ];
  const nested = Array.from({ length: MAX_DEPTH + 5 }, (_, n) => (n === 0 ? json("[1]") : array("", [0, 1], [n - 1])));

  test.each<[string, Uint8Array[], Uint8Array]>([
    ["nothing at all", [], new Uint8Array()],
    ["an unknown tag", [], Uint8Array.of(31)],
    ["a missing chunk", [], array("", [0, 1], [3])],
    ["a chunk in itself", [array("", [0, 1], [0])], array("", [0, 1], [0])],
    ["chunks in each other", [array("", [0, 1], [1]), array("", [0, 1], [0])], array("", [0, 1], [0])],
    ["an array that unfolds without end", bomb, upper(TAGS.arrays, 8, [7])],
    ["a text that unfolds without end", textBomb, upper(TAGS.pieces, 4, [3])],
    [
      "arrays that together unfold too far",
      crowd,
      array(
        "",
        [0, 9],
        Array.from({ length: 9 }, (_, n) => 27 + n),
      ),
    ],
    ["nesting beyond the limit", nested, array("", [0, 1], [MAX_DEPTH + 4])],
    ["nesting beyond the limit inside a leaf", [], json("[".repeat(30_000) + "]".repeat(30_000))],
    ["an endless number", [], Uint8Array.of(TAGS.array, ...Array<number>(30).fill(255))],
    ["a text longer than the chunk", [], Uint8Array.of(TAGS.array, 200, 1, 91)],
    ["an absurd number of runs", [], Uint8Array.of(TAGS.array, 0, 255, 255, 255, 127)],
    ["more inline values named than there are", [json("1")], array("[1]", [5, 1], [0])],
    ["fewer references than the runs say", [json("1")], array("[1]", [1, 3], [0])],
    ["a page without entries", [], array("", [], [])],
    ["pages of another kind", [object('{"a":1}', "", [])], upper(TAGS.arrays, 1, [0])],
    ["pages of another level", [array("[1]", [], []), upper(TAGS.arrays, 1, [0])], upper(TAGS.arrays, 3, [1])],
    ["an upper page over a leaf", [json("[1]")], upper(TAGS.arrays, 1, [0])],
    ["a level of 0", [array("[1]", [], [])], upper(TAGS.arrays, 0, [0])],
    ["keys out of order", [], object('{"b":1,"a":2}', "", [])],
    ["keys out of order in a leaf", [], json('{"b":1,"a":2}')],
    [
      "keys out of order between pages",
      [object('{"b":1}', "", []), object('{"a":1}', "", [])],
      upper(TAGS.objects, 1, [0, 1]),
    ],
    ["a key twice", [json("1")], object('{"a":1}', '["a"]', [0])],
    ["keys that are not strings", [json("1")], object("", "[1]", [0])],
    ["fewer keys than references", [json("1")], object("", '["a"]', [0, 0])],
    ["inline values that are no array", [], array("{}", [], [])],
    ["inline pairs that are no object", [], object("[1]", "", [])],
    ["broken JSON", [], json("[1,")],
    ["a number beyond the finite", [], json("[1e999]")],
    ["a negative zero", [], json("[-0]")],
    ["a lone surrogate, escaped", [], json('["\\ud800"]')],
    ["broken UTF-8", [], Uint8Array.of(0x22, 0xff, 0x22)],
    ["broken UTF-8 in a piece", [Uint8Array.of(TAGS.piece, 0xc3)], upper(TAGS.pieces, 1, [0])],
    ["a reference to a reference", [Uint8Array.of(TAGS.reference, 2), json("1")], Uint8Array.of(TAGS.reference, 0)],
    ["a negative reference", [], Uint8Array.of(TAGS.reference, 1)],
    ["a reference to two chunks", [json("1")], Uint8Array.of(TAGS.reference, 0, 0)],
  ])("%s", TIMEOUT, (_name, chunks, root) => {
    const source = { get: (id: number): Chunk | undefined => chunk(chunks[id]) };
    expect(failureOf(() => decode({ root, source }))).toMatchObject({ code: "STORE_CORRUPT" });
  });

  test.each([
    ["array", bomb, upper(TAGS.arrays, 8, [7])],
    ["text", textBomb, upper(TAGS.pieces, 4, [3])],
  ])("an endless %s is refused before it is unfolded", TIMEOUT, (_name, chunks, root) => {
    const source = { get: (id: number): Chunk | undefined => chunk(chunks[id]) };
    expect(() => decode({ root, source })).toThrow(/it unfolds to more than a value may hold/u);
  });
});

describe("digestOf", () => {
  test("recomputes the digest, and visits no chunk twice across roots", () => {
    const { shelf, encoded } = sample();
    const verified = new Map<number, string>();
    let reads = 0;
    const source = {
      get: (id: number): Chunk | undefined => {
        reads += 1;
        return shelf.get(id);
      },
    };
    expect(digestOf({ root: encoded.root, source, hasher, verified })).toBe(encoded.digest);
    expect(reads).toBe(shelf.chunks.size);
    expect(digestOf({ root: encoded.root, source, hasher, verified })).toBe(encoded.digest);
    expect(reads).toBe(shelf.chunks.size);
  });

  test("names the chunk whose bytes changed", () => {
    const { shelf, encoded } = sample();
    for (const [id, { digest, bytes }] of [...shelf.chunks].filter((_, i) => i % 50 === 0)) {
      const changed = bytes.slice();
      const last = changed.length - 2;
      changed[last] = (changed[last] ?? 0) ^ 1;
      shelf.chunks.set(id, { digest, bytes: changed });
      expect(failureOf(() => digestOf({ root: encoded.root, source: shelf, hasher }))).toMatchObject({
        data: { chunk: id },
      });
      shelf.chunks.set(id, { digest, bytes });
    }
  });
});

describe("references", () => {
  test("reach every chunk from the root, and none beside", () => {
    const { shelf, encoded } = sample();
    const reached = new Set<number>();
    const pending = [...references(encoded.root)];
    for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
      if (reached.has(id)) continue;
      reached.add(id);
      pending.push(...references(shelf.chunks.get(id)?.bytes ?? new Uint8Array()));
    }
    expect(reached).toEqual(new Set(shelf.chunks.keys()));
  });
});
