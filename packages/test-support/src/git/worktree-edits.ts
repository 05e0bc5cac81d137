// Random edits of a worktree for property tests.

import { chmodSync, lstatSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as fc from "fast-check";

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

export const edits: fc.Arbitrary<readonly Edit[]> = fc.array(edit, { minLength: 1, maxLength: 12 });
export const editedPath: fc.Arbitrary<string> = path;

/** Random edits together with changing ignore rules at two levels. */
export const editsUnderRules: fc.Arbitrary<readonly Edit[]> = fc.array(
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

export function applyEdits(root: string, list: readonly Edit[]): void {
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
