import { createHash, hash } from "node:crypto";
import { closeSync, lstatSync, openSync, readSync, readdirSync, readlinkSync } from "node:fs";
import type { CapturePlace } from "../capture/capture.ts";
import { absolutePath, createInspector } from "../capture/inspect-path.ts";
import { isRegular, type RestoreLooks } from "./plan-restore.ts";
import type { RawPath } from "../raw-path.ts";
import type { ObjectFormat } from "../repository.ts";
import type { TreeEntry } from "../capture/tree-diff.ts";

/** The disk as a restore must see it: never through a link, never into another repository. */
export function createRestoreLooks({ root, repository }: CapturePlace): RestoreLooks {
  const format = repository.objectFormat;
  const found = createInspector(root);
  return {
    found,
    holds: (path, entry) => found(path).kind !== "absent" && holdsEntry(root, path, entry, format),
    filesBelow: (path) => filesBelow(root, path),
  };
}

/** Only for the few files that a capture cannot see and a restore must still know about. */
export function holdsEntry(root: string, path: RawPath, entry: TreeEntry, format: ObjectFormat): boolean {
  const place = absolutePath(root, path);
  try {
    const stat = lstatSync(place);
    if (stat.isSymbolicLink()) {
      return entry.mode === "120000" && blobId(readlinkSync(place, { encoding: "buffer" }), format) === entry.id;
    }
    if (!stat.isFile() || !isRegular(entry.mode)) return false;
    const mode = (stat.mode & 0o100) === 0 ? "100644" : "100755";
    return mode === entry.mode && fileId(place, stat.size, format) === entry.id;
  } catch {
    return false;
  }
}

function blobId(bytes: Buffer, format: ObjectFormat): string {
  return hash(format, Buffer.concat([Buffer.from(`blob ${bytes.length}\0`), bytes]));
}

function fileId(place: Buffer, size: number, format: ObjectFormat): string {
  const sum = createHash(format).update(`blob ${size}\0`);
  const chunk = Buffer.allocUnsafe(1024 * 1024);
  const file = openSync(place, "r");
  try {
    for (let read = readSync(file, chunk); read > 0; read = readSync(file, chunk)) sum.update(chunk.subarray(0, read));
    return sum.digest("hex");
  } finally {
    closeSync(file);
  }
}

function filesBelow(root: string, folder: RawPath): RawPath[] {
  const entries = readdirSync(absolutePath(root, folder), { withFileTypes: true, encoding: "buffer" });
  return entries.flatMap((entry) => {
    const path = `${folder}/${entry.name.toString("latin1")}`;
    const isFolder = entry.isDirectory() && entry.name.toString("latin1").toLowerCase() !== ".git";
    return isFolder ? filesBelow(root, path) : [path];
  });
}
