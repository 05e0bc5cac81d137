import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parsePath, pathBytes, quotePath } from "./raw-path.ts";

const rawPath = fc.uint8Array({ minLength: 1, maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString("latin1"));

test("any byte string survives quoting, JSON and parsing", () => {
  fc.assert(
    fc.property(rawPath, (path) => {
      const text: unknown = JSON.parse(JSON.stringify(quotePath(path)));
      expect(parsePath(String(text))).toBe(path);
    }),
    { numRuns: 2000 },
  );
});

test("two paths never share a quoted form", () => {
  fc.assert(
    fc.property(rawPath, rawPath, (a, b) => {
      expect(quotePath(a) === quotePath(b)).toBe(a === b);
    }),
  );
});

test.each([
  ["plain", "src/app.ts", "src/app.ts"],
  ["spaces and inner quotes stay", 'a "b" c.txt', 'a "b" c.txt'],
  ["valid UTF-8 stays readable", "grün/日本.txt", "grün/日本.txt"],
  ["newline", "a\nb", '"a\\nb"'],
  ["leading quote", '"x', '"\\"x"'],
  ["backslash alone is not special", "a\\b", "a\\b"],
])("%s", (_, text, quoted) => {
  const raw = Buffer.from(text, "utf8").toString("latin1");
  expect(quotePath(raw)).toBe(quoted);
  expect(parsePath(quoted)).toBe(raw);
});

test("bytes that are not UTF-8 become octal", () => {
  expect(quotePath("caf\xe9")).toBe('"caf\\351"');
  expect([...pathBytes("caf\xe9")]).toEqual([0x63, 0x61, 0x66, 0xe9]);
});

test.each(['"open', '"bad \\q escape"', '"\\400"', '"a"b"', '"'])("%s is not a path", (text) => {
  expect(parsePath(text)).toBeUndefined();
});
