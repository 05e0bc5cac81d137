import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { pureSha256 } from "./sha256.ts";

const platform = (data: string | Uint8Array) => createHash("sha256").update(data).digest("hex");

test("is SHA-256 at every length around a block's edge", () => {
  for (let length = 0; length < 200; length += 1) {
    const bytes = Uint8Array.from({ length }, (_, i) => (i * 7) & 255);
    expect(pureSha256(bytes)).toBe(platform(bytes));
  }
});

test("is SHA-256 of any text", () => {
  fc.assert(fc.property(fc.string({ unit: "grapheme" }), (text) => pureSha256(text) === platform(text)));
});
