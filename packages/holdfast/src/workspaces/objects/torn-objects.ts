import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { CapturePlace } from "../capture/capture.ts";
import { isDamaged } from "./loose-object.ts";
import { readBoot } from "../indexes/private-index.ts";

/**
 * Those of the ids whose object is there but cannot be read to its end. Whatever git finds by name it takes for stored, also what
 * another git wrote a moment before a power cut and never synced. Only a power cut tears, so what was read once in this boot
 * need not be read again.
 */
export async function findTorn(place: CapturePlace, ids: readonly string[]): Promise<readonly string[]> {
  const { memory, boot, read } = await remember(place);
  const unread = ids.filter((id) => !read.has(id));
  if (unread.length === 0) return [];
  const torn: string[] = [];
  for (const id of unread) if (await isDamaged(place.repository, id)) torn.push(id);
  const whole = ids.filter((id) => !torn.includes(id));
  // Half-written or mixed with another's it still names only objects that were read: no need to be careful with it.
  await writeFile(memory, [boot, ...whole, ""].join("\n"), { mode: 0o600 }).catch(() => undefined);
  return torn;
}

/** Has nothing been read in this boot? Then a power cut may have come before, and nobody's objects can be taken for whole. */
export async function isFirstInBoot(place: CapturePlace): Promise<boolean> {
  return (await remember(place)).read.size === 0;
}

async function remember(place: CapturePlace): Promise<Memory> {
  // Named like an index: when those are forgotten, so is this.
  const memory = join(place.home, "index-objects-read");
  const [text, boot] = await Promise.all([readFile(memory, "latin1").catch(() => ""), readBoot()]);
  const [known, ...lines] = text.split("\n");
  return { memory, boot, read: new Set(known === boot ? lines : []) };
}

interface Memory {
  readonly memory: string;
  readonly boot: string;
  readonly read: ReadonlySet<string>;
}
