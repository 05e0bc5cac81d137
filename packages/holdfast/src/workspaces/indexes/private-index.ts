import { randomBytes } from "node:crypto";
import { copyFile, link, mkdir, readFile, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { uptime } from "node:os";
import { join } from "node:path";
import { formatIndexState, parseIndexState, type IndexState } from "./index-state.ts";

/**
 * The private index of a worktree: the stat cache that makes a snapshot cost a `git status`. It is kept between snapshots,
 * but only ever a cache: each operation works on a name of its own and puts the result back with a rename, so that a kill
 * or a second process at the same time costs at most a slower next time.
 */
export async function borrowIndex(params: { readonly home: string; readonly key: string }): Promise<BorrowedIndex> {
  const { home, key } = params;
  const kept = join(home, `index-${key}`);
  const { folder, release } = await openScratch(home);
  const path = join(folder, "index");
  try {
    const [text, boot] = await Promise.all([readFile(`${kept}.json`, "utf8").catch(() => ""), readBoot()]);
    const remembered = parseIndexState(text);
    const usable =
      remembered?.boot === boot && (await takeCopy(kept, path)) && (await fileKey(path)) === remembered.index;
    const state = usable ? remembered : undefined;
    if (state === undefined) await rm(path, { force: true });
    return {
      folder,
      path,
      state,
      async keep(next) {
        const index = await fileKey(path);
        if (index === null) return;
        const draft = join(folder, "state");
        await writeFile(draft, formatIndexState({ ...next, index, boot }), { mode: 0o600 });
        await rename(path, kept);
        await rename(draft, `${kept}.json`);
      },
      release,
    };
  } catch (error) {
    await release();
    throw error;
  }
}

/** A folder for one operation alone; whatever lies in it goes with `release`, or with a later sweep: it never throws. */
export async function openScratch(home: string): Promise<Scratch> {
  const folder = join(home, `op-${process.pid}-${randomBytes(6).toString("hex")}`);
  await mkdir(folder, { mode: 0o700 });
  return { folder, release: () => removeQuietly(folder) };
}

interface Scratch {
  readonly folder: string;
  release(): Promise<void>;
}

export interface BorrowedIndex extends Scratch {
  /** The file to hand to git. Does not exist when there is nothing to build on. */
  readonly path: string;
  readonly state: IndexState | undefined;
  keep(next: Omit<IndexState, "index" | "boot">): Promise<void>;
}

/** For when the objects that they name turn out to be gone. */
export async function forgetIndexes(home: string): Promise<void> {
  const names = (await readdir(home)).filter((name) => name.startsWith("index-"));
  await Promise.all(names.map((name) => rm(join(home, name), { force: true })));
}

/**
 * Removes what killed processes and failed clean-ups left behind: operation folders, half-made git directories, drafts of notes and
 * of shared indexes. What it cannot remove is not worth an error.
 */
export async function sweepOperations(home: string): Promise<void> {
  const [own, drafts] = await Promise.all([home, join(home, "git")].map((folder) => readdir(folder).catch(() => [])));
  const names = [...(own ?? []), ...(drafts ?? []).map((name) => join("git", name))];
  for (const name of names) {
    const pid = /^op-(\d+)-/.exec(name)?.[1];
    const isLeft = pid === undefined ? /^(?:git-|\.tmp-|git\/sharedindex_)/.test(name) : !isAlive(Number(pid));
    if (!isLeft) continue;
    const path = join(home, name);
    const made = await stat(path).catch(() => undefined);
    // A process of another container may look dead from here: give it time to be done.
    if (made !== undefined && Date.now() - made.mtimeMs > ABANDONED_MS) await removeQuietly(path);
  }
}

/** Changes whenever the file is replaced or rewritten; null when there is none. */
export async function fileKey(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found === undefined ? null : `${found.ino}:${found.size}:${found.mtimeNs}`;
}

const ABANDONED_MS = 10 * 60_000;

/**
 * git judges "racily clean" files by the index file's own time, so a copy must never look newer than the original. A second
 * name for the same file is exact and costs nothing; git replaces an index, it never writes into one.
 */
async function takeCopy(kept: string, path: string): Promise<boolean> {
  try {
    await link(kept, path);
    return true;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT") return false;
  }
  const { mtimeMs } = await stat(kept);
  await copyFile(kept, path);
  const second = Math.floor(mtimeMs / 1000);
  await utimes(path, second, second);
  return true;
}

/**
 * We do not sync our indexes: after a power cut they may be anything. So they are believed only until the machine starts again.
 */
export async function readBoot(): Promise<string> {
  const id = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => undefined);
  return id?.trim() ?? String(Math.round(Date.now() / 60_000 - uptime() / 60));
}

async function removeQuietly(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true }).catch(() => undefined);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
