import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { HoldfastError } from "../../core/error.ts";
import type { Decoded, ForeignFile } from "../format.ts";
import { decodeAgain } from "./decode-again.ts";
import { decodeCrunch } from "./decode-crunch.ts";

const GOLDEN = ["CP-enrich-20250114-a3f2.yaml", "CP-enrich-20250114-b4c5.yaml"].map(
  (name) => new Uint8Array(readFileSync(join(import.meta.dirname, "golden/42", name))),
);

function outcome(decode: () => Decoded): unknown {
  try {
    return decode();
  } catch (error) {
    return error instanceof HoldfastError ? error.message : error;
  }
}

test("a file that holds what it held is parsed once", () => {
  const { decode } = decodeAgain();
  const file = (): ForeignFile => ({ path: "a.yaml", bytes: Uint8Array.from(GOLDEN[0] ?? []), compression: "none" });
  expect(decode(file())).toBe(decode(file()));
});

test("what is not there any more is forgotten", () => {
  const { decode, keepOnly } = decodeAgain();
  const file: ForeignFile = { path: "a.yaml", bytes: GOLDEN[0] ?? new Uint8Array(), compression: "none" };
  const first = decode(file);
  keepOnly([{ ...file, path: "b.yaml" }]);
  expect(decode(file)).not.toBe(first);
  expect(decode(file)).toEqual(first);
});

test("whatever changes in between, it says what reading anew says", () => {
  const step = fc.record({
    path: fc.constantFrom("a.yaml", "b.yaml"),
    which: fc.constantFrom(0, 1),
    // A byte of the same file turned over, so that its length stays.
    flip: fc.option(fc.nat({ max: 400 }), { nil: null }),
    forget: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      const { decode, keepOnly } = decodeAgain();
      for (const { path, which, flip, forget } of steps) {
        const bytes = Uint8Array.from(GOLDEN[which] ?? []);
        if (flip !== null) bytes[flip] = (bytes[flip] ?? 0) ^ 1;
        const file: ForeignFile = { path, bytes, compression: "none" };
        expect(outcome(() => decode(file))).toEqual(outcome(() => decodeCrunch(file)));
        if (forget) keepOnly([file]);
      }
    }),
    { numRuns: 40 },
  );
});
