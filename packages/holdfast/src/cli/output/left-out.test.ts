import { expect, test } from "vitest";
import { PAGE } from "../commands/sample-run.ts";
import { leftOutLine, leftOutOf } from "./left-out.ts";

test("nested repositories are named once, as folders", () => {
  const files = {
    nested: [
      { path: "sub", head: null },
      { path: "vendor/lib/", head: "a".repeat(40) },
    ],
    skipped: [
      { path: "sub", reason: "nested_repository", bytes: null },
      { path: "big.bin", reason: "too_large", bytes: 31_000_000 },
    ],
  } as const;
  expect(leftOutOf(files)).toEqual([
    { path: "sub/", why: "a git repository of its own" },
    { path: "vendor/lib/", why: "a git repository of its own" },
    { path: "big.bin", why: "too large, 31 MB" },
  ]);
  expect(leftOutOf(null)).toEqual([]);
});

test("a long path gives way, the reason stays", () => {
  const line = leftOutLine({ path: `${"deep/".repeat(30)}x`, why: "a git repository of its own" }, "not saved", PAGE);
  expect(line).toMatch(/^ {2}! deep\/.*… not saved: a git repository of its own\n$/);
  expect(line.length - 1).toBeLessThanOrEqual(80);
});
