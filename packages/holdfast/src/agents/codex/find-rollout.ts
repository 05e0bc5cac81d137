import { statSync } from "node:fs";
import { join } from "node:path";
import { namesIn, readOwnFile } from "../frame/own-files.ts";
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

/** What was added after the first `from` bytes. */
export function readAdded(path: string, from: number): string {
  return readOwnFile(path)?.subarray(from).toString("utf8") ?? "";
}
