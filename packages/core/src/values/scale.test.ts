import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { ChunkShelf } from "@holdfast/test-support/core/json-sample";
import type { Hasher, Json } from "../json.ts";
import { capture } from "./capture.ts";
import { decode } from "./decode.ts";
import { digestOf } from "./digest-of.ts";
import { encode } from "./encode.ts";
import { createMemo } from "./memo.ts";

/** HOLDFAST_FULL=1 runs the sizes that are promised; without it a tenth of them. */
const FULL = process.env["HOLDFAST_FULL"] === "1";
const KEYS = FULL ? 1_000_000 : 100_000;
const TEXT_UNITS = FULL ? 100_000_000 : 10_000_000;
const TIMEOUT = { timeout: 600_000 };

const hasher: Hasher = (data) => hash("sha256", data);

function saved(live: Json) {
  const shelf = new ChunkShelf();
  const memo = createMemo();
  const value = capture(live);
  const encoded = encode({ value, memo, hasher, sink: shelf });
  return { shelf, memo, value, encoded };
}

describe(`at scale (${FULL ? "full" : "a tenth; HOLDFAST_FULL=1 for all"})`, () => {
  test(`${KEYS} keys: read back whole, and a change costs a few pages`, TIMEOUT, () => {
    const live: Record<string, Json> = {};
    for (let i = 0; i < KEYS; i += 1) live[`key-${(i * 7919) % 1_000_003}`] = i;
    const { shelf, memo, value, encoded } = saved(live);
    const read = decode({ root: encoded.root, source: shelf, check: { hasher, digest: encoded.digest } });
    expect(capture(live, read)).toBe(read);
    expect(Object.keys(read as object)).toHaveLength(KEYS);
    live["key-7919"] = -1;
    shelf.mark();
    const next = encode({ value: capture(live, value), memo, hasher, sink: shelf });
    expect(shelf.added.chunks).toBeLessThanOrEqual(6);
    expect(next.digest).toBe(saved(live).encoded.digest);
  });

  test(`${KEYS} elements: read back whole, and a front trim costs a few pages`, TIMEOUT, () => {
    const live = Array.from({ length: KEYS }, (_, i) => (i * 7919) % 10_007);
    const { shelf, memo, value, encoded } = saved(live);
    const read = decode({ root: encoded.root, source: shelf, check: { hasher, digest: encoded.digest } });
    expect(capture(live, read)).toBe(read);
    live.splice(0, 1234);
    live.push(1, 2, 3);
    shelf.mark();
    const next = encode({ value: capture(live, value), memo, hasher, sink: shelf });
    expect(shelf.added.chunks).toBeLessThanOrEqual(12);
    expect(next.digest).toBe(saved(live).encoded.digest);
  });

  test(`a string of ${TEXT_UNITS} characters: read back whole, and an edit costs a few pieces`, TIMEOUT, () => {
    const lines: string[] = [];
    for (let units = 0, i = 0; units < TEXT_UNITS; i += 1) {
      const line = `line ${i} ${(i * 7919) % 999_983} über 😀\n`;
      lines.push(line);
      units += line.length;
    }
    const text = lines.join("");
    const { shelf, memo, value, encoded } = saved({ text });
    const read = decode({ root: encoded.root, source: shelf, check: { hasher, digest: encoded.digest } });
    expect((read as { text: string }).text === text).toBe(true);
    lines[lines.length >> 1] = "an edit in the middle\n";
    shelf.mark();
    const next = encode({ value: capture({ text: lines.join("") }, value), memo, hasher, sink: shelf });
    expect(shelf.added.chunks).toBeLessThanOrEqual(6);
    expect(digestOf({ root: next.root, source: shelf, hasher })).toBe(next.digest);
  });
});
