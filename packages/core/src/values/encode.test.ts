import { hash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  ChunkShelf,
  TIMEOUT,
  applyEdits,
  arbitraryEdits,
  arbitraryJson,
  cloneJson,
  runs,
} from "@holdfast/test-support/core/json-sample";
import type { Hasher, Json } from "../json.ts";
import { canonicalJson } from "./canonical-json.ts";
import { capture } from "./capture.ts";
import { decode } from "./decode.ts";
import { type Encoded, encode } from "./encode.ts";
import { MAX_DEPTH } from "./limits.ts";
import { type Memo, createMemo } from "./memo.ts";

const hasher: Hasher = (data) => hash("sha256", data);
const utf8Length = (text: string): number => new TextEncoder().encode(text).length;

function freshly(value: Json, sink = new ChunkShelf()): Encoded {
  return encode({ value: capture(value), memo: createMemo(), hasher, sink });
}

/** One store over time: each save is captured on the one before. */
class Saver {
  readonly shelf = new ChunkShelf();
  readonly memo: Memo = createMemo();
  #last: Json | undefined;

  save(live: Json): Encoded {
    this.#last = capture(live, this.#last);
    this.shelf.mark();
    return encode({ value: this.#last, memo: this.memo, hasher, sink: this.shelf });
  }
}

function readBack(encoded: Encoded, source: ChunkShelf): Json {
  return decode({ root: encoded.root, source, check: { hasher, digest: encoded.digest } });
}

describe("encode and decode", () => {
  test("give the value back, and its true length", TIMEOUT, () => {
    fc.assert(
      fc.property(arbitraryJson(), (value) => {
        const shelf = new ChunkShelf();
        const encoded = freshly(value, shelf);
        expect(canonicalJson(readBack(encoded, shelf))).toBe(canonicalJson(value));
        expect(encoded.logicalBytes).toBe(utf8Length(canonicalJson(value)));
      }),
      runs(150),
    );
  });

  test("a small state is its canonical JSON, and the digest the plain hash of it", () => {
    const value = { b: [1, 2, "é"], a: null };
    const encoded = freshly(value);
    expect(new TextDecoder().decode(encoded.root)).toBe(canonicalJson(value));
    expect(encoded.digest).toBe(hasher(canonicalJson(value)));
  });

  test("a value that was never captured is captured first", () => {
    const shelf = new ChunkShelf();
    const live = { z: 1, a: "x".repeat(9000) };
    const encoded = encode({ value: live, memo: createMemo(), hasher, sink: shelf });
    live.z = 2;
    expect(readBack(encoded, shelf)).toEqual({ z: 1, a: "x".repeat(9000) });
  });

  test.each([
    ["an empty array", []],
    ["a string of a leaf's size", "s".repeat(5000)],
    ["a string of many pieces", "zwölf Boxkämpfer 😀 ".repeat(9000)],
    ["a string that begins with a byte order mark", `\ufeff${"\ufeff x".repeat(40_000)}`],
    ["an array of long strings", Array.from({ length: 300 }, (_, i) => `${i} `.repeat(400))],
    ["an array of equal elements", Array.from({ length: 20_000 }, () => 0)],
    ["an object with one huge key", { ["k".repeat(100_000)]: 1, a: "x".repeat(5000) }],
    ["many integer-like keys", Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [String(i * 7), { i }]))],
    ["a long string of characters to escape", '\u0001\u001f"\\\n\t é'.repeat(20_000)],
    ["control characters only", { a: "\u0001".repeat(4000), b: ["\u0002".repeat(600), ["\u0003".repeat(700)]] }],
  ])("%s", (_name, value) => {
    const shelf = new ChunkShelf();
    const encoded = freshly(value, shelf);
    expect(canonicalJson(readBack(encoded, shelf))).toBe(canonicalJson(value));
    expect(encoded.logicalBytes).toBe(utf8Length(canonicalJson(value)));
  });

  test.each([
    ["every level long", "x".repeat(4200), "core"],
    ["every level longer than it seems", "\u0001".repeat(700), "core"],
    ["only the core long, and longer than it seems", "", "\u0001".repeat(700)],
  ])("nesting to the very limit, %s", (_name, filler, core) => {
    let value: Json = core;
    for (let i = 0; i < MAX_DEPTH; i += 1) {
      if (filler === "") value = [value];
      else value = i % 2 === 0 ? { filler, value } : [filler, value];
    }
    const saver = new Saver();
    const encoded = saver.save(value);
    expect(encoded.digest).toBe(freshly(value).digest);
    expect(canonicalJson(readBack(encoded, saver.shelf))).toBe(canonicalJson(value));
  });
});

