// Copies files that git ignores, such as `.env`, from the main checkout into the worktree of a run (`workspace.copy`).

import { globSync, lstatSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, sep } from "node:path";
import type { Outputs } from "@holdfast/platform/outputs";
import { HoldfastError, errorCode } from "@holdfast/platform/error";
import { type RegularFile, fileKind, readRegularFile } from "@holdfast/platform/files";
import { sha256 } from "./json.ts";
import { MAX_SEARCHED } from "./known-secrets.ts";
import type { Workspace } from "./workspace.ts";

/** Whether a user may name this in `workspace.copy`: a path or pattern below the checkout, and not in git's own directory. */
export function isCopyPattern(pattern: string): boolean {
  const segments = pattern.split("/");
  const isPlain = segments.every((name) => name !== "" && name !== "." && name !== ".." && !/[\0\\]/.test(name));
  return isPlain && !isAbsolute(pattern) && segments[0]?.toLowerCase() !== ".git";
}

/** What an earlier copy did: digests of the sources, by path. */
export type Copied = Readonly<Record<string, string>>;

export interface CopyResult {
  readonly copied: Copied;
  /** Paths that were written now. */
  readonly written: readonly string[];
  /** What the user should know: files that were not copied, and why. */
  readonly problems: readonly string[];
}

/**
 * Copies each file that is new, changed in the checkout, or gone from the worktree, with its mode. A file that git does not
 * ignore in the worktree is not copied: it would reach commits and checkpoints. Links are never followed. A path is kept out of captures
 * before it is written, and the secrets of the old and the new file are masked from then on.
 */
export async function copyIgnoredFiles(params: {
  /** The main checkout. */
  readonly from: string;
  readonly workspace: Pick<Workspace, "root" | "notIgnored" | "keepOut">;
  readonly outputs: Pick<Outputs, "write">;
  readonly patterns: readonly string[];
  readonly before: Copied;
}): Promise<CopyResult> {
  const { from, workspace, outputs, before } = params;
  const { paths: named, problems } = findSources(from, params.patterns);
  const { learnFile } = await import("./file-secrets.ts");
  // The branch of a run may bring a link to a folder outside of the worktree.
  const isLinked = (path: string): boolean => isBehindLink(workspace.root, dirname(path));
  const paths = named.filter((path) => !isLinked(path));
  for (const path of named.filter(isLinked))
    problems.push(`${path} is not copied: its folder in the worktree is a link`);
  const shown = new Set(await workspace.notIgnored(paths));
  const copied: Record<string, string> = {};
  const written: string[] = [];
  for (const path of paths) {
    if (shown.has(path)) {
      problems.push(`${path} is not copied: git does not ignore it, so commits would contain it. Add it to .gitignore`);
      continue;
    }
    const file = readSource(from, path);
    if (file.kind !== "read") {
      if (file.kind === "refused") problems.push(`${path} is not copied: ${file.why}`);
      continue;
    }
    if (file.bytes.length > MAX_SEARCHED)
      problems.push(`${path} has more than ${MAX_SEARCHED} bytes, so secrets in it are not masked`);
    learnFile(path, file.bytes);
    const permissions = statSync(join(from, path)).mode & 0o777;
    const digest = copyDigest(permissions, file.bytes);
    const there = fileKind(join(workspace.root, path));
    if (before[path] !== digest || there === "absent") {
      if (there === "directory") {
        problems.push(`${path} is not copied: it is a directory in the worktree. Remove it there`);
        continue;
      }
      await learnCopy(workspace.root, path);
      await workspace.keepOut([path]);
      await outputs.write(path, file.bytes, permissions);
      written.push(path);
    }
    copied[path] = digest;
  }
  return { copied, written, problems };
}

/** A file that was copied and has not changed since has the same one. */
export function copyDigest(permissions: number, bytes: Uint8Array): string {
  return sha256(`${permissions.toString(8)}\n${sha256(bytes)}`).slice(0, 16);
}

