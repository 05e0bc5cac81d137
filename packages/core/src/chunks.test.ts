import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { applyEdits, arbitraryEdits, arbitraryJson, cloneJson } from "@holdfast/test-support/core/json-sample";
import { type EncodedValue, createValueMemory, decodeValue, encodeValue, packText, unpackText } from "./chunks.ts";
import type { Json } from "./json.ts";
import { canonicalJson, capture } from "./values.ts";

function decode(encoded: EncodedValue): Promise<Json> {
  const shelf = new Map(encoded.chunks.map(({ digest, text }) => [digest, text]));
  return decodeValue(encoded.root, async (digests) => new Map(digests.flatMap((one) => pair(one, shelf.get(one)))));
}

function pair(digest: string, text: string | undefined): [string, string][] {
  return text === undefined ? [] : [[digest, text]];
}

test("a value is read back as it was saved, whatever it is", async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryJson(), async (value) => {
      const read = await decode(encodeValue(value));
      expect(canonicalJson(read)).toBe(canonicalJson(value));
      expect(capture(read)).toBe(read);
    }),
    { numRuns: 100 },
  );
});

test("cached earlier states change no result, and every change of a live object is seen", async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryJson(), fc.array(arbitraryEdits(), { maxLength: 3 }), async (first, rounds) => {
      const live = cloneJson(first);
      const memory = createValueMemory();
      for (const edits of [[], ...rounds]) {
        applyEdits(live, edits);
        const encoded = encodeValue(live, memory);
        expect(encoded.root).toBe(encodeValue(cloneJson(live)).root);
        expect(encoded.bytes).toBe(encodeValue(cloneJson(live)).bytes);
        expect(canonicalJson(await decode(encoded))).toBe(canonicalJson(live));
      }
    }),
    { numRuns: 80 },
  );
});

test("keys that look like references are kept", async () => {
  const value = {
    $c: "x".repeat(43),
    $l: [1, "y".repeat(43)],
    $$c: 1,
    $: null,
    long: Array.from({ length: 300 }, (_, i) => ({ $ref: `#/${i}`, $t: [1], text: "z".repeat(40) })),
  };
  expect(await decode(encodeValue(value))).toEqual(value);
});

describe("the cost of a save follows the change", () => {
  const messages = Array.from({ length: 1000 }, (_, i) => ({ role: "user", text: `${i} `.repeat(200) }));

  test("of a list that grows", () => {
    const memory = createValueMemory();
    const before = new Set(encodeValue({ messages }, memory).chunks.map(({ digest }) => digest));
    const grown = [...messages, { role: "agent", text: "new ".repeat(200) }];
    const added = encodeValue({ messages: grown }, memory).chunks.filter(({ digest }) => !before.has(digest));
    expect(added.length).toBeLessThan(10);
    const changed = grown.toSpliced(500, 1);
    const again = encodeValue({ messages: changed }, memory).chunks.filter(({ digest }) => !before.has(digest));
    expect(again.length).toBeLessThan(16);
  });

  test("of a text that grows at its end, or is edited in its middle", async () => {
    const memory = createValueMemory();
    const lines = Array.from({ length: 20_000 }, (_, i) => `line ${i} of the transcript, ${(i * 7919) % 1000}\n`);
    const encode = (text: string) => encodeValue({ text }, memory);
    const before = new Set(encode(lines.join("")).chunks.map(({ digest }) => digest));
    for (const text of [`${lines.join("")}one more\n`, lines.with(9000, "edited\n").join("")]) {
      const encoded = encode(text);
      expect(encoded.chunks.filter(({ digest }) => !before.has(digest)).length).toBeLessThan(12);
      expect(await decode(encoded)).toEqual({ text });
    }
  });

  test("of a text without line ends", async () => {
    const memory = createValueMemory();
    let seed = 1;
    const next = (): string => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0).toString(36);
    const text = Array.from({ length: 60_000 }, next).join("");
    const before = new Set(encodeValue({ text }, memory).chunks.map(({ digest }) => digest));
    const edited = `${text.slice(0, 100_000)}😀${text.slice(100_000)}`;
    const encoded = encodeValue({ text: edited }, memory);
    expect(before.size).toBeGreaterThan(20);
    expect(encoded.chunks.filter(({ digest }) => !before.has(digest)).length).toBeLessThan(8);
    expect(await decode(encoded)).toEqual({ text: edited });
  });

  test("of an object with thousands of keys", () => {
    const memory = createValueMemory();
    const entries = Array.from({ length: 5000 }, (_, i) => [`key ${i}`, { n: i, text: "value ".repeat(20) }] as const);
    const object = Object.fromEntries(entries);
    const before = new Set(encodeValue(object, memory).chunks.map(({ digest }) => digest));
    const changed = { ...object, "key 77": { n: -1, text: "" } };
    expect(encodeValue(changed, memory).chunks.filter(({ digest }) => !before.has(digest)).length).toBeLessThan(10);
  });
});

