import { expect, onTestFinished, test, vi } from "vitest";
import { MIN_GIT_VERSION, createGit, isGitTooOld } from "./git-command.ts";

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

test("a git that is missing is reported in plain words", async () => {
  vi.stubEnv("PATH", "/nonexistent");
  onTestFinished(() => void vi.unstubAllEnvs());
  await expect(createGit({}).line({ args: ["status"] })).rejects.toMatchObject({
    code: "GIT_MISSING",
    message: "git is not installed, or not on PATH",
    hint: `Install git ${MIN_GIT_VERSION} or newer and make sure that it is on PATH.`,
  });
});
