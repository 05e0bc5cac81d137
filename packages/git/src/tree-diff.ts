// Differences between git trees, trees with replaced paths, and path scopes. A difference can be split into hunks that a user chooses singly:
// git makes and applies the patches, on trees and a temporary index, so neither the worktree nor the user's index is touched.

import { join } from "node:path";
import type { ChangedFile } from "@holdfast/core/branch";
import type { GitPath } from "@holdfast/core/checkpoint";
import { isObjectId } from "@holdfast/core/journal";
import type { Diff, DiffParams, FilePatch, PreviewSnapshot } from "@holdfast/core/workspace";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { Git } from "@holdfast/platform/git-command";
import { parentOf } from "./capture-plan.ts";
import { createFacts } from "./facts.ts";
import { findObject } from "./objects.ts";
import { type RawPath, isSafePath, joinRecords, parsePath, quotePath, splitRecords } from "./paths.ts";
import { openScratch } from "./private-index.ts";
import { type Repository, privateGit } from "./repository.ts";
import { readCaptureOptions, writeSnapshotObject } from "./snapshot-object.ts";

/** The difference of two trees as text and as a list. It runs without any configured driver, textconv or pager. */
export async function diffSnapshots(repository: Repository, params: DiffParams): Promise<Diff> {
  const [from, whole] = await Promise.all([treeOf(repository, params.from), treeOf(repository, params.to)]);
  const scope = params.paths === undefined ? null : parseScope(params.paths);
  const paths = scope === null ? [] : plainPaths(scope);
  const to = scope === null || paths.length > 0 ? whole : await limitTo(scope);
  const color = params.color === true ? "--color=always" : "--no-color";
  const ends = ["--end-of-options", from, to, "--", ...paths];
  const [text, raw] = await Promise.all([
    repository.objects.output({
      args: [...DIFF_TREE, FORMATS[params.format], color, ...ends],
      maxOutputBytes: MAX_TEXT_BYTES,
    }),
    repository.objects.output({ args: [...DIFF_TREE, "--raw", "-z", "--no-abbrev", ...ends] }),
  ]);
  return {
    text: text.toString("utf8"),
    files: parseFiles(raw).map(({ path, status, from: before }) => ({ path, status, from: before })),
  };

  // Git takes paths as arguments, and arguments cannot contain every byte. Therefore the scope is applied to the tree.
  async function limitTo(scope: PathScope): Promise<string> {
    const changes = (await diffTrees(repository.objects, from, whole)).filter(({ path }) => inScope(path, scope));
    const edits = changes.map(({ path, to: entry }) => ({ path, entry }));
    await using scratch = await openScratch(repository.home);
    return await buildTree({ repository, base: from, edits, scratch: scratch.folder });
  }
}

/** The paths as arguments, if there are few and all are plain text. This needs no tree of their own, and writes nothing. */
function plainPaths(scope: PathScope): readonly string[] {
  const paths = [...scope];
  return paths.length <= MAX_ARGUMENTS && paths.every((path) => PLAIN.test(path)) ? paths : [];
}

const MAX_ARGUMENTS = 20;
const PLAIN = /^[ -~]{1,1000}$/;

/** Reads no driver, textconv or rename setting from the configuration. Paths that follow are names, not patterns. */
export const DIFF_TREE: readonly string[] =
  "--literal-pathspecs -c core.quotePath=false diff-tree -r --find-renames --no-ext-diff --no-textconv".split(" ");

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
  const isId = isObjectId(name);
  const object = `${name}^{tree}`;
  const found = isId
    ? await recallTree(`${repository.objectDirectory} ${name}`, () => findObject(repository.objects, object))
    : await findObject(repository.git, object);
  if (found !== null) return found;
  throw new HoldfastError({
    code: "TREE_MISSING",
    message: `${name} is not a tree or commit in this repository`,
    hint: "If another machine took the snapshot, run `holdfast store fetch RUN`. Otherwise choose another checkpoint.",
  });
}

// A page asks for many files of the same two trees.
const recallTree = createFacts<string | null>(32);

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

export function isSameEntry(a: TreeEntry | null, b: TreeEntry | null): boolean {
  return a?.id === b?.id && a?.mode === b?.mode;
}

/** A file of a tree. */
export interface NamedEntry extends TreeEntry {
  readonly path: RawPath;
}

/** All files of a tree, submodules included. */
export async function listEntries({ objects }: Repository, tree: string): Promise<readonly NamedEntry[]> {
  const output = await objects.output({ args: ["ls-tree", "-r", "-z", "--full-tree", tree] });
  return splitRecords(output).map((record) => {
    // Format: "100644 blob <id>\t<path>".
    const tab = record.indexOf("\t");
    const [mode = "", , id = ""] = record.slice(0, tab).split(" ");
    return { path: record.slice(tab + 1), mode, id };
  });
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
      throw usageError(`${text} is not a path inside the worktree`, "Give paths relative to the root of the worktree.");
    }),
  );
}

/** True if the path is one of these or below one of them. */
export function inScope(path: RawPath, scope: PathScope): boolean {
  if (scope.size === 0) return false;
  for (let at = path; at !== ""; at = parentOf(at)) if (scope.has(at)) return true;
  return scope.has("");
}

