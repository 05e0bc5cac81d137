// Names that a file system does not distinguish: how it compares them, and how to change their spelling.

import { randomBytes } from "node:crypto";
import { type BigIntStats, lstatSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type TypeOf, list, object, parseJsonAs, text } from "@holdfast/core/json";
import { livenessOf, processIdentity } from "@holdfast/platform/identity";
import { absolutePath, parentOf } from "./capture-plan.ts";
import { type RawPath, pathBytes } from "./paths.ts";
import { PROCESS, openScratch } from "./private-index.ts";

/** How a file system compares names. */
export interface NameRules {
  readonly ignoresCase: boolean;
  /** True if the composed and the decomposed form of a character are the same name. */
  readonly ignoresForm: boolean;
}

export const EXACT_NAMES: NameRules = { ignoresCase: false, ignoresForm: false };

/** True if two different names can be the same file. */
export function foldsNames({ ignoresCase, ignoresForm }: NameRules): boolean {
  return ignoresCase || ignoresForm;
}

/** Asks the file system of our own folder. */
export async function probeNames(home: string, platform: NodeJS.Platform = process.platform): Promise<NameRules> {
  const ignoresCase = isSameFile(home, join(dirname(home), basename(home).toUpperCase()));
  // On Linux, a file system that ignores the form ignores the case too. So the common case writes nothing.
  const ignoresForm = (ignoresCase || platform === "darwin") && (await ignoresUnicodeForm(home));
  return { ignoresCase, ignoresForm };
}

/** The rules of a worktree. Its root may be on another file system than its git directory. */
export async function probeWorktreeNames(
  root: string,
  home: string,
  platform: NodeJS.Platform = process.platform,
): Promise<NameRules> {
  const ofHome = await probeNames(home, platform);
  if (lstatSync(root).dev === lstatSync(home).dev) return ofHome;
  const ignoresCase = isSameFile(join(root, ".git"), join(root, ".GIT"));
  // Nothing is written into a worktree for a probe. Too much care costs a little time and changes no result.
  return { ignoresCase, ignoresForm: ignoresCase || platform === "darwin" };
}

async function ignoresUnicodeForm(home: string): Promise<boolean> {
  await using scratch = await openScratch(home);
  await writeFile(join(scratch.folder, COMPOSED), "");
  return lstatSync(join(scratch.folder, COMPOSED.normalize("NFD")), { throwIfNoEntry: false }) !== undefined;
}

const COMPOSED = "\u00e4";

function isSameFile(one: string, other: string): boolean {
  const [a, b] = [one, other].map((path) => lstatSync(path, { throwIfNoEntry: false }));
  return a !== undefined && b !== undefined && a.dev === b.dev && a.ino === b.ino;
}

/**
 * Names that a file system may take for one have equal folds. It is only a hint, because file systems fold in different
 * ways: `createNameKey` asks the disk.
 */
export function foldName(path: RawPath): string {
  // eslint-disable-next-line no-control-regex -- ASCII is what it looks for
  if (/^[\x00-\x7f]*$/.test(path)) return path.toLowerCase();
  const text = pathBytes(path).toString("utf8");
  // Upper case first: it joins characters that lower case alone keeps apart, such as the two forms of a sigma.
  return text.includes("\uFFFD") ? path : text.normalize("NFD").toUpperCase().toLowerCase().normalize("NFD");
}

/**
 * Returns a key that is equal for two paths if they are one file on disk. Files that exist are compared by inode, so
 * that the disk decides. For absent files the fold decides. Without folding, each path is its own key.
 */
export function createNameKey(root: string, folds: boolean): (path: RawPath) => string {
  if (!folds) return (path) => path;
  return (path) => {
    const stat = lstat(absolutePath(root, path));
    if (stat === undefined) return `absent:${foldName(path)}`;
    // A file with several hard links has several names of its own.
    const fold = stat.isDirectory() || stat.nlink === 1n ? "" : foldName(path);
    return `${stat.dev}:${stat.ino}:${fold}`;
  };
}

function lstat(path: Buffer): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** A file that keeps its content under another spelling of its name. */
export interface Respelling {
  readonly from: RawPath;
  readonly to: RawPath;
}

interface WorktreePaths {
  readonly root: string;
  /** Our directory inside the worktree's git directory. */
  readonly home: string;
}

/**
 * Spells each path on disk as given, with the directories on the way. Renaming onto an existing name keeps the old
 * spelling, so each name goes through a temporary one. The temporary names are recorded first: after a kill,
 * `finishRespelling` completes the renames.
 */
