// The repository and the files of the local forge: git plumbing, atomic changes, the log and the lock.

import { closeSync, fsyncSync, ftruncateSync, openSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type * as z from "zod/mini";
import type { Clock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { makeDurableDirectory, readRegularFile, writeDurable } from "@holdfast/platform/files";
import { type Git, createGit, gitError } from "@holdfast/platform/git-command";
import { randomId } from "@holdfast/platform/identity";

/** A repository with the directory that contains the issues and pull requests. */
export interface LocalRepository {
  readonly gitDir: string;
  readonly directory: string;
  readonly git: Git;
  readonly clock: Clock;
}

export function openLocalRepository(params: {
  readonly repository: string;
  readonly directory: string | undefined;
  readonly clock: Clock;
}): LocalRepository {
  const path = resolve(params.repository);
  const gitDir = gitDirOf(path);
  if (gitDir === undefined) {
    throw new HoldfastError({
      code: "FORGE_FAILED",
      message: `there is no git repository at ${path}`,
      hint: "Bring it back (is its drive mounted?), or point the remote at where it is now: `git remote set-url`.",
      retry: "later",
      data: { path },
    });
  }
  // The repository acts as the server, so its hooks do not run: they are for pushes.
  const git = createGit({ cwd: "/", gitDir });
  return { gitDir, directory: localForgeDirectory(params), git, clock: params.clock };
}

/** The directory for issues and pull requests, whether or not it exists. */
export function localForgeDirectory(params: {
  readonly repository: string;
  readonly directory: string | undefined;
}): string {
  if (params.directory !== undefined) return resolve(params.directory);
  const path = resolve(params.repository);
  return join(gitDirOf(path) ?? path, "holdfast-forge");
}

function gitDirOf(path: string): string | undefined {
  return [path, join(path, ".git")].find(isGitDir);
}

/**
 * The path of a remote's URL; null if the URL points to another machine. Relative paths are resolved against `from`.
 */
export function parseLocalRemote(url: string, from: string): string | null {
  if (/^file:\/\//i.test(url)) {
    try {
      return fileURLToPath(url);
    } catch {
      return null;
    }
  }
  // As in git: a colon before any slash means host:path, and scheme:// is a transport.
  if (url === "" || /^[^/]*:/.test(url)) return null;
  return resolve(from, url);
}

function isGitDir(path: string): boolean {
  return ["HEAD", "objects", "refs"].every(
    (name) => statSync(join(path, name), { throwIfNoEntry: false }) !== undefined,
  );
}

/** Commits of the branches, null for one that does not exist. Takes exact names: `main^` is not a branch. */
export async function readBranches(git: Git, branches: readonly string[]): Promise<readonly (string | null)[]> {
  const refs = branches.map((branch) => `refs/heads/${branch}`);
  // Git matches whole path components, so it may list more than these.
  const args = ["for-each-ref", "--format=%(objectname) %(refname)", ...refs.filter((ref) => !ref.includes("\0"))];
  const found = await git.output({ args });
  const ids = new Map(found.toString("utf8").split("\n").map(splitRef));
  return refs.map((ref) => ids.get(ref) ?? null);
}

function splitRef(line: string): [ref: string, id: string] {
  const space = line.indexOf(" ");
  return [line.slice(space + 1), line.slice(0, space)];
}

/** How one commit stands to another: it is in the other's history, has the other in its own, or neither. */
export type Relation = "contained" | "ahead" | "diverged" | "unrelated";

export async function compareCommits(git: Git, one: string, other: string): Promise<Relation> {
  if (one === other) return "contained";
  const args = ["merge-base", one, other];
  const found = await git.result({ args });
  if (found.kind !== "exited" || found.code === null || found.code > 1) throw gitError(args, found);
  const common = found.stdout.toString("utf8").trim();
  if (found.code === 1) return "unrelated";
  return common === one ? "contained" : common === other ? "ahead" : "diverged";
}

type ForgeDirectory = Pick<LocalRepository, "directory">;

/** A file of the forge; undefined if there is none. Users edit these files too, so the content is not trusted. */
export function readForgeFile(
  local: ForgeDirectory,
  path: string,
): { readonly text: string; readonly changedAt: Date } | undefined {
  const full = join(local.directory, path);
  const found = readRegularFile({ path: full, maxBytes: MAX_BYTES });
  switch (found.kind) {
    case "absent":
      return undefined;
    case "refused":
      throw corruptFile(local, path, found.why);
    case "read":
      return { text: decode(local, path, found.bytes), changedAt: statSync(full).mtime };
  }
}

/** Numbers of the files `<number><ending>` in a directory, ascending. */
export function listNumbers(local: ForgeDirectory, folder: string, ending: string): readonly number[] {
  return listNames(join(local.directory, folder))
    .filter((name) => name.endsWith(ending))
    .map((name) => name.slice(0, -ending.length))
    .filter((name) => /^[1-9]\d{0,8}$/.test(name))
    .map(Number)
    .sort((a, b) => a - b);
}

export function corruptFile(local: ForgeDirectory, path: string, why: string): HoldfastError {
  const full = join(local.directory, path);
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `${full} cannot be used: ${why}`,
    hint: "Fix the file by hand, or move it away.",
    retry: "ask",
    data: { path: full, why },
  });
}

const MAX_BYTES = 64 * 1024 * 1024;

function listNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  }
}

function decode(local: ForgeDirectory, path: string, bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw corruptFile(local, path, "it is not UTF-8 text");
  }
}

