// Differences between git trees, trees with replaced paths, and path scopes.

import { join } from "node:path";
import type { GitPath } from "@holdfast/core/checkpoint";
import type { ChangedFile } from "@holdfast/core/branch";
import type { Diff, DiffParams } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import type { Git } from "@holdfast/platform/git-command";
import { parentOf } from "./capture-plan.ts";
import { createFacts } from "./facts.ts";
import { findObject } from "./objects.ts";
import { type RawPath, isSafePath, joinRecords, parsePath, quotePath, splitRecords } from "./paths.ts";
import { openScratch } from "./private-index.ts";
import { type Repository, privateGit } from "./repository.ts";

/** The difference of two trees as text and as a list. It runs without any configured driver, textconv or pager. */
export async function diffSnapshots(repository: Repository, params: DiffParams): Promise<Diff> {
  const [from, whole] = await Promise.all([treeOf(repository, params.from), treeOf(repository, params.to)]);
  const to = params.paths === undefined ? whole : await limitTo(params.paths);
  const color = params.color === true ? "--color=always" : "--no-color";
  const [text, raw] = await Promise.all([
    repository.objects.output({
      args: [...DIFF_TREE, FORMATS[params.format], color, "--end-of-options", from, to],
      maxOutputBytes: MAX_TEXT_BYTES,
    }),
    repository.objects.output({ args: [...DIFF_TREE, "--raw", "-z", "--no-abbrev", "--end-of-options", from, to] }),
  ]);
  return {
    text: text.toString("utf8"),
    files: parseFiles(raw).map(({ path, status, from: before }) => ({ path, status, from: before })),
  };

  // Git takes paths as arguments, and arguments cannot contain every byte. Therefore the scope is applied to the tree.
  async function limitTo(paths: readonly string[]): Promise<string> {
    const scope = parseScope(paths);
    const changes = (await diffTrees(repository.objects, from, whole)).filter(({ path }) => inScope(path, scope));
    const edits = changes.map(({ path, to: entry }) => ({ path, entry }));
    await using scratch = await openScratch(repository.home);
    return await buildTree({ repository, base: from, edits, scratch: scratch.folder });
  }
}

/** Reads no driver, textconv or rename setting from the configuration. */
export const DIFF_TREE: readonly string[] =
  "-c core.quotePath=false diff-tree -r --find-renames --no-ext-diff --no-textconv".split(" ");

/** The names of all files in a tree. */
export async function listFiles(repository: Repository, tree: string): Promise<readonly GitPath[]> {
  const args = ["ls-tree", "-r", "--name-only", "--full-tree", "-z", await treeOf(repository, tree)];
  return splitRecords(await repository.objects.output({ args, maxOutputBytes: MAX_TEXT_BYTES })).map(quotePath);
}

const FORMATS: Readonly<Record<DiffParams["format"], string>> = {
  patch: "--patch",
  stat: "--stat",
  names: "--name-status",
  counts: "--numstat",
};
const MAX_TEXT_BYTES = 256 * 1024 * 1024;

async function treeOf(repository: Repository, name: string): Promise<string> {
  const found = await findObject(repository.git, `${name}^{tree}`);
  if (found !== null) return found;
  throw new HoldfastError({
    code: "TREE_MISSING",
    message: `${name} is not a tree or commit in this repository`,
    hint: "Fetch refs/holdfast/* from where the snapshot was taken, or choose another checkpoint.",
  });
}

/** Parses the output of DIFF_TREE with `--raw -z`. */
export function parseFiles(raw: Buffer): readonly (Diff["files"][number] & Pick<ChangedFile, "digest">)[] {
  const records = splitRecords(raw);
  const files: (Diff["files"][number] & Pick<ChangedFile, "digest">)[] = [];
  for (let at = 0; at < records.length;) {
    const [, , , id = null, status = "M"] = records[at]?.split(" ") ?? [];
    const letter = status[0] ?? "M";
    const first = quotePath(records[at + 1] ?? "");
    const renamed = letter === "R";
    const path = renamed ? quotePath(records[at + 2] ?? "") : first;
    const digest = letter === "D" ? null : id;
    files.push({ path, status: STATUS.get(letter) ?? "modified", from: renamed ? first : null, digest });
    at += renamed ? 3 : 2;
  }
  return files;
}

