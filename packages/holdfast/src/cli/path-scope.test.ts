import { expect, test } from "vitest";
import { inScope } from "./path-scope.ts";

test("a path, what is below it, and nothing that only begins like it", () => {
  expect(inScope("src/a.ts", null)).toBe(true);
  expect(inScope("src/a.ts", ["."])).toBe(true);
  expect(inScope("src/a.ts", ["src"])).toBe(true);
  expect(inScope("sub/", ["sub"])).toBe(true);
  expect(inScope("src2/a.ts", ["src"])).toBe(false);
  expect(inScope("src", ["src/a.ts"])).toBe(false);
});
