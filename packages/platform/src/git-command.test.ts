import { expect, test } from "vitest";
import { MIN_GIT_VERSION, isGitTooOld } from "./git-command.ts";

test.each([
  ["git version 2.37.7", true],
  ["git version 1.99.0", true],
  [`git version ${MIN_GIT_VERSION}.0`, false],
  ["git version 2.39.5 (Apple Git-154)", false],
  ["git version 2.100.0", false],
  ["git version 3.0.0-rc1", false],
  ["git, a custom build", false],
])("%s: too old is %s", (version, old) => {
  expect(isGitTooOld(version)).toBe(old);
});
