import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { closedIssues, hasMarker, keepMarkers, requireKey, withMarker } from "./body-text.ts";

const key = fc.stringMatching(/^[A-Za-z0-9/._#-]{1,40}$/);

describe("markers", () => {
  test("a body contains each key that it was given, once, and no other", () => {
    fc.assert(
      fc.property(fc.string(), fc.uniqueArray(key, { minLength: 1, maxLength: 5 }), key, (body, keys, other) => {
        fc.pre(!body.includes("<!--") && !keys.includes(other));
        const once = keys.reduce(withMarker, body);
        expect(keys.reduce(withMarker, once)).toBe(once);
        expect(keys.every((each) => hasMarker(once, each))).toBe(true);
        expect(hasMarker(once, other)).toBe(false);
        const kept = keepMarkers("another body", once);
        expect(keys.every((each) => hasMarker(kept, each))).toBe(true);
      }),
    );
  });

  test.each(["", "a b", "a-->b", "a\nb", "<x", "x".repeat(201)])("%j is not a key", (bad) => {
    expect(() => requireKey(bad)).toThrow(expect.objectContaining({ code: "USAGE" }));
    expect(() => withMarker("body", bad)).toThrow(expect.objectContaining({ code: "USAGE" }));
  });
});

test.each([
  ["Closes #42", [42]],
  ["closes #420", [420]],
  ["Fixes: #1 and resolves #2, fixed #1", [1, 2]],
  ["See #3; discloses #4; closes 5; Closes # 6", []],
  ["Closes #1\nCLOSED #7.", [1, 7]],
])("%j closes %j", (body, numbers) => {
  expect(closedIssues(body)).toEqual(numbers);
});
