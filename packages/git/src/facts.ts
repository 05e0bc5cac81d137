// Remembers answers of git within one process, as long as they cannot have changed. Every start of git costs milliseconds.

import type { BigIntStats } from "node:fs";
import { stat } from "node:fs/promises";

/**
 * Remembers at most `most` answers, the newest ones. Use it for facts about object ids: an id is the hash of its
 * content. Neither a failure nor null is remembered.
 */
export function createFacts<T>(most: number): (key: string, find: () => Promise<T>) => Promise<T> {
  const known = new Map<string, T>();
  return async (key, find) => {
    const found = known.get(key);
    if (found !== undefined) return found;
    const fact = await find();
    if (fact !== null) known.set(key, fact);
    for (const old of known.keys()) if (known.size > most) known.delete(old);
    return fact;
  };
}

/** An answer that git derived from files, with the state of these files. */
interface Remembered<T> {
  readonly files: string;
  readonly answer: T;
}

/**
 * Remembers an answer until one of the files changes that it depends on. `filesOf` lists them from the answer; an answer
 * whose files are unknown (null) is not remembered.
 */
export function createFileFacts<T>(
  filesOf: (answer: T) => readonly string[] | null,
  now: () => number = Date.now,
): (key: string, find: () => Promise<T>) => Promise<T> {
  const known = new Map<string, Remembered<T>>();
  return async (key, find) => {
    const old = known.get(key);
    const files = old === undefined ? null : filesOf(old.answer);
    if (old !== undefined && files !== null && (await stateOf(files)).key === old.files) return old.answer;
    known.delete(key);
    const began = now();
    const answer = await find();
    const used = filesOf(answer);
    if (used === null) return answer;
    const state = await stateOf(used);
    // A file that changed while git read it, or just before, may change again without a visible difference.
    if (state.settledAt < began) known.set(key, { files: state.key, answer });
    return answer;
  };
}

/** Uses the time of the last change of a file's status. Unlike its modification time, no program can set it. */
async function stateOf(files: readonly string[]): Promise<{ readonly key: string; readonly settledAt: number }> {
  const stats = await Promise.all(files.map((path) => stat(path, { bigint: true }).catch(() => undefined)));
  const found = stats.filter((file) => file !== undefined);
  return {
    key: stats.map((file) => (file === undefined ? "absent" : `${keyOf(file)}:${file.ctimeNs}`)).join(" "),
    settledAt: Math.max(0, ...found.map(({ ctimeNs, ctimeMs }) => Number(ctimeMs) + stepOf(ctimeNs))),
  };
}

/** Two changes within this many milliseconds may have the same time. Some file systems store times in whole seconds. */
function stepOf(time: bigint): number {
  return time % 1_000_000_000n === 0n ? 1000 : 100;
}

/** Changes whenever the file is replaced or rewritten; null if it does not exist. */
export async function fileKey(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found === undefined ? null : keyOf(found);
}

function keyOf({ ino, size, mtimeNs }: BigIntStats): string {
  return `${ino}:${size}:${mtimeNs}`;
}
