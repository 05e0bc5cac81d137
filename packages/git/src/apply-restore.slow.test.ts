import { chmodSync, lstatSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  type TestRepository,
  createTestRepository,
  openWorkspaceSession,
  readWorktree,
} from "@holdfast/test-support/git/repository";
import { parsePath } from "./paths.ts";
import { openGitWorkspaces } from "./workspaces.ts";

type Model = Readonly<Record<string, string>>;
const raw = (path: string): string => Buffer.from(path, "utf8").toString("latin1");
const isAt = (name: string, path: string): boolean => name === raw(path) || name.startsWith(`${raw(path)}/`);

/** The expected result of restoring one path: the old state at the path and the current state elsewhere. */
function replacePath(now: Model, then: Model, path: string): Model {
  const kept = Object.entries(now).filter(([name]) => !isAt(name, path));
  const grafted = Object.entries(then).filter(([name]) => isAt(name, path));
  return Object.fromEntries([...kept, ...grafted]);
}

test("any edits, a snapshot, any edits and a restore give the first state; the undo gives the second; one path restores one path", async () => {
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
          expect(readWorktree(repository.root)).toEqual(replacePath(now, then, path));
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

test("for any change of the ignore rules: files outside the current snapshot are never touched, files in it are restored", async () => {
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

/** One random edit of a worktree, such as an agent or its shell might make. */
type Edit =
  | { readonly kind: "write"; readonly path: string; readonly content: string }
  | { readonly kind: "link"; readonly path: string; readonly target: string }
  | { readonly kind: "mode"; readonly path: string; readonly executable: boolean }
  | { readonly kind: "remove"; readonly path: string };

const NAMES = ["a", "b", "sp ace", "new\nline", "ü", "-x", ":(top)"];

/** Few names and three levels, so that files, folders and links often meet at the same path. */
const path = fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 3 }).map((parts) => parts.join("/"));

const edit: fc.Arbitrary<Edit> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant("write" as const), path, content: fc.string({ maxLength: 20 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("link" as const), path, target: fc.constantFrom("a", "../x", "nowhere") }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("mode" as const), path, executable: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("remove" as const), path }) },
);

const edits: fc.Arbitrary<readonly Edit[]> = fc.array(edit, { minLength: 1, maxLength: 12 });
const editedPath: fc.Arbitrary<string> = path;

/** Random edits together with changing ignore rules at two levels. */
const editsUnderRules: fc.Arbitrary<readonly Edit[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: edit },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("write" as const),
        path: fc.constantFrom(".gitignore", "a/.gitignore"),
        content: fc.constantFrom("", "b\n", "a/b\n", "/a/\n", "*\n!b\n", "ü\nsp ace\n"),
      }),
    },
  ),
  { minLength: 1, maxLength: 12 },
);

function applyEdits(root: string, list: readonly Edit[]): void {
  for (const each of list) applyEdit(root, each);
}

function applyEdit(root: string, each: Edit): void {
  const place = join(root, each.path);
  switch (each.kind) {
    case "remove":
      if (isBehindFile(root, each.path)) return;
      rmSync(place, { recursive: true, force: true });
      return;
    case "mode":
      if (isBehindFile(root, each.path)) return;
      if (lstatSync(place, { throwIfNoEntry: false })?.isFile() === true)
        chmodSync(place, each.executable ? 0o755 : 0o644);
      return;
    case "write":
    case "link":
      clearWay(root, each.path);
      rmSync(place, { recursive: true, force: true });
      mkdirSync(dirname(place), { recursive: true });
      if (each.kind === "write") writeFileSync(place, each.content);
      else symlinkSync(each.target, place);
      return;
  }
}

/** Removes a file or link in place of a folder, as `rm -rf x && mkdir x` would. */
function clearWay(root: string, name: string): void {
  for (const folder of foldersOf(root, name)) if (isInTheWay(folder)) rmSync(folder);
}

function isBehindFile(root: string, name: string): boolean {
  return foldersOf(root, name).some(isInTheWay);
}

function isInTheWay(folder: string): boolean {
  try {
    return lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() === false;
  } catch {
    return false;
  }
}

function foldersOf(root: string, name: string): string[] {
  const parts = name.split("/").slice(0, -1);
  return parts.map((_, depth) => join(root, ...parts.slice(0, depth + 1)));
}
