// Detects damaged loose objects of a repository, quarantines them, and repeats the work that failed on them.

import { randomBytes } from "node:crypto";
import { statSync } from "node:fs";
import { mkdir, readFile, readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { HoldfastError } from "@holdfast/platform/error";
import type { WorktreeContext } from "./capture.ts";
import { canReadAll, findMissingObjects, isDamaged, loosePath } from "./objects.ts";
import { deletePrivateIndexes, readBootId } from "./private-index.ts";
import type { Repository } from "./repository.ts";

/**
 * Repeats work that failed on a damaged loose object after moving that object away, so that git writes it again from
 * the files. A damaged object has no value but blocks every later save of the same content. It is moved into our own
 * directory, never deleted; packs are not touched. `work` must be safe to repeat.
 */
export async function withObjectRepair<T>(worktree: WorktreeContext, work: () => Promise<T>): Promise<T> {
  for (let rounds = 1; ; rounds++) {
    try {
      return await work();
    } catch (error) {
      // Git stops at the first damaged object, so each one may need its own round.
      const moved =
        rounds < MAX_ROUNDS && (await quarantine(worktree.repository, objectsNamedInError(error)).catch(() => false));
      if (!moved) throw error;
      await deletePrivateIndexes(worktree.home);
    }
  }
}

/** The error only suggests candidates. The bytes of an object decide whether it is moved. */
export function objectsNamedInError(error: unknown): readonly string[] {
  if (!(error instanceof HoldfastError) || error.code !== "GIT_FAILED") return [];
  const { stderr, missing } = error.data;
  const text = [error.message, stderr, ...(Array.isArray(missing) ? missing : [])].join("\n");
  const named = text.matchAll(/(?<![0-9a-f])([0-9a-f]{2})\/?([0-9a-f]{62}|[0-9a-f]{38})(?![0-9a-f])/g);
  return [...new Set(Array.from(named, ([, folder = "", rest = ""]) => folder + rest))];
}

const MAX_ROUNDS = 1000;

async function quarantine(repository: Repository, ids: readonly string[]): Promise<boolean> {
  let moved = false;
  for (const id of ids) {
    if (!(await isDamaged(repository, id))) continue;
    const folder = join(repository.home, "damaged");
    await mkdir(folder, { recursive: true, mode: 0o700 });
    // The name is unique each time, because a rename onto an earlier file would delete that file.
    await rename(loosePath(repository, id), join(folder, `${id}-${randomBytes(4).toString("hex")}`));
    moved = true;
  }
  return moved;
}

export interface ObjectCheck {
  /** Objects that are absent or cannot be read completely. */
  readonly damaged: readonly string[];
  /** True if the files of all objects are the same as when they were read the last time. */
  readonly isUnchanged: boolean;
}

/**
 * Finds the objects of a tree that are absent or cannot be read completely. Git treats every object it finds by name
 * as stored. That includes objects written just before a power cut, and those that a disk or a program damaged later.
 * An object is read again if its file changed (inode, size, times), and after every boot.
 *
 * Packs are not read in full: git checks and syncs a pack before it names it, and a repository may hold gigabytes. Git
 * never changes a pack under its name. If one changed, the objects of this tree are read from it.
 */
export async function checkObjects(worktree: WorktreeContext, ids: readonly string[]): Promise<ObjectCheck> {
  const memory = await remember(worktree);
  const marks = new Map(ids.map((id) => [id, markOf(loosePath(worktree.repository, id))]));
  const packs = await markPacks(worktree);
  const isKeptPack = [...memory.packs].every(([name, mark]) => packs.get(name) === mark);
  const doubtful = ids.filter((id) => {
    const known = memory.objects.get(id);
    return known === undefined || known !== marks.get(id) || (known === PACKED && !isKeptPack);
  });
  if (doubtful.length === 0) return { damaged: [], isUnchanged: true };
  const missing = await findMissingObjects(worktree.repository, doubtful);
  if (missing.length > 0) return { damaged: missing, isUnchanged: false };
  const damaged: string[] = [];
  for (const id of doubtful)
    if (marks.get(id) !== PACKED && (await isDamaged(worktree.repository, id))) damaged.push(id);
  const changed = [...memory.packs].filter(([name, mark]) => packs.has(name) && packs.get(name) !== mark);
  if (changed.length > 0) {
    const packed = ids.filter((id) => marks.get(id) === PACKED);
    if (!(await canReadAll(worktree.repository, packed)))
      throw packDamaged(
        worktree,
        changed.map(([name]) => name),
      );
  }
  if (damaged.length === 0) {
    const lines = [...ids.map((id) => `${id} ${marks.get(id) ?? PACKED}`), ...[...packs].map(([n, m]) => `${n} ${m}`)];
    // A partial or interleaved file still names only objects that were read, so this write needs no protection.
    await writeFile(memory.path, [memory.boot, ...lines, ""].join("\n"), { mode: 0o600 }).catch(() => undefined);
  }
  return { damaged, isUnchanged: false };
}

/** The mark of an object without its own file. */
const PACKED = "packed";

interface Memory {
  readonly path: string;
  readonly boot: string;
  /** The mark of each object's file when it was read. */
  readonly objects: ReadonlyMap<string, string>;
  readonly packs: ReadonlyMap<string, string>;
}

async function remember(worktree: WorktreeContext): Promise<Memory> {
  // The name starts like an index, so that deletePrivateIndexes removes this file too.
  const path = join(worktree.home, "index-objects-read");
  const text = await readFile(path, "latin1").catch(() => "");
  const boot = readBootId();
  const [known, ...lines] = text.split("\n");
  const pairs = (known === boot ? lines : []).flatMap((line): readonly (readonly [string, string])[] => {
    const [name, mark] = line.split(" ");
    return name === undefined || mark === undefined ? [] : [[name, mark]];
  });
  const isPack = ([name]: readonly [string, string]): boolean => name.endsWith(".pack");
  return {
    path,
    boot,
    objects: new Map(pairs.filter((pair) => !isPack(pair))),
    packs: new Map(pairs.filter(isPack)),
  };
}

/** Changes with every write to the file, and when another file replaces it. */
function markOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false, bigint: true });
  return found === undefined ? PACKED : `${found.ino}:${found.size}:${found.mtimeNs}:${found.ctimeNs}`;
}

async function markPacks({ repository }: WorktreeContext): Promise<ReadonlyMap<string, string>> {
  const folder = join(repository.objectDirectory, "pack");
  const names = await readdir(folder).catch(() => []);
  // Git updates the time of a pack that already contains what it was to write. Then the objects are read once more than
  // needed.
  return new Map(
    names.flatMap((name): readonly (readonly [string, string])[] => {
      const found = name.endsWith(".pack") ? statSync(join(folder, name), { throwIfNoEntry: false }) : undefined;
      return found === undefined ? [] : [[name, `${found.ino}:${found.size}:${found.mtimeMs}`]];
    }),
  );
}

function packDamaged(worktree: WorktreeContext, names: readonly string[]): HoldfastError {
  return new HoldfastError({
    code: "GIT_FAILED",
    message: `A pack of the repository of ${worktree.root} changed and cannot be read any more: ${names.join(", ")}`,
    hint: "Run `git fsck --full`, and fetch the objects again or restore the pack from a backup. Nothing was saved.",
    data: { packs: names },
  });
}
