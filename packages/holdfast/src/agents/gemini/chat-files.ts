import { rmSync } from "node:fs";
import { join } from "node:path";
import { namesIn, readOwnFile, realOf } from "../frame/own-files.ts";
import { chatOf, type Chat } from "./chat.ts";
import type { TranscriptPlace } from "./transcript-place.ts";

export interface ChatFile extends Chat {
  readonly path: string;
}

/** The files of one session, in the order of their names: the minutes in which they were begun. */
export function findChats(place: TranscriptPlace): readonly ChatFile[] {
  return chatsIn(place, place.ending).filter(({ session }) => session === place.session);
}

/**
 * Gone on with in a later minute, a session gets a second file with nothing in it. Gemini CLI takes that for a broken one, and when any other
 * session is begun in the same place it removes it *and every file of the same session*. So we remove what has nothing in it first.
 */
export function removeHollowChats(place: TranscriptPlace): void {
  const chats = chatsIn(place, ".jsonl");
  for (const { path, session, isHollow } of chats) {
    const isDouble = chats.some((other) => other.session === session && other.path !== path && !other.isHollow);
    if (isHollow && isDouble) rmSync(path, { force: true });
  }
}

function chatsIn(place: TranscriptPlace, ending: string): readonly ChatFile[] {
  return projectFolders(place)
    .flatMap((project) => {
      const folder = join(project, "chats");
      const names = namesIn(folder).filter((name) => name.startsWith("session-") && name.endsWith(ending));
      return names.toSorted().map((name) => join(folder, name));
    })
    .map((path) => ({ path, ...chatOf(readText(path)) }));
}

/** Those that say that they are of this worktree. */
export function projectFolders({ tmp, cwd }: Pick<TranscriptPlace, "tmp" | "cwd">): readonly string[] {
  const roots = new Set([cwd, realOf(cwd)]);
  return namesIn(tmp)
    .map((project) => join(tmp, project))
    .filter((folder) => roots.has(readText(join(folder, ".project_root")).trim()));
}

/** Nothing, where it cannot be read. */
export function readText(path: string): string {
  return readOwnFile(path)?.toString("utf8") ?? "";
}