describe("the digest", () => {
  test("does not hang on the history of edits, nor on the memo or the ids", TIMEOUT, () => {
    fc.assert(
      fc.property(arbitraryJson(), fc.array(arbitraryEdits(), { maxLength: 5 }), (live, rounds) => {
        const saver = new Saver();
        saver.save(live);
        for (const edits of rounds) {
          applyEdits(live, edits);
          const encoded = saver.save(live);
          const fresh = freshly(cloneJson(live), new ChunkShelf({ first: 1_000_000, stride: -7 }));
          expect(encoded.digest).toBe(fresh.digest);
          expect(encoded.logicalBytes).toBe(fresh.logicalBytes);
          expect(canonicalJson(readBack(encoded, saver.shelf))).toBe(canonicalJson(live));
        }
      }),
      runs(120),
    );
  });

  test("is equal for equal values and differs for different ones", TIMEOUT, () => {
    fc.assert(
      fc.property(arbitraryJson(), arbitraryEdits(), (value, edits) => {
        const other = cloneJson(value);
        applyEdits(other, edits);
        const same = canonicalJson(value) === canonicalJson(other);
        expect(freshly(value).digest === freshly(other).digest).toBe(same);
      }),
      runs(100),
    );
  });

  test("is fixed: stores are compared by it across versions", () => {
    const row = Array.from({ length: 1000 }, (_, i) => ({ id: i, text: `message ${i} `.repeat(i % 90) }));
    const object = Object.fromEntries(row.map((entry) => [`key ${entry.id}`, entry]));
    const text = Array.from({ length: 60_000 }, (_, i) => `${(i * 7919) % 9973}`).join(" ");
    expect([row, object, text].map((value) => freshly(value).digest)).toEqual(GOLDEN);
  });
});

describe("a long text in a frame", () => {
  const framed = (id: number, length: number): Json => ({
    id,
    content: [{ type: "text", text: `${id} `.repeat(length / 2) }],
  });
  const chunksOf = (value: Json): number => {
    const shelf = new ChunkShelf();
    freshly(value, shelf);
    return shelf.added.chunks;
  };

  test("is one chunk as an element of an array, and only there", () => {
    const [one, two] = [framed(1, 8000), framed(2, 8000)];
    expect(chunksOf([one, two])).toBe(2);
    expect(chunksOf({ one, two })).toBeGreaterThan(4);
    expect(chunksOf([framed(1, 20_000), framed(2, 20_000)])).toBeGreaterThan(4);
    expect(chunksOf([{ one }, { two, more: "x".repeat(1100) }])).toBeGreaterThan(3);
  });

  test("has the same digest whichever place it was met in first", () => {
    const message = capture(framed(1, 8000));
    const list = [message, ...messages(0, 20)];
    const values: readonly Json[] = [{ list }, { message }, { list, message }, message, [[message], list]];
    const expected = values.map((value) => freshly(cloneJson(value)).digest);
    for (const order of [
      [0, 1, 2, 3, 4],
      [3, 1, 0, 2, 4],
      [4, 2, 1, 0, 3],
    ]) {
      const memo = createMemo();
      const sink = new ChunkShelf();
      for (const at of order) {
        expect(encode({ value: capture(values[at]), memo, hasher, sink }).digest).toBe(expected[at]);
      }
    }
  });

  test("is known again after reading back, in either place", () => {
    const saver = new Saver();
    const first = saver.save({ list: [framed(1, 8000), ...messages(0, 20)] });
    const memo = createMemo();
    const read = decode({ root: first.root, source: saver.shelf, memo, check: { hasher, digest: first.digest } });
    const { list } = read as { readonly list: readonly Json[] };
    const [message = null] = list;
    for (const next of [{ list: [...list, 1] }, { list, message }, { message }]) {
      const encoded = encode({ value: capture(next, read), memo, hasher, sink: saver.shelf });
      expect(encoded.digest).toBe(freshly(cloneJson(next)).digest);
      expect(readBack(encoded, saver.shelf)).toEqual(next);
    }
  });
});

const GOLDEN = [
  "e882f574af11461a3bce33153cc3de3a3fdccc10452448a2c07d0ff3b7c62ea5",
  "619bd1ec6c8de3810328c42836faa6c68460381901e8b76355750c94205a1d1e",
  "ddeb259123266bf122385b687c8de4b09d5a57411a67941e3d0470e14cc92896",
];

const messages = (from: number, to: number): Json[] =>
  Array.from({ length: to - from }, (_, i) => ({
    role: "user",
    id: from + i,
    content: `message ${from + i} `.repeat(60),
  }));
const notes = (from: number, to: number): Json[] =>
  Array.from({ length: to - from }, (_, i) => ({ id: from + i, note: `a short note ${(from + i) * 7919}` }));

