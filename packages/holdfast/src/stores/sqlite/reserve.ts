import { closeSync, constants, fsyncSync, openSync, statfsSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import type { Layout } from "./layout.ts";

/*
 * Space that is kept free for the last entries of a run on a full disk: a file that is made when the store is opened for writing, and
 * removed when a run must record that it waits for space. The next opening makes it again.
 */

/** On a disk that is nearly full it is smaller, or there is none: it must not be what fills it. */
export function makeReserve(layout: Layout): void {
  try {
    if (statSync(layout.reserve, { throwIfNoEntry: false }) !== undefined) return;
    const { bavail, bsize } = statfsSync(layout.directory);
    const bytes = Math.min(MOST_BYTES, Math.floor((bavail * bsize) / 16));
    if (bytes < LEAST_BYTES) return;
    const fd = openSync(
      layout.reserve,
      constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
      0o600,
    );
    try {
      // Bytes that do not compress, and synced: some file systems count zeros, or what was never written out, as free.
      writeFileSync(fd, randomBytes(bytes));
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  } catch {
    // Without it a full disk is still refused cleanly; the run only cannot record that it waits.
  }
}

/** Returns how many bytes are free now that were not before. */
export function releaseReserve(layout: Layout): number {
  const bytes = statSync(layout.reserve, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes > 0) unlinkSync(layout.reserve);
  return bytes;
}

const MOST_BYTES = 1024 * 1024;
const LEAST_BYTES = 64 * 1024;
