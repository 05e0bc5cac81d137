import * as fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import type { Json } from "@holdfast/core/json";
import { propertyRuns } from "@holdfast/test-support/formats/format-suite";
import { readYaml, writeYaml } from "./strict-yaml.ts";

// YAML is slow to read and to write, and a full run has 10,000 cases.
vi.setConfig({ testTimeout: 3_600_000 });

const source = { format: "crunch-yaml", file: "x.yaml" } as const;
const read = (text: string): Json => readYaml(text, source).value;

/** Signs that mean something in YAML, and characters that writers and readers of it disagree about. */
const signs = [..." \n\r\ta#:-|>'\"\\01.~<&*!%@`{}[],?=\0\x7f\u0085\u2028\u2029\uFEFF\u200B\u{1F600}"];
const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.string({ unit: fc.constantFrom(...signs), maxLength: 8 }),
  fc.constantFrom("yes", "null", "~", "2025-01-14", "012", "0x1f", "1:30", "1_000", ".inf", "<<", "=", "---", "..."),
);
const key = text.filter((one) => one !== "__proto__");
const { value } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((one) => one + 0),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(key, tie("value"), { maxKeys: 4, noNullPrototype: true }),
  ),
}));

describe("YAML", () => {
  test("any JSON is read back unchanged, through UTF-8", () => {
    fc.assert(
      fc.property(value, (one) => {
        const written = writeYaml(one);
        const bytes = new TextEncoder().encode(written);
        const back = read(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
        expect(JSON.stringify(back)).toBe(JSON.stringify(one));
        expect(writeYaml(back)).toBe(written);
      }),
      propertyRuns(1000),
    );
  });

  test("strings are quoted where YAML 1.1 readers would see another type", () => {
    const written = writeYaml({ a: "yes", b: "2025-01-14", c: "1:30", d: "012", e: "<<", n: "off" });
    for (const line of written.trim().split("\n")) expect(line).toMatch(/: ".*"$/);
  });

  test("1.2 core: a date, a yes and base 60 are strings", () => {
    expect(read("a: 2025-01-14\nb: yes\nc: 1:30\nd: 0o17\ne: 1e3\nf: ~\ng:\nh: True\n")).toEqual({
      a: "2025-01-14",
      b: "yes",
      c: "1:30",
      d: 15,
      e: 1000,
      f: null,
      g: null,
      h: true,
    });
  });

  test("keys are strings, and none of them reaches a prototype", () => {
    const object = read('{1: a, true: b, "constructor": c}');
    expect(JSON.stringify(object)).toBe('{"1":"a","true":"b","constructor":"c"}');
    for (const [text, path, line] of [
      ["a: 1\n__proto__: {polluted: 1}\n", "/__proto__", 2],
      ["a:\n  - b: {'__proto__': 1}\n", "/a/0/b/__proto__", 2],
      ['a: {"\\x5f_proto__": 1}\n', "/a/__proto__", 1],
    ] as const) {
      expect(() => read(text)).toThrow(
        expect.objectContaining({ code: "FORMAT_INVALID", data: expect.objectContaining({ path, line }) }),
      );
    }
    expect(Reflect.get({}, "polluted")).toBeUndefined();
  });

  test("core tags and anchors are read, and cause a remark", () => {
    const { value: read1, remarks } = readYaml("a: &x !!str 12\nb: *x\nc: !!int '3'\n", source);
    expect(read1).toEqual({ a: "12", b: "12", c: 3 });
    expect(remarks.map((remark) => remark.text)).toEqual(["aliases were replaced by what they stand for"]);
  });

  test("comments are dropped, which causes a remark", () => {
    for (const commented of ["# a\nb: 1\n", "b: 1 # a\n", "b: 1\n# a\n", "b:\n  # a\n  - 1\n"]) {
      expect(readYaml(commented, source).remarks).toHaveLength(1);
    }
    expect(readYaml("b: 'a # b'\n", source).remarks).toEqual([]);
  });

  test("a refusal names line and path", () => {
    expect(() => read("a: 1\nb:\n  - c: 1\n    c: 2\n")).toThrow(
      expect.objectContaining({ code: "FORMAT_INVALID", data: expect.objectContaining({ path: "/b/0/c", line: 4 }) }),
    );
    expect(() => read("a: 1\nb: [1\n")).toThrow(expect.objectContaining({ code: "FORMAT_DAMAGED" }));
  });

  test("lines are found by pointer, also inside of lists and keys with slashes", () => {
    const { placeOf } = readYaml("a: 1\nb:\n  - c: 1\n  - x/y:\n      z: 2\n", source);
    expect(["", "/a", "/b/0/c", "/b/1/x~1y/z", "/b/7"].map((path) => placeOf(path).line)).toEqual([1, 1, 3, 5, 3]);
    expect(placeOf("/b/1/x~1y/z")).toEqual({ line: 5, column: 10 });
  });

  test("many keys in one mapping take no longer than as many list items", () => {
    const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`key-${n}`, n]));
    expect(read(writeYaml(many))).toEqual(many);
  });
});
