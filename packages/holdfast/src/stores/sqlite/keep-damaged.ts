import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  statSync,
  utimesSync,
} from "node:fs";
import { basename, join } from "node:path";
import type { Layout } from "./layout.ts";
import { makeDurableDirectory, syncDirectory } from "@holdfast/platform/files";

/**
 * Copies the files of a damaged store to `quarantine/<time>-<number>/` inside the store, before anything opens them for writing:
 * SQLite discards a log that it cannot use. Durable when it returns; returns the folder. Files that are the same as in the newest copy
 * are not copied again. Only while this process has no connection to the database: closing a file drops the locks on it.
 */
export function keepDamaged(layout: Layout): string {
  makeDurableDirectory(layout.quarantine);
  const copies = readdirSync(layout.quarantine)
    .filter((name) => NAME.test(name))
    .toSorted(byNumber);
  const last = copies.at(-1);
  const files = [layout.database, layout.wal, layout.witness, layout.marker].filter(
    (path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true,
  );
  const newest = last === undefined ? undefined : join(layout.quarantine, last);
  if (newest !== undefined && files.every((path) => isSame(path, join(newest, basename(path))))) return newest;
  const time = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const folder = join(layout.quarantine, `${time}-${numberOf(last ?? "-0") + 1}`);
  mkdirSync(folder, { mode: 0o700 });
  for (const path of files) copyDurably(path, join(folder, basename(path)));
  syncDirectory(folder);
  syncDirectory(layout.quarantine);
  return folder;
}

function copyDurably(from: string, to: string): void {
  copyFileSync(from, to, constants.COPYFILE_EXCL);
  chmodSync(to, 0o600);
  const { atime, mtime } = statSync(from);
  utimesSync(to, atime, mtime);
  const fd = openSync(to, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** The copy carries the time of what it was made from. */
function isSame(path: string, copy: string): boolean {
  const [a, b] = [statSync(path), statSync(copy, { throwIfNoEntry: false })];
  return b !== undefined && a.size === b.size && Math.abs(a.mtimeMs - b.mtimeMs) < 1;
}

const NAME = /^\d{8}T\d{6}Z-\d+$/;

function numberOf(name: string): number {
  return Number(name.slice(name.lastIndexOf("-") + 1));
}

function byNumber(a: string, b: string): number {
  return numberOf(a) - numberOf(b);
}
