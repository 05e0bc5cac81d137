import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { ChunkShelf } from "@holdfast/test-support/core/json-sample";
import type { Json } from "../json.ts";
import { capture } from "./capture.ts";
import { checkSize } from "./check-size.ts";
import { encode } from "./encode.ts";
import { MAX_ENTRIES, MAX_LOGICAL_BYTES } from "./limits.ts";
import { createMemo } from "./memo.ts";

test("refuses just what is beyond the limits", () => {
  expect(() => checkSize({ bytes: MAX_LOGICAL_BYTES, entries: MAX_ENTRIES })).not.toThrow();
  expect(() => checkSize({ bytes: MAX_LOGICAL_BYTES + 1, entries: 0 })).toThrow(/bytes/u);
  expect(() => checkSize({ bytes: 0, entries: MAX_ENTRIES + 1 })).toThrow(/entries/u);
});

test("encode refuses a value that only its sharing keeps small", () => {
  let value: Json = capture(["x".repeat(60_000)]);
  for (let i = 0; i < 14; i += 1) value = capture([value, value]);
  const hasher = (data: string | Uint8Array): string => hash("sha256", data);
  const sink = new ChunkShelf();
  expect(() => encode({ value, memo: createMemo(), hasher, sink })).toThrow(/more than a checkpoint/u);
});