export function respellPaths({ root, home }: WorktreePaths, wanted: WantedSpelling): void {
  const renames = planRenames(root, wanted);
  if (renames.length === 0) return;
  const record: TypeOf<typeof RECORDED> = {
    holdfast: processIdentity(),
    renames: renames.map(({ draft, to }) => ({ draft, to })),
  };
  writeFileSync(join(home, RECORD), JSON.stringify(record), { mode: 0o600, flush: true });
  for (const { from, draft, to } of renames) {
    renameSync(absolutePath(root, from), absolutePath(root, draft));
    try {
      renameSync(absolutePath(root, draft), absolutePath(root, to));
    } catch (error) {
      renameSync(absolutePath(root, draft), absolutePath(root, from));
      throw error;
    }
  }
  rmSync(join(home, RECORD));
}

/** Completes the renames of a process that was killed between two of them. */
export function finishRespelling(worktree: WorktreePaths): void {
  const { root, home } = worktree;
  const found = parseJsonAs(RECORDED, readQuietly(join(home, RECORD)));
  if (found === undefined || livenessOf(found.holdfast, processIdentity()) !== "dead") return;
  for (const { draft, to } of found.renames) {
    const [half, whole] = [draft, to].map((path) => absolutePath(root, path));
    if (half === undefined || whole === undefined) continue;
    // A path beyond a link is not in this worktree.
    if (!isHere(half) || isHere(whole) || !DRAFT.test(draft)) continue;
    renameSync(half, whole);
  }
  rmSync(join(home, RECORD), { force: true });
}

const RECORD = "respelling.json";
const DRAFT = /\.holdfast-[0-9a-f]{12}$/;

const RECORDED = object({ holdfast: PROCESS, renames: list(object({ draft: text, to: text })) });

interface Rename extends Respelling {
  /** The temporary name, in the same directory. */
  readonly draft: RawPath;
}

/** Paths as they are to be spelled. Those that do not exist are ignored. */
export interface WantedSpelling {
  readonly files: readonly RawPath[];
  readonly folders: readonly RawPath[];
  /** Names the directories that keep their spelling, because the target has several for them. */
  readonly isAmbiguous: (folder: RawPath) => boolean;
}

/** Parents come first, so that a child is renamed below the new spelling. Every path resolves in any spelling. */
function planRenames(root: string, { files, folders, isAmbiguous }: WantedSpelling): readonly Rename[] {
  const names = new Map<RawPath, readonly RawPath[]>();
  const leaves = new Set(files);
  const wanted = new Set([...files, ...folders].flatMap((path) => [...foldersOf(path), path]));
  wanted.delete("");
  return [...wanted]
    .toSorted((a, b) => a.length - b.length)
    .flatMap((to) => {
      if (!leaves.has(to) && isAmbiguous(to)) return [];
      const folder = parentOf(to);
      const listed = names.get(folder) ?? namesIn(root, folder);
      names.set(folder, listed);
      const name = to.slice(folder === "" ? 0 : folder.length + 1);
      const stored = spellingOnDisk({ root, folder, name, listed });
      if (stored === undefined || stored === name) return [];
      // A directory keeps its Unicode form: some file systems store only one form, and no content depends on it.
      if (!leaves.has(to) && composed(stored) === composed(name)) return [];
      const from = folder === "" ? stored : `${folder}/${stored}`;
      return [{ from, to, draft: `${to}.holdfast-${randomBytes(6).toString("hex")}` }];
    });
}

function foldersOf(path: RawPath): readonly RawPath[] {
  const folders: RawPath[] = [];
  for (let at = parentOf(path); at !== ""; at = parentOf(at)) folders.push(at);
  return folders;
}

/** The name under which the directory lists the file; undefined if there is no such file. */
function spellingOnDisk(at: {
  readonly root: string;
  readonly folder: RawPath;
  readonly name: RawPath;
  readonly listed: readonly RawPath[];
}): RawPath | undefined {
  if (at.listed.includes(at.name)) return at.name;
  const prefix = at.folder === "" ? "" : `${at.folder}/`;
  const found = identify(absolutePath(at.root, prefix + at.name));
  if (found === undefined) return undefined;
  const fold = foldName(at.name);
  // The fold comes first: a hard link has the same inode and is another name.
  const sorted = at.listed.toSorted((a, b) => Number(foldName(b) === fold) - Number(foldName(a) === fold));
  return sorted.find((name) => identify(absolutePath(at.root, prefix + name)) === found);
}

function namesIn(root: string, folder: RawPath): readonly RawPath[] {
  try {
    return readdirSync(absolutePath(root, folder), { encoding: "buffer" }).map((name) => name.toString("latin1"));
  } catch {
    return [];
  }
}

function identify(path: Buffer): string | undefined {
  const stat = lstat(path);
  return stat === undefined ? undefined : `${stat.dev}:${stat.ino}`;
}

function isHere(path: Buffer): boolean {
  return identify(path) !== undefined;
}

function composed(name: RawPath): string {
  return pathBytes(name).toString("utf8").normalize("NFC");
}

function readQuietly(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
