import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { compressFor, decompress } from "./compression.ts";
import { readSourceFiles } from "./source-files.ts";

const LIMIT = 1024 * 1024;
const utf8 = new TextEncoder();

test.each(["x.json", "x.json.gz"])("data compressed for %s is read back", (name) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 5000 }), (bytes) => {
      const read = decompress(compressFor(name, utf8.encode(`{${bytes.join()}}`)), LIMIT);
      expect(read.kind === "read" && new TextDecoder().decode(read.bytes)).toBe(`{${bytes.join()}}`);
    }),
  );
});

test("a gzip bomb stops at the limit, and truncated data is damaged", () => {
  const zip = compressFor("x.gz", new Uint8Array(10 * LIMIT));
  expect(decompress(zip, LIMIT)).toEqual({ kind: "damaged", why: expect.stringContaining("more than") });
  expect(decompress(zip.subarray(0, 100), LIMIT * 20)).toEqual({ kind: "damaged", why: "its gzip data is cut off" });
});

test("LZ4 is detected, and neither read nor written", () => {
  const frame = Buffer.from("BCJNGGRApxAAAABvaGVsbG8gBgATUGxsbyEKAAAAAAIFKs4=", "base64");
  expect(decompress(frame, LIMIT)).toEqual({ kind: "lz4" });
  expect(() => compressFor("x.json.lz4", frame)).toThrow(expect.objectContaining({ code: "UNSUPPORTED" }));
  const directory = mkdtempSync(join(tmpdir(), "holdfast-lz4-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, "iteration-001.json.lz4"), frame);
  const unsupported = { code: "UNSUPPORTED", hint: expect.stringContaining("lz4 -d FILE") };
  expect(() => readSourceFiles("iteration-001.json.lz4", directory)).toThrow(expect.objectContaining(unsupported));
  expect(readSourceFiles(".", directory)).toMatchObject({ files: [], broken: [{ error: unsupported }] });
});
