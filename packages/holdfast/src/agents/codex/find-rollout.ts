import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { readRegularFile } from "../../system/regular-file.ts";
import type { TranscriptPlace } from "./transcript-place.ts";

/** The session's own file; null: there is none. */
export function findRollout(place: TranscriptPlace): string | null {
  return findBelow(place.sessions, place.ending, FOLDERS_DEEP) ?? findBelow(place.archived, place.ending, 0);
}

const FOLDERS_DEEP = 3;

/** The newest folders first: most sessions that are looked for are of today. */
function findBelow(folder: string, ending: string, depth: number): string | null {
  for (const name of namesIn(folder).toSorted().toReversed()) {
    const path = join(folder, name);
    if (depth === 0 && name.endsWith(ending)) return path;
    const found = depth === 0 ? null : findBelow(path, ending, depth - 1);
    if (found !== null) return found;
  }
  return null;
}

export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** What was added after the first `from` bytes. A file that cannot be read says nothing: the call was judged by its own words. */
export function readAdded(path: string, from: number): string {
  try {
    const file = readRegularFile({ path, maxBytes: MAX_BYTES });
    return file.kind === "read" ? file.bytes.subarray(from).toString("utf8") : "";
  } catch {
    return "";
  }
}

const MAX_BYTES = 512 * 1024 * 1024;

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
