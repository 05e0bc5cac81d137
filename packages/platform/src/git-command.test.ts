import { expect, test } from "vitest";
import { GIT_FLOOR, isOldGit } from "./git-command.ts";

test.each([
  ["git version 2.37.7", true],
  ["git version 1.99.0", true],
  [`git version ${GIT_FLOOR}.0`, false],
  ["git version 2.39.5 (Apple Git-154)", false],
  ["git version 2.100.0", false],
  ["git version 3.0.0-rc1", false],
  ["git, a build of one's own", false],
])("%s: too old is %s", (version, old) => {
  expect(isOldGit(version)).toBe(old);
});
