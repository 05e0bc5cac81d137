import { existsSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { namesIn, readOwnFile } from "../frame/own-files.ts";
import type { TranscriptPlace } from "./transcript-place.ts";

/** The session's own file: in its place, or in any other project's folder; null: there is none. */
export function findTranscript(place: TranscriptPlace): string | null {
  if (existsSync(place.file)) return place.file;
  const name = basename(place.file);
  for (const project of foldersIn(place.projects)) {
    const file = join(place.projects, project, name);
    if (existsSync(file)) return file;
  }
  return null;
}

/** Length of each file of the session, so that what one call added can be told later. */
export function measureTranscripts(place: TranscriptPlace): ReadonlyMap<string, number> {
  const file = findTranscript(place);
  if (file === null) return new Map();
  const subagents = join(file.slice(0, -".jsonl".length), "subagents");
  const others = namesIn(subagents).filter((name) => name.endsWith(".jsonl"));
  const files = [file, ...others.map((name) => join(subagents, name))];
  return new Map(files.map((path) => [path, statSync(path, { throwIfNoEntry: false })?.size ?? 0]));
}

/** What was added to any of them since. A file that is too large or no file at all says nothing. */
export function readAdded(place: TranscriptPlace, before: ReadonlyMap<string, number>): readonly string[] {
  return [...measureTranscripts(place).keys()].map((path) => {
    const text = readTranscript(path);
    return text.subarray(before.get(path) ?? 0).toString("utf8");
  });
}

export function readTranscript(path: string): Buffer {
  return readOwnFile(path) ?? Buffer.alloc(0);
}

function foldersIn(path: string): readonly string[] {
  return namesIn(path).filter((name) => statSync(join(path, name), { throwIfNoEntry: false })?.isDirectory() === true);
}