const STATUS = new Map<string, Diff["files"][number]["status"]>([
  ["A", "added"],
  ["M", "modified"],
  ["D", "deleted"],
  ["R", "renamed"],
  ["T", "type_changed"],
]);

export interface TreeEntry {
  readonly mode: string;
  readonly id: string;
}

export interface TreeChange {
  readonly path: RawPath;
  readonly from: TreeEntry | null;
  readonly to: TreeEntry | null;
}

/**
 * Every path in which two trees differ, in git's order. It reads trees only, so attributes and drivers have no effect.
 */
export async function diffTrees(git: Git, from: string, to: string): Promise<TreeChange[]> {
  const args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv"];
  return parseRawDiff(await git.output({ args: [...args, "--end-of-options", from, to] }));
}

/** Like `diffTrees`, for objects named by their whole ids, whose difference never changes. */
export function diffObjects(repository: Repository, from: string, to: string): Promise<readonly TreeChange[]> {
  if (from === to) return Promise.resolve([]);
  return recallChanges(`${repository.objectDirectory} ${from} ${to}`, () => diffTrees(repository.objects, from, to));
}

// Most questions are about the same files as the one before.
const recallChanges = createFacts<readonly TreeChange[]>(4);

function parseRawDiff(output: Buffer): TreeChange[] {
  const records = splitRecords(output);
  const changes: TreeChange[] = [];
  for (let at = 0; at + 1 < records.length; at += 2) {
    // Format: ":100644 000000 <id> <id> D".
    const [fromMode = "", toMode = "", fromId = "", toId = ""] = (records[at] ?? "").slice(1).split(" ");
    changes.push({
      path: records[at + 1] ?? "",
      from: fromMode === NONE ? null : { mode: fromMode, id: fromId },
      to: toMode === NONE ? null : { mode: toMode, id: toId },
    });
  }
  return changes;
}

const NONE = "000000";

/** Writes a tree with some paths replaced; a null entry removes the path. */
export async function buildTree(params: {
  readonly repository: Repository;
  readonly base: string;
  readonly edits: readonly { readonly path: RawPath; readonly entry: TreeEntry | null }[];
  readonly scratch: string;
}): Promise<string> {
  const { repository, base, edits, scratch } = params;
  if (edits.length === 0) return base;
  const git = privateGit(repository, scratch, join(scratch, "tree-index"));
  await git.output({ args: [...WHOLE_INDEX, "read-tree", base] });
  // Removals come first, because a directory may become a file or a file a directory.
  const gone = edits.filter(({ entry }) => entry === null).map(({ path }) => `0 ${repository.zero}\t${path}`);
  const set = edits.flatMap(({ path, entry }) => (entry === null ? [] : [`${entry.mode} ${entry.id}\t${path}`]));
  await git.output({
    args: [...WHOLE_INDEX, "update-index", "-z", "--index-info"],
    input: joinRecords([...gone, ...set]),
  });
  return git.line({ args: [...WHOLE_INDEX, "write-tree"] });
}

// The index is temporary, so splitting it has no benefit.
const WHOLE_INDEX = ["-c", "core.splitIndex=false"];

/** Files and directories that a caller selected. The root is "". */
type PathScope = ReadonlySet<RawPath>;

export function parseScope(paths: readonly GitPath[]): PathScope {
  return new Set(
    paths.map((text) => {
      const path = parsePath(text)
        ?.replace(/^(?:\.\/+)+/, "")
        .replace(/\/+$/, "");
      if (path === "" || path === ".") return "";
      if (path !== undefined && isSafePath(path)) return path;
      throw new HoldfastError({
        code: "USAGE",
        message: `${text} is not a path inside the worktree`,
        hint: "Give paths relative to the root of the worktree.",
      });
    }),
  );
}

/** True if the path is one of these or below one of them. */
export function inScope(path: RawPath, scope: PathScope): boolean {
  if (scope.size === 0) return false;
  for (let at = path; at !== ""; at = parentOf(at)) if (scope.has(at)) return true;
  return scope.has("");
}
