import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isSafePath, parsePath, pathBytes, quotePath } from "./paths.ts";
import { inScope, parseScope } from "./tree-diff.ts";

describe("raw path", () => {
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
});

describe("safe path", () => {
  const raw = (text: string): string => Buffer.from(text, "utf8").toString("latin1");

  test.each([
    "a",
    "a/b/c",
    ".gitignore",
    ".github/x",
    "..a",
    "a..",
    "git",
    ".gitx",
    "x.git",
    "-",
    " ",
    "a\\b",
    "git~10",
    "ü/日本",
  ])("%j may be written", (path) => {
    expect(isSafePath(raw(path))).toBe(true);
  });

  test.each([
    "",
    "/",
    "/etc/passwd",
    "a//b",
    "a/",
    ".",
    "..",
    "a/../b",
    "a/..",
    ".git",
    ".git/config",
    "a/.git/hooks/x",
    ".GIT/config",
    ".gIt",
    ".git.",
    ".git ",
    ".git . .",
    ".git::$INDEX_ALLOCATION",
    "git~1",
    "GIT~1/config",
    ".g\u200cit/config",
    "\ufeff.git",
    "a\\.git\\config",
    "a\0b",
  ])("%j may not", (path) => {
    expect(isSafePath(raw(path))).toBe(false);
  });

  test("a safe path never leaves its root", () => {
    const part = fc.oneof(fc.constantFrom("..", ".", "", "a", ".git"), fc.string());
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), (parts) => {
        const path = parts.join("/");
        if (!isSafePath(raw(path))) return;
        expect(join("/root/tree", path).startsWith("/root/tree/")).toBe(true);
      }),
    );
  });

  test("a scope contains files, folders and the root, and nothing outside", () => {
    const scope = parseScope(["./dir/", "file", '"new\\nline"']);
    expect(["dir", "dir/a/b", "file", "new\nline"].every((path) => inScope(path, scope))).toBe(true);
    expect(["di", "director/a", "file2", "other"].some((path) => inScope(path, scope))).toBe(false);
    for (const root of [".", "", "./"]) expect(inScope("any/thing", parseScope([root]))).toBe(true);
    expect(inScope("a", parseScope([]))).toBe(false);
  });
});
