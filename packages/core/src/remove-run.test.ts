import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { planRunRemoval, recordBranch } from "./remove-run.ts";

const REF = "refs/heads/feature/x";

/** A run that is about to create its worktree on the branch feature/x. */
async function scene() {
  const { adapters, store, workspaces, workspace } = await startTestRunInWorktree(() => ({ text: "ok" }));
  const git = (...args: readonly string[]): string =>
    execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@localhost", ...args], {
      cwd: workspace.root,
      encoding: "utf8",
    }).trim();
  const { id } = await store.createRun({ id: "issue-1", workflow: "none", work: { kind: "none" } });
  const base = git("rev-parse", "HEAD");
  const branch = "feature/x";
  return {
    git,
    base,
    record: async () => await recordBranch(adapters, { run: id, branch, base }),
    create: async () =>
      await workspaces.create({ run: id, branch, base, path: join(workspace.root, "..", "of-issue-1") }),
    /** The branch that `rm` would remove, and the one that it would name and keep. */
    async removes() {
      const run = await store.getRun(id);
      const { remains = null } = run === undefined ? {} : await planRunRemoval(adapters, { run, forge: null });
      return [remains?.branch?.name ?? null, remains?.otherBranch ?? null];
    },
  };
}

test("killed before or after the branch is created: the run owns what is at its base, and no branch of another author", async () => {
  const { git, base, record, create, removes } = await scene();
  await record();
  expect(await removes()).toEqual([null, null]);
  await create();
  expect(await removes()).toEqual([REF, null]);
  // The same command again finds its own branch.
  await record();
  expect(await removes()).toEqual([REF, null]);
  // Another author has committed there before the run began.
  git("update-ref", REF, git("commit-tree", "-m", "theirs", "-p", base, `${base}^{tree}`));
  expect(await removes()).toEqual([null, REF]);
  await record();
  git("update-ref", REF, base);
  expect(await removes()).toEqual([null, REF]);
});

test("a branch that was there before is not the run's", async () => {
  const { git, base, record, create, removes } = await scene();
  git("update-ref", REF, base);
  await record();
  await create();
  expect(await removes()).toEqual([null, REF]);
});
