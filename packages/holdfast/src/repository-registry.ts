/**
 * The repositories of this user that have a store, for commands and pages that show all of them. Also reads and writes the small files of
 * the user's state directory, each a versioned JSON document.
 */
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import { asRecord, sha256 } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { makeDurableDirectory, readRegularFile, writeDurable, xdgHome } from "@holdfast/platform/files";
import { isStoreUrl } from "@holdfast/postgres/store-url";

export type Env = Readonly<Record<string, string | undefined>>;
type Document = Readonly<Record<string, unknown>>;

/** A store that a command opened for writing. */
export interface RegisteredRepository {
  /** Id of the store. A copied repository has the same one. */
  readonly id: string;
  /** Directory of the store, or its URL without the password. */
  readonly store: string;
  /** Root of the main worktree; without a repository the directory of the store. */
  readonly root: string;
  readonly usedAt: string;
}

/** A repository with the name that addresses use for it. */
export interface NamedRepository extends RegisteredRepository {
  readonly key: string;
  readonly name: string;
}

/**
 * Records a store, at most once a day. It is called after the real work of a command, and it never fails: a list that lacks a repository is
 * better than a command that fails.
 */
export async function registerRepository(
  env: Env,
  found: Pick<RegisteredRepository, "id" | "store"> & { readonly root: () => Promise<string> },
  now: number,
): Promise<void> {
  try {
    const { id, store } = found;
    const path = join(folderOf(env), fileName(store));
    const [before] = parseRepository(readStateFile(path, HINT));
    if (before?.id === id && Math.abs(now - Date.parse(before.usedAt)) < DAY_MS) return;
    // Finding the root costs a call of git.
    const root = await found.root();
    writeStateFile(path, { id, store, root, usedAt: new Date(now).toISOString() });
  } catch {
    // A read-only or full home directory.
  }
}

const DAY_MS = 24 * 3_600_000;
/** A record of a store that is away this long is removed. A disk that comes back earlier is listed again. */
const FORGET_MS = 90 * DAY_MS;
const HINT = "Remove the file; the next command in that repository writes it again.";

function folderOf(env: Env): string {
  return join(xdgHome(env, "XDG_STATE_HOME"), "holdfast/repositories");
}

/** The repositories whose store is there, by name. Never searches the disk. A file that cannot be read counts as absent. */
export function listRepositories(env: Env, now: number): readonly NamedRepository[] {
  const found: RegisteredRepository[] = [];
  for (const [path, one] of readRecords(folderOf(env))) {
    const isOld = now - Date.parse(one.usedAt) > FORGET_MS;
    if (isStoreUrl(one.store) ? !isOld : existsSync(one.store)) found.push(one);
    else if (isOld) rmSync(path, { force: true });
  }
  return nameRepositories(newestOfEach(found));
}

/** The URL of one store can be spelled in several ways, with another host name or user. A copied directory is another store. */
function newestOfEach(found: readonly RegisteredRepository[]): readonly RegisteredRepository[] {
  const newest = new Map<string, RegisteredRepository>();
  for (const one of found.toSorted((a, b) => Date.parse(a.usedAt) - Date.parse(b.usedAt)))
    newest.set(isStoreUrl(one.store) ? `${one.id} ${one.root}` : one.store, one);
  return [...newest.values()];
}

type Records = readonly (readonly [path: string, RegisteredRepository])[];
let kept: { readonly state: string; readonly records: Records } | undefined;

/** A server lists them every few seconds. Each record is written by a rename, which changes the time of the folder. */
function readRecords(folder: string): Records {
  const changed = statSync(folder, { throwIfNoEntry: false, bigint: true })?.mtimeNs;
  const state = `${changed} ${folder}`;
  if (kept?.state === state) return kept.records;
  const records = listStateFiles(folder).flatMap((path): Records => {
    try {
      return parseRepository(readStateFile(path, HINT)).map((one) => [path, one] as const);
    } catch {
      // Another process removed it, or another version wrote it.
      return [];
    }
  });
  // A record that is written right now may not change the time again.
  const isOld = changed !== undefined && Date.now() - Number(changed / 1_000_000n) > 3000;
  kept = isOld ? { state, records } : undefined;
  return records;
}

/** Names each by its folder. Repositories of one name get as much of their store's id as tells them apart. */
export function nameRepositories(found: readonly RegisteredRepository[]): readonly NamedRepository[] {
  const sorted = found.toSorted((a, b) => compare(a.root, b.root) || compare(a.store, b.store));
  const names = sorted.map(({ root }) => basename(root).replaceAll(/[^A-Za-z0-9._-]+/g, "-") || "repository");
  return sorted.map((one, at) => {
    const others = sorted.filter((other, index) => other !== one && names[index] === names[at]);
    const name = names[at] ?? "repository";
    if (others.length === 0) return { ...one, key: name, name };
    const mark = markOf(one);
    const marks = others.map(markOf);
    let length = 4;
    while (length < mark.length && marks.some((other) => other.startsWith(mark.slice(0, length)))) length += 1;
    return { ...one, key: `${name}~${mark.slice(0, length)}`, name };
  });
}

/** The path tells copies of one store apart. */
function markOf({ id, store }: RegisteredRepository): string {
  return id.replaceAll(/[^A-Za-z0-9]/g, "") + sha256(store).slice(0, 8);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function parseRepository({ id, store, root, usedAt }: Document): readonly RegisteredRepository[] {
  if (typeof id !== "string" || typeof store !== "string" || typeof root !== "string") return [];
  if (
    !(isAbsolute(store) || isStoreUrl(store)) ||
    !isAbsolute(root) ||
    typeof usedAt !== "string" ||
    Number.isNaN(Date.parse(usedAt))
  )
    return [];
  return [{ id, store, root, usedAt }];
}

/** The name of the file about something with this path: two processes that add one at the same time cannot lose each other's. */
export function fileName(path: string): string {
  return `${sha256(path).slice(0, 32)}.json`;
}

/** The files that `fileName` named. A temporary file of a killed process does not have such a name. */
export function listStateFiles(folder: string): readonly string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => /^[0-9a-f]{32}\.json$/.test(name))
    .map((name) => join(folder, name));
}

export function writeStateFile(path: string, document: object): void {
  makeDurableDirectory(dirname(path));
  writeDurable({
    path,
    data: Buffer.from(`${JSON.stringify({ version: 1, ...document }, null, 2)}\n`),
    mode: "replace",
  });
}

/**
 * An absent file is empty. A file that other users could have written counts as absent: it could make Holdfast start
 * programs in a directory of their choice. A file that does not parse is an error, because an empty list would hide runs.
 */
export function readStateFile(path: string, hint: string): Document {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined || (stat.mode & 0o022) !== 0) return {};
  if (process.getuid !== undefined && stat.uid !== process.getuid()) return {};
  const file = readRegularFile({ path, maxBytes: 4_000_000 });
  // Another process may have removed it just now.
  if (file.kind === "absent") return {};
  try {
    if (file.kind === "read") return asRecord(JSON.parse(file.bytes.toString("utf8")));
  } catch {
    // Reported below.
  }
  throw new HoldfastError({ code: "IO_FAILED", message: `The file ${path} cannot be read`, hint, data: { path } });
}
