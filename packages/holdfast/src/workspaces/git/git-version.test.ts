import { expect, test } from "vitest";
import { GIT_FLOOR } from "../../core/git-floor.ts";
import { countGit } from "../../testing/counted-git.ts";
import { startRepository } from "../../testing/workspace/workspace-start.ts";
import { openGitWorkspaces } from "../git-workspaces.ts";

test("a git that is too old is told at the first use, with the version that is needed", async () => {
  const { root } = startRepository();
  await (await openGitWorkspaces(root)).close();
  countGit({ version: "2.37.7" });
  const hint: unknown = expect.stringContaining(`git ${GIT_FLOOR} or newer`);
  const refusal = { code: "GIT_MISSING", message: "git version 2.37.7 is too old", hint };
  await expect(openGitWorkspaces(root)).rejects.toMatchObject(refusal);
});

test("and is asked for its version once", async () => {
  const { root } = startRepository();
  const { calls } = countGit();
  for (let n = 0; n < 3; n += 1) await (await openGitWorkspaces(root)).close();
  expect(calls().filter((call) => call === "--version")).toHaveLength(1);
});
