// Reads HEAD and refs without git, where git stores them as files. A process for each would cost milliseconds.

import { lstatSync, readFileSync, readdirSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { errorCode } from "@holdfast/platform/error";
import type { RawPath } from "./paths.ts";

/**
 * Directory names here are bytes, one character each, as in a RawPath: a repository can have any path and any ref name.
 */
export function toRawPath(folder: string): RawPath {
  return Buffer.from(folder, "utf8").toString("latin1");
}

/** The commit that HEAD of a git directory resolves to, where refs are files; null if it resolves to none. */
export function readGitDirHead(gitDir: RawPath): string | null {
  const common = readText(join(gitDir, "commondir"));
  const commonDir = common === undefined ? gitDir : resolveFrom(gitDir, common);
  return readRef({ gitDir, commonDir, name: "HEAD", depth: 0, packed: createPackedReader(commonDir) });
}

/** The ids that refs have, where refs are files; null for one that has none, or if git has to be asked. */
export function readRefFiles(commonDir: RawPath, names: readonly string[]): readonly (string | null)[] {
  const packed = createPackedReader(commonDir);
  return names.map((name) => {
    if (!REF_NAME.test(name)) return null;
    return readRef({ gitDir: commonDir, commonDir, name: toRawPath(name), depth: 1, packed });
  });
}

/**
 * All refs below these folders, such as `refs/heads/`, with their ids, in git's order; null: git has to be asked. Git
 * writes a ref to `packed-refs` before it deletes its file, so the files are read first.
 */
export function listRefFiles(commonDir: RawPath, folders: readonly string[]): ReadonlyMap<string, string> | null {
  const head = readText(join(commonDir, "HEAD"));
  if (head === undefined || !hasRefFiles(head)) return null;
  try {
    const loose = folders.flatMap((folder) => readRefFolder(commonDir, toRawPath(folder)));
    const path = join(commonDir, "packed-refs");
    const text = isAbsent(path) ? "" : readText(path);
    if (text === undefined) return null;
    const packed = text.split("\n").flatMap(parsePackedRef);
    const below = packed.filter(([name]) => folders.some((folder) => name.startsWith(toRawPath(folder))));
    const ids = [...new Map([...below, ...loose])].toSorted(([one], [other]) => (one < other ? -1 : 1));
    return new Map(ids.map(([name, id]) => [Buffer.from(name, "latin1").toString("utf8"), id]));
  } catch {
    return null;
  }
}

/** Throws for a symbolic ref, and for one that is just being removed. */
function readRefFolder(commonDir: RawPath, folder: RawPath): readonly [name: RawPath, id: string][] {
  const path = join(commonDir, folder);
  if (isAbsent(path)) return [];
  const entries = readdirSync(Buffer.from(path, "latin1"), { withFileTypes: true, encoding: "buffer" });
  return entries.flatMap((entry) => {
    const name = `${folder}${entry.name.toString("latin1")}`;
    if (entry.isDirectory()) return readRefFolder(commonDir, `${name}/`);
    if (name.endsWith(".lock")) return [];
    const id = readText(join(commonDir, name));
    if (id === undefined || !/^[0-9a-f]{40,64}$/.test(id)) throw new TypeError(`${name} does not name an object`);
    return [[name, id]];
  });
}

/**
 * True if the files prove that neither this ref nor any below it exists. False proves nothing: then git has to be asked.
 * Git writes a ref to `packed-refs` before it deletes its file, so the file is checked first.
 */
export function isRefAbsent(commonDir: RawPath, name: string): boolean {
  const head = readText(join(commonDir, "HEAD"));
  if (!REF_NAME.test(name) || head === undefined || !hasRefFiles(head)) return false;
  const raw = toRawPath(name);
  if (!isAbsent(join(commonDir, raw))) return false;
  const packed = join(commonDir, "packed-refs");
  const text = readText(packed);
  if (text === undefined) return isAbsent(packed);
  return !text.split("\n").some((line) => `${line.slice(line.indexOf(" ") + 1)}/`.startsWith(`${raw}/`));
}

/** False for the content of a HEAD in a repository whose refs are stored in another way (reftable). */
export function hasRefFiles(head: string): boolean {
  return !head.includes("/.invalid");
}

/** Anything but the full name of a ref could be a path or an expression. */
const REF_NAME = /^refs\/[^\s~^:?*[\\]+$/;

const MAX_BYTES = 16 * 1024 * 1024;
const MAX_DEPTH = 5;

interface RefPlace {
  readonly gitDir: string;
  readonly commonDir: string;
  readonly name: string;
  readonly depth: number;
  readonly packed: (name: string) => string | null;
}

function readRef(at: RefPlace): string | null {
  if (at.depth > MAX_DEPTH || at.name.includes("..")) return null;
  const text = readText(join(at.depth === 0 ? at.gitDir : at.commonDir, at.name));
  if (text === undefined) return at.depth === 0 ? null : at.packed(at.name);
  if (/^[0-9a-f]{40,64}$/.test(text)) return text;
  const target = /^ref: (refs\/.+)$/.exec(text)?.[1];
  return target === undefined ? null : readRef({ ...at, name: target, depth: at.depth + 1 });
}

/** Reads the file of packed refs when the first one is asked for. */
function createPackedReader(commonDir: string): RefPlace["packed"] {
  let ids: ReadonlyMap<string, string> | undefined;
  return (name) => {
    ids ??= new Map((readText(join(commonDir, "packed-refs"))?.split("\n") ?? []).flatMap(parsePackedRef));
    return ids.get(name) ?? null;
  };
}

function parsePackedRef(line: string): [name: string, id: string][] {
  const space = line.indexOf(" ");
  return /^[0-9a-f]{40}/.test(line) ? [[line.slice(space + 1), line.slice(0, space)]] : [];
}

/** The git directory that a `.git` leads to: itself, or the one that the file names; undefined if there is none. */
export function resolveGitLink(dotGit: string): string | undefined {
  const bytes = Buffer.from(dotGit, "latin1");
  try {
    if (lstatSync(bytes).isDirectory()) return dotGit;
  } catch {
    return undefined;
  }
  const target = /^gitdir: (.+)$/.exec(readText(dotGit) ?? "")?.[1];
  return target === undefined ? undefined : resolveFrom(dirname(dotGit), target);
}

function resolveFrom(folder: string, target: string): string {
  return isAbsolute(target) ? target : join(folder, target);
}

function readText(path: string): string | undefined {
  const bytes = Buffer.from(path, "latin1");
  try {
    const stat = lstatSync(bytes);
    // A pipe at the path of a ref would block us for ever.
    if (!stat.isFile() || stat.size > MAX_BYTES) return undefined;
    return readFileSync(bytes, "latin1").trimEnd();
  } catch {
    return undefined;
  }
}

function isAbsent(path: string): boolean {
  try {
    lstatSync(Buffer.from(path, "latin1"));
    return false;
  } catch (error) {
    return errorCode(error) === "ENOENT";
  }
}
