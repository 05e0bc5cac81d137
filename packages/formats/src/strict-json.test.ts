import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "@holdfast/core/json";
import { auditJson } from "@holdfast/core/audit-json";
import { HoldfastError } from "@holdfast/platform/error";
import { arbitraryJson, withoutProtoKey } from "@holdfast/test-support/core/json-sample";
import { readJson } from "./strict-json.ts";

function read(text: string | Uint8Array): Json {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  return readJson({ path: "a.json", bytes, compression: "none" }, "impl-json").document;
}

function refusal(text: string | Uint8Array): HoldfastError {
  try {
    read(text);
  } catch (error) {
    if (error instanceof HoldfastError) return error;
    throw error;
  }
  throw new Error("It was accepted");
}

describe("problems that JSON.parse hides", () => {
  test.each([
    ['{"a": 1, "a": 1}', "/a", 1],
    ['{"a": {"b": 1,\n"c": [2, {"d": 0, "d" : 0}]}}', "/a/c/1/d", 2],
    ['{"a": ":", "b": 1, "b": 2}', "/b", 1],
    ['{"x": {"": 1, "": 2}}', "/x/", 1],
    ['{"__proto__": 1}', "/__proto__", 1],
    ['{"a": [0,\n{"b": {"__proto__": {"polluted": true}}}]}', "/a/1/b/__proto__", 2],
    [String.raw`{"a": {"\u005f_proto__": 1}}`, "/a/__proto__", 1],
    [String.raw`{"a\"": 1, "b": "\\", "a\u0022": 2}`, '/a"', 1],
    [String.raw`{"a\\": 1, "a\\" : 2}`, "/a\\", 1],
    ['{"a/b": 1, "a/b": 2}', "/a~1b", 1],
    ['{"n": [0, 12345678901234567890]}', "/n/1", 1],
    ['{\n"n": -9007199254740993}', "/n", 2],
    ['{"n": 1e400}', "/n", 1],
    [String.raw`{"s": ["ok 😀", "\udc00"]}`, "/s/1", 1],
  ])("%s", (text, path, line) => {
    expect(refusal(text)).toMatchObject({ code: "FORMAT_INVALID", data: { path, line, file: "a.json" } });
  });

  test.each([
    '{"a": ":", "b": "\\":", "c": " :", ":": {"a": 1}, "d": [{"a": 1}, {"a": 1}]}',
    '{"big": 9007199254740992, "huge": 1e300, "round": 100000000000000000000}',
    String.raw`{"pair": "😀", "colon": ":-)", "slash": "\\\\"}`,
  ])("no false alarm for: %s", (text) => {
    expect(read(text)).toEqual(JSON.parse(text));
  });
});

test("a byte order mark causes a remark and is removed", () => {
  const bytes = Uint8Array.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]);
  expect(readJson({ path: "a.json", bytes, compression: "none" }, "impl-json")).toMatchObject({
    document: {},
    remarks: [{ path: "" }],
  });
});

test.each([
  ["", "it is empty", undefined],
  ['{"a": 1,\n "b": ', "it ends before its JSON does", 2],
  ['{"a": 1,\n "b": "x" "y"}', "line 2 is not JSON", 2],
  ['{"a": 1,\n "b": x}', "it is not JSON", undefined],
  ['{"a": "b', "it ends before its JSON does", 1],
])("%j: %s", (text, why, line) => {
  const error = refusal(text);
  expect(error).toMatchObject({ code: "FORMAT_DAMAGED", data: { path: "" } });
  expect(error.message).toContain(why);
  expect(error.data["line"]).toBe(line);
});

describe("the audit", () => {
  test("finds nothing in output of JSON.stringify", () => {
    fc.assert(
      fc.property(withoutProtoKey(arbitraryJson()), fc.nat(4), (value, indent) => {
        expect(auditJson(JSON.stringify([value], null, indent))).toBeNull();
      }),
      { numRuns: 300 },
    );
  });

  test("finds a key that occurs twice in an object", () => {
    fc.assert(
      fc.property(withoutProtoKey(arbitraryJson()), fc.nat(), (value, pick) => {
        const text = JSON.stringify({ value, last: 0 }, null, 1);
        const keys = [...text.matchAll(/^\s*("(?:[^"\\]|\\.)*"):/gm)];
        const chosen = keys[pick % keys.length];
        if (chosen === undefined) return;
        // The duplicate is right before the key, so it is in the same object.
        const twice = `${text.slice(0, chosen.index)}${chosen[1]}: ":",${text.slice(chosen.index)}`;
        expect(auditJson(twice)?.why).toContain("twice");
      }),
      { numRuns: 300 },
    );
  });
});

test("a document nested too deeply is refused, and one at the limit is read", () => {
  const nested = (levels: number): string => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;
  expect(read(nested(500))).toHaveProperty("a");
  expect(refusal(nested(501))).toMatchObject({ code: "FORMAT_DAMAGED" });
  expect(refusal(nested(100_000))).toMatchObject({ code: "FORMAT_DAMAGED" });
});
