import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  type TestRepository,
  createTestRepository,
  openWorkspaceSession,
  readWorktree,
} from "@holdfast/test-support/git/repository";
import { applyEdits, editedPath, edits, editsUnderRules } from "@holdfast/test-support/git/worktree-edits";
import { parsePath } from "./paths.ts";
import { openGitWorkspaces } from "./workspaces.ts";

type Model = Readonly<Record<string, string>>;
const raw = (path: string): string => Buffer.from(path, "utf8").toString("latin1");
const isAt = (name: string, path: string): boolean => name === raw(path) || name.startsWith(`${raw(path)}/`);

/** The expected result of restoring one path: the old state at the path and the current state elsewhere. */
function graft(now: Model, then: Model, path: string): Model {
  const kept = Object.entries(now).filter(([name]) => !isAt(name, path));
  const grafted = Object.entries(then).filter(([name]) => isAt(name, path));
  return Object.fromEntries([...kept, ...grafted]);
}

test("any edits → snapshot → any edits → restore is the first state; its undo is the second; one path is one path", async () => {
  await fc.assert(
    fc.asyncProperty(edits, edits, edits, editedPath, fc.boolean(), async (base, first, second, path, commit) => {
      const repository = createTestRepository();
      try {
        applyEdits(repository.root, base);
        repository.git("add", "-A");
        if (commit) repository.git("commit", "-qm", "base", "--allow-empty");
        const { snapshot, restore, workspace } = await openWorkspaceSession({ repository, open: openGitWorkspaces });
        applyEdits(repository.root, first);
        const then = readWorktree(repository.root);
        const plane = await snapshot();

        applyEdits(repository.root, second);
        const now = readWorktree(repository.root);
        const whole = await restore(plane);
        expect(whole.tree).toBe(plane.tree);
        expect(readWorktree(repository.root)).toEqual(then);
        expect((await workspace.currentFiles()).tree).toBe(plane.tree);

        const back = await restore(whole.undo);
        expect(readWorktree(repository.root)).toEqual(now);
        expect(back.tree).toBe(whole.undo.tree);

        const planning = workspace.planRestore({ from: whole.undo, to: plane, paths: [path] });
        if (![...Object.keys(now), ...Object.keys(then)].some((name) => isAt(name, path))) {
          await expect(planning).rejects.toMatchObject({ code: "USAGE" });
          return;
        }
        const plan = await planning;
        if (plan.blocked.length > 0) {
          await expect(workspace.applyRestore(plan)).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
          expect(readWorktree(repository.root)).toEqual(now);
        } else {
          const part = await workspace.applyRestore(plan);
          expect(part.tree).toBe(plan.toTree);
          expect(readWorktree(repository.root)).toEqual(graft(now, then, path));
        }
      } finally {
        repository.dispose();
      }
    }),
    { numRuns: 6 },
  );
});

/** Git commands of the user between two snapshots. */
const meanwhile = fc.constantFrom<readonly (readonly string[])[]>(
  [],
  [["add", "-A"]],
  [["add", "-f", "-A"]],
  [
    ["add", "-A"],
    ["commit", "-qm", "meanwhile", "--allow-empty"],
  ],
  [["rm", "-rqf", "--cached", "--ignore-unmatch", "."]],
);

/** Paths of a tree in the spelling of `readWorktree`. */
function pathsOf(repository: TestRepository, tree: string): ReadonlySet<string> {
  const text = repository.git("-c", "core.quotePath=true", "ls-tree", "-r", "-z", "--name-only", tree);
  return new Set(
    text
      .split("\0")
      .filter((name) => name !== "")
      .map(raw),
  );
}

test("under any change of the ignore rules: what the snapshot of now does not hold is never touched, what it holds comes back", async () => {
  await fc.assert(
    fc.asyncProperty(editsUnderRules, editsUnderRules, editsUnderRules, meanwhile, async (base, first, second, git) => {
      const repository = createTestRepository();
      try {
        applyEdits(repository.root, base);
        repository.git("add", "-A");
        const { snapshot, workspace } = await openWorkspaceSession({ repository, open: openGitWorkspaces });
        applyEdits(repository.root, first);
        const then = readWorktree(repository.root);
        const plane = await snapshot();
        applyEdits(repository.root, second);
        for (const args of git) repository.git(...args);
        const now = readWorktree(repository.root);
        const from = await snapshot();
        const held = pathsOf(repository, from.tree);
        const plan = await workspace.planRestore({ from, to: plane });
        if (plan.blocked.length > 0) {
          await expect(workspace.applyRestore(plan)).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
          expect(readWorktree(repository.root)).toEqual(now);
          return;
        }
        await workspace.applyRestore(plan);
        const after = readWorktree(repository.root);
        for (const [path, state] of Object.entries(now))
          if (!held.has(path)) expect([path, after[path]]).toEqual([path, state]);
        for (const path of pathsOf(repository, plane.tree)) expect([path, after[path]]).toEqual([path, then[path]]);

        const later = await snapshot();
        const back = await workspace.planRestore({ from: later, to: from });
        if (back.blocked.length > 0) {
          // Blocked only by a restored file that git tracked then and does not track now, and that the restored rules
          // ignore.
          const seen = pathsOf(repository, later.tree);
          expect(back.blocked.filter((path) => seen.has(parsePath(path) ?? ""))).toEqual([]);
          return;
        }
        await workspace.applyRestore(back);
        const undone = readWorktree(repository.root);
        for (const path of held) expect([path, undone[path]]).toEqual([path, now[path]]);
      } finally {
        repository.dispose();
      }
    }),
    { numRuns: 6 },
  );
});
