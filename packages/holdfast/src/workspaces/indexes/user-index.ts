import { hash } from "node:crypto";
import { join } from "node:path";
import type { Git } from "../git/git-command.ts";
import { parseIndexEntry, type IndexEntry } from "./index-memo.ts";
import { fileKey } from "./private-index.ts";
import { splitRecords } from "../raw-path.ts";

/** What the user's index says, reduced to what can be compared cheaply. */
export interface UserIndex {
  /** Which file; null when there is none. A mere refresh of its stat data makes another file that says the same. */
  readonly key: string | null;
  /** Which paths, modes and flags, and the ids of those that are not files on disk (submodules, sparse entries). */
  readonly paths: string;
  /** All of it: what is staged. */
  readonly content: string;
}

export interface ReadUserIndex extends UserIndex {
  entries(): Promise<readonly IndexEntry[]>;
}

/** Lists the index only when the file is another one than before. */
export async function readUserIndex(git: Git, gitDir: string, before: UserIndex | undefined): Promise<ReadUserIndex> {
  const key = await fileKey(join(gitDir, "index"));
  const list = (): Promise<Buffer> => git.output({ args: ["ls-files", "-s", "-v", "-z"] });
  if (before !== undefined && before.key === key) {
    return { ...before, entries: async () => splitRecords(await list()).map(parseIndexEntry) };
  }
  const listing = await list();
  const entries = async (): Promise<readonly IndexEntry[]> => splitRecords(listing).map(parseIndexEntry);
  return { key, content: hash("sha1", listing), paths: hash("sha1", withoutFileIds(listing)), entries };
}

/** The same listing with the ids of ordinary files blanked. Bytes in place: at this size strings would cost too much. */
function withoutFileIds(listing: Buffer): Buffer {
  const copy = Buffer.from(listing);
  const idLength = copy.indexOf(0x20, 9) - 9;
  for (let start = 0; start < copy.length;) {
    const end = copy.indexOf(0, start);
    const isSparse = copy[start] === 0x53 || copy[start] === 0x73;
    const isLink = copy[start + 2] === 0x31 && copy[start + 3] === 0x36;
    // "H 100644 <id> 0\t<path>"
    if (!isSparse && !isLink) copy.fill(0x2e, start + 9, start + 9 + idLength);
    start = end + 1;
  }
  return copy;
}
