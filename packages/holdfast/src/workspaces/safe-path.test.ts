import * as fc from "fast-check";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inScope, parseScope } from "./path-scope.ts";
import { isSafePath } from "./safe-path.ts";

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

test("a scope holds files, folders and the root, and nothing outside", () => {
  const scope = parseScope(["./dir/", "file", '"new\\nline"']);
  expect(["dir", "dir/a/b", "file", "new\nline"].every((path) => inScope(path, scope))).toBe(true);
  expect(["di", "director/a", "file2", "other"].some((path) => inScope(path, scope))).toBe(false);
  for (const root of [".", "", "./"]) expect(inScope("any/thing", parseScope([root]))).toBe(true);
  expect(inScope("a", parseScope([]))).toBe(false);
});