test("missing, changed or exchanged chunks are refused, and so is a root that is not a reference", async () => {
  const value = { messages: Array.from({ length: 200 }, (_, i) => ({ text: `${i} `.repeat(300) })) };
  const encoded = encodeValue(value);
  const shelf = new Map(encoded.chunks.map(({ digest, text }) => [digest, text]));
  const load = async (digests: readonly string[]) => new Map(digests.flatMap((one) => pair(one, shelf.get(one))));
  expect(await decodeValue(encoded.root, load)).toEqual(value);
  for (const { digest, text } of encoded.chunks) {
    for (const other of [undefined, `${text} `, encoded.chunks.find((one) => one.digest !== digest)?.text]) {
      if (other === undefined) shelf.delete(digest);
      else shelf.set(digest, other);
      await expect(decodeValue(encoded.root, load)).rejects.toMatchObject({ code: "STORE_CORRUPT" });
    }
    shelf.set(digest, text);
  }
  for (const root of ["{", '{"$x":1}', '{"$l":[0]}', '{"$l":[1,"short"]}', '{"$c":7}', '{"$t":[99]}'])
    await expect(decodeValue(root, load)).rejects.toMatchObject({ code: "STORE_CORRUPT" });
});

test("stored texts come back, and damaged bytes are refused", () => {
  for (const text of ["", "a", "é😀\u0000", "word ".repeat(1000)]) expect(unpackText(packText(text, 256))).toBe(text);
  expect(packText("word ".repeat(1000), 256).length).toBeLessThan(200);
  for (const bytes of [[], [7, 1], [0, 0xff], [1, 1, 2, 3]])
    expect(() => unpackText(Buffer.from(bytes))).toThrow(expect.objectContaining({ code: "STORE_CORRUPT" }));
});

test("values that JSON cannot represent are refused with their path", () => {
  const cycle: Record<string, unknown> = {};
  cycle["self"] = { again: cycle };
  const holes = [1];
  holes[3] = 4;
  let deep: unknown = 1;
  for (let i = 0; i < 2000; i++) deep = [deep];
  const cases: readonly [unknown, string][] = [
    [{ a: { b: undefined } }, "/a/b"],
    [{ a: [1, Number.NaN] }, "/a/1"],
    [{ "x/y~": "\ud800" }, "/x~1y~0"],
    [cycle, "/self/again"],
    [{ holes }, "/holes/1"],
    [{ at: new Date(0) }, "/at"],
    [Object.defineProperty({}, "getter", { get: () => 1, enumerable: true }), "/getter"],
    [{ list: Object.assign([1], { extra: 1 }) }, "/list"],
  ];
  for (const [value, path] of cases) {
    for (const write of [canonicalJson, encodeValue])
      expect(() => write(value)).toThrow(expect.objectContaining({ code: "NOT_JSON", data: { path } }));
  }
  expect(() => encodeValue(deep)).toThrow(expect.objectContaining({ code: "NOT_JSON" }));
});
