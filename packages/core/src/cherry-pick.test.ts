import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { choosePaths, isBelow, isOutsideRoot } from "./cherry-pick.ts";

describe("choose paths", () => {
  const files = ["app/[id].ts", "app/a.ts", "app/b.js", "app/deep/c.ts", "README.md", '"app/\\001.ts"', "a+b.ts"];

  test.each([
    ["app/a.ts", ["app/a.ts"]],
    ["app/[id].ts", ["app/[id].ts"]],
    ["app/[a-b].*", ["app/a.ts", "app/b.js"]],
    ["app/[!b].ts", ["app/a.ts"]],
    ["app/*.ts", ["app/[id].ts", "app/a.ts", '"app/\\001.ts"']],
    ["**/*.ts", ["app/[id].ts", "app/a.ts", "app/deep/c.ts", '"app/\\001.ts"', "a+b.ts"]],
    ["app/**", ["app/[id].ts", "app/a.ts", "app/b.js", "app/deep/c.ts", '"app/\\001.ts"']],
    ["ap?", ["app/[id].ts", "app/a.ts", "app/b.js", "app/deep/c.ts", '"app/\\001.ts"']],
    ["*+b.ts", ["a+b.ts"]],
    [".", ["."]],
    [":(literal)app/*.ts", ["app/*.ts"]],
    [":(literal)app/a.ts", ["app/a.ts"]],
    ["no-match", ["no-match"]],
  ])("%s", (asked, chosen) => {
    expect(choosePaths([asked], files)).toEqual(chosen);
  });

  test("a pattern that matches nothing is an error, not an empty selection", () => {
    expect(() => choosePaths(["src/*.ts"], files)).toThrow("No file on either side is like src/*.ts");
  });

  test("any pattern is parsed, and every file matches itself and the pattern for all", () => {
    const name = fc.string({
      unit: fc.constantFrom("a", "b", "*", "?", "[", "]", "!", ".", "(", "\\", "^", "-"),
      minLength: 1,
    });
    const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((names) => names.join("/"));
    fc.assert(
      fc.property(path, fc.array(path), (asked, others) => {
        const all = [...others, asked];
        expect(choosePaths([asked], all).every((chosen) => all.some((file) => isBelow(file, chosen)))).toBe(true);
        // A folder of that very name would be meant instead.
        fc.pre(!all.some((file) => isBelow(file, "**")));
        expect(choosePaths(["**"], all).length).toBe(new Set(all).size);
      }),
    );
  });
});

describe("leaves root", () => {
  test.each([
    ["link", "file", false],
    ["link", "../file", true],
    ["a/link", "../file", false],
    ["a/link", "../../file", true],
    ["a/link", "b/../../../a/file", true],
    ["a/b/link", "./../c", false],
    ["link", "/etc/passwd", true],
    ["link", "C:\\windows", true],
    ["link", "..\\x", true],
  ])("%s → %s: %s", (path, target, leaves) => {
    expect(isOutsideRoot(path, target)).toBe(leaves);
  });
});
