import { lstatSync, readdirSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import type { Handle } from "../handle.ts";
import { TEMPORARY_PREFIX, fileKind } from "@holdfast/platform/files";

export interface SweptFiles {
  readonly blobs: number;
  readonly temporaryFiles: number;
  readonly freedBytes: number;
}

/** A file that a writer is about to name in a row is younger than this: it is written anew each time. */
const OLD_MS = 3_600_000;

/** Removes blob files that no pack names and temporary files that a crash left. Under the write lock, unless dry. */
export function sweepFiles(handle: Handle, dryRun: boolean): SweptFiles {
  const { layout } = handle;
  const named = handle.db.prepare("SELECT 1 FROM packs WHERE blob = ? LIMIT 1");
  const now = handle.now().ms;
  let blobs = 0;
  let temporaryFiles = 0;
  let freedBytes = 0;

  function consider(folder: string, name: string): void {
    const path = join(folder, name);
    const isTemporary = name.startsWith(TEMPORARY_PREFIX);
    if (!isTemporary && (!/^[0-9a-f]{64}$/.test(name) || named.get(name) !== undefined)) return;
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat === undefined || !stat.isFile() || now - stat.mtimeMs < OLD_MS) return;
    if (!dryRun) unlinkSync(path);
    if (isTemporary) temporaryFiles += 1;
    else blobs += 1;
    freedBytes += stat.size;
  }

  const folders = namesIn(layout.blobs).filter((name) => /^[0-9a-f]{2}$/.test(name));
  for (const folder of [layout.directory, ...folders.map((name) => join(layout.blobs, name))]) {
    for (const name of namesIn(folder)) consider(folder, name);
  }
  return { blobs, temporaryFiles, freedBytes };
}

function namesIn(folder: string): readonly string[] {
  return fileKind(folder) === "directory" ? readdirSync(folder) : [];
}
