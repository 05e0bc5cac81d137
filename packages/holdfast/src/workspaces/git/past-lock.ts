import { rm, stat } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import type { ProcessResult } from "../../system/subprocess.ts";

/**
 * Tries again while git meets this lock: another git holds one for milliseconds. A killed one leaves it for ever, so an old one
 * is taken away. The last answer may still be that it is locked.
 */
export async function pastLock(lock: string, act: () => Promise<ProcessResult>): Promise<ProcessResult> {
  for (let attempt = 1; ; attempt++) {
    const done = await act();
    if (done.code === 0 || !isLocked(done) || attempt > ATTEMPTS) return done;
    const found = await stat(lock).catch(() => undefined);
    if (found !== undefined && Date.now() - found.mtimeMs > STALE_MS) await rm(lock, { force: true });
    await setTimeout(PAUSE_MS);
  }
}

export function isLocked(done: ProcessResult): boolean {
  return done.stderr.includes(".lock");
}

const ATTEMPTS = 10;
const PAUSE_MS = 100;
const STALE_MS = 60_000;