/** Throws IO_FAILED: an agent would work, and be paid, without a file that the user named. */
function readSource(from: string, path: string): RegularFile {
  try {
    return readRegularFile({ path: join(from, path), maxBytes: MAX_BYTES });
  } catch (cause) {
    throw new HoldfastError({
      code: "IO_FAILED",
      message: `${path} cannot be copied into the worktree: it cannot be read (${errorCode(cause) ?? String(cause)})`,
      hint: `Make ${join(from, path)} readable, or remove it from workspace.copy in the config. Then resume the run.`,
      retry: "later",
      data: { path },
      cause,
    });
  }
}

/** Knows the secrets of a copy in the worktree: agents may have seen them, also if the user's file has other content by now. */
export async function learnCopy(root: string, path: string): Promise<void> {
  // Loaded on demand, because it loads the YAML parser.
  const { learnFile } = await import("./file-secrets.ts");
  try {
    const file = readRegularFile({ path: join(root, path), maxBytes: MAX_BYTES });
    if (file.kind === "read") learnFile(path, file.bytes);
  } catch {
    // What cannot be read cannot be printed by an agent either.
  }
}

/**
 * Returns a function that reads the secrets of the files to copy, for the moment before the first text is masked. Files above the limits are
 * read when they are copied.
 */
export async function createCopiedFilesReader(from: string, patterns: readonly string[]): Promise<() => void> {
  if (patterns.length === 0) return () => undefined;
  const { learnFile } = await import("./file-secrets.ts");
  return () => {
    let left = MAX_SEARCHED_OF_ALL;
    for (const path of findSources(from, patterns).paths) {
      try {
        const file = readRegularFile({ path: join(from, path), maxBytes: Math.min(MAX_SEARCHED, left) });
        if (file.kind !== "read") continue;
        left -= file.bytes.length;
        learnFile(path, file.bytes);
      } catch {
        // It cannot be copied either, which the run reports.
      }
    }
  };
}

const MAX_SEARCHED_OF_ALL = 16 * 1024 * 1024;
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_FILES = 1000;

function findSources(
  root: string,
  patterns: readonly string[],
): { readonly paths: readonly string[]; readonly problems: string[] } {
  const problems: string[] = [];
  const found = new Set<string>();
  for (const pattern of patterns) {
    const matches = matchesOf(root, pattern);
    if (matches.length === 0 && !/[*?[{]/.test(pattern))
      problems.push(`${pattern} is not in ${root}, so it is not copied`);
    for (const path of matches) {
      if (isBehindLink(root, path)) problems.push(`${path} is not copied: it is a link or behind one`);
      else if (fileKind(join(root, path)) === "file") found.add(path);
      else if (path === pattern) problems.push(notAFile(root, path));
    }
  }
  if (found.size > MAX_FILES) problems.push(`workspace.copy matches ${found.size} files; only ${MAX_FILES} are copied`);
  return { paths: [...found].toSorted().slice(0, MAX_FILES), problems };
}

function notAFile(root: string, path: string): string {
  if (fileKind(join(root, path)) !== "directory") return `${path} is not copied: it is not a regular file`;
  return `${path} is not copied: it is a directory. Name its files, such as ${path}/**`;
}

function matchesOf(root: string, pattern: string): readonly string[] {
  // A literal name may contain characters that a pattern cannot.
  if (!/[*?[{]/.test(pattern)) return fileKind(join(root, pattern)) === "absent" ? [] : [pattern];
  return globSync(pattern, { cwd: root, exclude: (name) => SKIPPED.has(name) })
    .map((path) => path.replaceAll(sep, "/"))
    .filter(isCopyPattern);
}

const SKIPPED: ReadonlySet<string> = new Set([".git", "node_modules"]);

/** A link could lead out of the checkout, to files that the user did not name. */
function isBehindLink(root: string, path: string): boolean {
  const segments = path.split("/");
  return segments.some(
    (_, at) =>
      lstatSync(join(root, ...segments.slice(0, at + 1)), { throwIfNoEntry: false })?.isSymbolicLink() === true,
  );
}