/** Each setting of the user that could change the patch is set here. */
const PATCH = [
  ..."-c core.quotePath=false -c diff.suppressBlankEmpty=false diff-tree -r --patch --binary --full-index".split(" "),
  ..."--no-renames --no-color --no-ext-diff --no-textconv --unified=3 --inter-hunk-context=0".split(" "),
  ..."--src-prefix=a/ --dst-prefix=b/ --end-of-options".split(" "),
];
const MAX_BYTES = 256 * 1024 * 1024;

/** In git's order. */
export async function readPatches(
  repository: Repository,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<readonly FilePatch[]> {
  const [changes, output] = await Promise.all([
    diffTrees(repository.objects, from, to),
    repository.objects.output({ args: [...PATCH, from, to], maxOutputBytes: MAX_BYTES }),
  ]);
  // Files may have any encoding. As Latin-1, each byte is one character and survives.
  const sections = splitSections(output.toString("latin1"));
  return changes.map((change) => {
    const own = sections.splice(0, isOtherType(change) ? 2 : 1);
    return { path: quotePath(change.path), ...partsOf(change, own) };
  });
}

/** The snapshot `to`, with the files of tree `from` and these patches. It can be restored to; it is not pinned. */
export async function applyPatches(
  repository: Repository,
  params: { readonly from: string; readonly to: PreviewSnapshot; readonly patches: readonly FilePatch[] },
): Promise<PreviewSnapshot> {
  const { from, to, patches } = params;
  await using scratch = await openScratch(repository.home);
  const git = privateGit(repository, scratch.folder, join(scratch.folder, "patch-index"));
  await git.output({ args: [...WHOLE_INDEX, "read-tree", from] });
  const input = Buffer.from(patches.map(formatPatch).join(""), "latin1");
  await git.output({ args: ["apply", "--cached", "--whitespace=nowarn", "--binary", "-p1", "-"], input });
  const tree = await git.line({ args: [...WHOLE_INDEX, "write-tree"] });
  const capture = await readCaptureOptions(repository, to.snapshot);
  const object = { tree, head: to.head, index: to.index, capture };
  const snapshot = await writeSnapshotObject(repository, object, { message: "hunks\n\n", epochSeconds: 0 });
  return { ...to, tree, snapshot };
}

/** The patch of one file, as git prints it. */
interface Section {
  /** From its `diff --git` line to its first hunk. */
  readonly header: string;
  readonly hunks: readonly string[];
}

/** Lines of a hunk are counted, because they may look like anything. */
function splitSections(text: string): Section[] {
  const sections: { header: string; hunks: string[] }[] = [];
  let [removed, added] = [0, 0];
  for (const line of text.split(/(?<=\n)/)) {
    const isInHunk = removed + added > 0;
    if (!isInHunk && line.startsWith("diff --git ")) sections.push({ header: "", hunks: [] });
    const section = sections.at(-1);
    if (section === undefined) continue;
    if (!isInHunk && line.startsWith("@@ ")) {
      const { old, now } = rangesOf(line);
      [removed, added] = [old.count, now.count];
      section.hunks.push(line);
      continue;
    }
    if (section.hunks.length === 0) section.header += line;
    else section.hunks.push(`${section.hunks.pop() ?? ""}${line}`);
    if (isInHunk && /^[- ]/.test(line)) removed -= 1;
    if (isInHunk && /^[+ ]/.test(line)) added -= 1;
  }
  return sections;
}

/** A new, deleted or binary file, and one with another mode or type, is a single part: half of it has no meaning. */
function partsOf(change: TreeChange, sections: readonly Section[]): Section {
  const [only, ...more] = sections;
  const isWhole =
    only === undefined || more.length > 0 || only.hunks.length === 0 || change.from?.mode !== change.to?.mode;
  if (!isWhole) return only;
  return { header: "", hunks: [sections.map(({ header, hunks }) => header + hunks.join("")).join("")] };
}

/** Git looks for a hunk at its new position, which depends on the hunks before it that are applied. */
function formatPatch({ header, hunks }: FilePatch): string {
  let shift = 0;
  const placed = hunks.map((hunk) => {
    if (header === "") return hunk;
    const { old, now } = rangesOf(hunk);
    // An empty range names the line before it.
    const first = old.first + shift + (old.count === 0 ? 1 : 0) - (now.count === 0 ? 1 : 0);
    shift += now.count - old.count;
    return hunk.replace(/^@@ -(\S+) \+\S+ @@/, `@@ -$1 +${first},${now.count} @@`);
  });
  return header + placed.join("");
}

interface Range {
  readonly first: number;
  readonly count: number;
}

function rangesOf(line: string): { readonly old: Range; readonly now: Range } {
  const [, a = "0", b = "1", c = "0", d = "1"] = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
  return { old: { first: Number(a), count: Number(b) }, now: { first: Number(c), count: Number(d) } };
}

function isOtherType({ from, to }: TreeChange): boolean {
  return from !== null && to !== null && from.mode.slice(0, 3) !== to.mode.slice(0, 3);
}
