import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { byteText } from "./store-size.ts";

describe("byte text", () => {
  test.each([
    [0, "0 B"],
    [999, "999 B"],
    [1000, "1.0 kB"],
    [9949, "9.9 kB"],
    [9950, "10 kB"],
    [999_499, "999 kB"],
    [999_500, "1.0 MB"],
    [20_971_520, "21 MB"],
    [5e15, "5.0 PB"],
  ])("%i is %s", (bytes, text) => expect(byteText(bytes)).toBe(text));

  test("never longer than seven characters below an exabyte", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 9e15 }), (bytes) => {
        expect(byteText(bytes).length).toBeLessThanOrEqual(7);
      }),
    );
  });
});