describe.each([
  ["long elements", messages],
  ["short elements", notes],
])("chunks after a change to 5,000 %s", (_name, row) => {
  const BASE = row(0, 5000);
  /** New chunks beside the new elements' own: the pages from the changed place up to the root. */
  const PAGES = 10;

  test.each([
    ["append", [...BASE, ...row(9000, 9005)], 5],
    ["front trim", BASE.slice(70), 0],
    ["front trim and append", [...BASE.slice(300), ...row(9000, 9005)], 5],
    ["an element replaced in the middle", BASE.with(2500, row(9000, 9001)[0] ?? null), 1],
    ["insertion in the middle", BASE.toSpliced(2500, 0, ...row(9000, 9003)), 3],
    ["removal in the middle", BASE.toSpliced(2500, 8), 0],
    ["cut at the end", BASE.slice(0, 3333), 0],
  ])("%s", (_change, next, fresh) => {
    const saver = new Saver();
    saver.save({ row: BASE, step: 1 });
    const encoded = saver.save({ row: next, step: 2 });
    expect(saver.shelf.added.chunks).toBeLessThanOrEqual(fresh + PAGES);
    expect(canonicalJson(readBack(encoded, saver.shelf))).toBe(canonicalJson({ row: next, step: 2 }));
    expect(encoded.digest).toBe(freshly({ row: next, step: 2 }).digest);
  });

  test("the same after reading back, as after a restart", () => {
    const saver = new Saver();
    const first = saver.save({ row: BASE, step: 1 });
    const memo = createMemo();
    const read = decode({ root: first.root, source: saver.shelf, memo, check: { hasher, digest: first.digest } });
    const next = { row: [...BASE.slice(9), ...row(9000, 9005)], step: 2 };
    let hashes = 0;
    const counting: Hasher = (data) => {
      hashes += 1;
      return hasher(data);
    };
    saver.shelf.mark();
    const encoded = encode({ value: capture(next, read), memo, hasher: counting, sink: saver.shelf });
    expect(encoded.digest).toBe(freshly(next).digest);
    expect(saver.shelf.added.chunks).toBeLessThanOrEqual(5 + PAGES);
    expect(hashes).toBeLessThanOrEqual(5 + PAGES);
  });
});

test("a change to a very long row hashes its own page and those above, on every level", () => {
  const live = notes(0, 60_000);
  const memo = createMemo();
  const shelf = new ChunkShelf();
  const first = capture(live);
  encode({ value: first, memo, hasher, sink: shelf });
  let hashes = 0;
  const counting: Hasher = (data) => {
    hashes += 1;
    return hasher(data);
  };
  live[30_000] = "changed";
  encode({ value: capture(live, first), memo, hasher: counting, sink: shelf });
  // Four levels, and two pages on each where a cut moved.
  expect(hashes).toBeLessThanOrEqual(8);
});

describe("chunks after a change to many keys", () => {
  const keys = (count: number): Record<string, Json> =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`path/to/file-${(i * 7919) % 100_003}`, { size: i }]));

  test.each([
    ["a value changed", (object: Record<string, Json>) => void (object["path/to/file-7919"] = { size: -1 })],
    ["a key added", (object: Record<string, Json>) => void (object["path/to/file-new"] = { size: 1 })],
    ["a key removed", (object: Record<string, Json>) => void Reflect.deleteProperty(object, "path/to/file-7919")],
  ])("%s", (_name, change) => {
    const live = keys(8000);
    const saver = new Saver();
    saver.save(live);
    change(live);
    const encoded = saver.save(live);
    expect(saver.shelf.added.chunks).toBeLessThanOrEqual(6);
    expect(encoded.digest).toBe(freshly(live).digest);
  });
});

describe("chunks after a change to a long string", () => {
  const text = Array.from({ length: 120_000 }, (_, i) => `${(i * 7919) % 9973}`).join(" ");

  test("an edit in the middle costs the piece it is in, and the pages above", () => {
    const saver = new Saver();
    saver.save({ text });
    const middle = text.length >> 1;
    const encoded = saver.save({ text: `${text.slice(0, middle)}INSERTED${text.slice(middle)}` });
    expect(saver.shelf.added.chunks).toBeLessThanOrEqual(4);
    expect(encoded.digest).toBe(freshly({ text: `${text.slice(0, middle)}INSERTED${text.slice(middle)}` }).digest);
  });

  test("beside a change elsewhere it is not even read", () => {
    const shelf = new ChunkShelf();
    const memo = createMemo();
    const first = capture({ text, short: "x".repeat(600), n: 1 });
    encode({ value: first, memo, hasher, sink: shelf });
    let hashed = 0;
    const counting: Hasher = (data) => {
      hashed += data.length;
      return hasher(data);
    };
    const next = capture({ text, short: "x".repeat(600), n: 2 }, first);
    encode({ value: next, memo, hasher: counting, sink: shelf });
    expect(hashed).toBeLessThan(1000);
  });
});
