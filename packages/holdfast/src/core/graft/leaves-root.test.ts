import { expect, test } from "vitest";
import { leavesRoot } from "./leaves-root.ts";

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
  expect(leavesRoot(path, target)).toBe(leaves);
});