/** Parses and validates a JSON file of the forge. An error names the file and the position in it. */
export function parseJson<T>(params: JsonFile & { readonly schema: z.ZodMiniType<T> }): T {
  return parseFields({ ...params, value: readJson(params) });
}

/** Validates the content of a file of the forge. */
export function parseFields<T>(params: {
  readonly local: ForgeDirectory;
  readonly path: string;
  readonly value: unknown;
  readonly schema: z.ZodMiniType<T>;
}): T {
  const parsed = params.schema.safeParse(params.value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `;
  throw corruptFile(params.local, params.path, `${where}${issue?.message ?? "it has invalid fields"}`);
}

interface JsonFile {
  readonly local: ForgeDirectory;
  readonly path: string;
  readonly text: string;
}

function readJson(params: JsonFile): unknown {
  try {
    return JSON.parse(params.text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw corruptFile(params.local, params.path, `it is not JSON: ${why}`);
  }
}

/**
 * One change to the forge: one file and one line in its log, applied atomically even across a crash. Apply it only
 * while holding the forge lock.
 */
export interface ForgeChange {
  /** Relative to the forge's directory. */
  readonly path: string;
  readonly text: string;
  /** "create" fails if the file exists, because a user may be writing the same number by hand. */
  readonly mode: "create" | "replace";
  readonly what: ChangeName;
  readonly number: number | null;
  /** The key of the side effect that requested it; null if there was none. */
  readonly key: string | null;
}

type ChangeName =
  | "issue_created"
  | "issue_closed"
  | "labels_set"
  | "comment_created"
  | "comment_deleted"
  | "pull_created"
  | "pull_updated"
  | "pull_merged"
  | "pull_closed"
  | "checks_recorded";

/** Returns false, with nothing changed, if another file now exists at that path. */
export function applyChange(local: LocalRepository, change: ForgeChange): boolean {
  const { path, text, mode, ...what } = change;
  const line = JSON.stringify({ id: randomId(), at: new Date(local.clock.now()).toISOString(), ...what });
  const data = Buffer.from(`${JSON.stringify({ version: 1, path, text, mode, line })}\n`);
  writeDurable({ path: join(local.directory, PENDING), data, mode: "replace" });
  return completePendingChange(local);
}

/** Applies a recorded change. It is idempotent: the file has the whole text, and the line has an id. */
function completePendingChange(local: LocalRepository): boolean {
  const pending = readPending(local);
  if (pending === undefined) return true;
  const path = join(local.directory, pending.path);
  makeDurableDirectory(dirname(path), 0o755);
  const done = placeFile(local, pending);
  if (done) appendLine(local, pending.line);
  rmSync(join(local.directory, PENDING));
  return done;
}

function placeFile(local: LocalRepository, { path, text, mode }: Pending): boolean {
  try {
    writeDurable({ path: join(local.directory, path), data: Buffer.from(text), mode });
    return true;
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
  return readForgeFile(local, path)?.text === text;
}

/** Every change so far, oldest first: name, time and key. */
function readLog(local: Pick<LocalRepository, "directory">): readonly string[] {
  const text = readForgeFile(local, LOG)?.text ?? "";
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .slice(0, -1);
}

const PENDING = "pending.json";
const LOG = "log.jsonl";

interface Pending {
  readonly path: string;
  readonly text: string;
  readonly mode: "create" | "replace";
  readonly line: string;
}

function readPending(local: LocalRepository): Pending | undefined {
  const file = readForgeFile(local, PENDING);
  if (file === undefined) return undefined;
  try {
    const { path, text, line, mode }: Partial<Record<string, unknown>> = JSON.parse(file.text);
    const isPlain = typeof path === "string" && typeof text === "string" && typeof line === "string";
    if (isPlain && !path.includes("..") && (mode === "create" || mode === "replace")) return { path, text, mode, line };
  } catch {
    // The error is thrown below.
  }
  throw corruptFile(local, PENDING, "it does not contain a change");
}

/** Removes a line that a power cut truncated first, because its change was never reported as done. */
function appendLine(local: LocalRepository, line: string): void {
  const whole = readLog(local);
  if (whole.includes(line)) return;
  const fd = openSync(join(local.directory, LOG), "a");
  try {
    ftruncateSync(
      fd,
      whole.reduce((size, text) => size + Buffer.byteLength(text) + 1, 0),
    );
    writeSync(fd, `${line}\n`);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/**
 * Allows one writer at a time across processes. The lock is SQLite's lock on an empty file: the kernel releases it with
 * the process, so a kill leaves nothing to clean up. A change that a killed writer started is completed first.
 */
export async function withForgeLock<T>(local: LocalRepository, work: () => Promise<T>): Promise<T> {
  makeDurableDirectory(local.directory, 0o755);
  const path = join(local.directory, "lock");
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
  const db = new DatabaseSync(path, { timeout: 0 });
  try {
    for (let waited = 0; !tryLock(db); waited += PAUSE_MS) {
      if (waited > PATIENCE_MS) throw lockHeld(path);
      await setTimeout(PAUSE_MS);
    }
    completePendingChange(local);
    return await work();
  } finally {
    db.close();
  }
}

const PAUSE_MS = 15;
const PATIENCE_MS = 60_000;
const SQLITE_BUSY = 5;

function tryLock(db: DatabaseSync): boolean {
  try {
    db.exec("BEGIN EXCLUSIVE");
    return true;
  } catch (error) {
    if (error instanceof Error && "errcode" in error && error.errcode === SQLITE_BUSY) return false;
    throw error;
  }
}

function lockHeld(path: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `the forge is locked by another process (${path})`,
    hint: "Wait for it to finish. The system releases the lock when the process exits.",
    retry: "later",
  });
}
