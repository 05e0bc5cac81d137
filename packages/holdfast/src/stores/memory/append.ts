import type { MemoryRun, MemoryWorld } from "./world.ts";
import { birthDigest, entryHash } from "../../core/journal/chain.ts";
import { deepFreeze } from "../../core/deep-freeze.ts";
import type { EntryKind, JournalEntry } from "../../core/journal/journal.ts";
import type { JsonObject } from "../../core/json.ts";
import { canonicalJson } from "../../core/values/index.ts";
import { sha256 } from "../../system/hash.ts";

/** Numbers and chains an entry. */
export function append(
  world: MemoryWorld,
  run: MemoryRun,
  entry: { readonly kind: EntryKind; readonly body: JsonObject; readonly epoch: number; readonly at: string },
): JournalEntry {
  const { kind, at, epoch, body } = entry;
  const text = canonicalJson(body);
  const previous = run.entries.at(-1)?.hash ?? birthDigest(run.run, sha256);
  const link = { run: run.run.id, entry: run.entries.length + 1, kind, at, epoch };
  const hash = entryHash(previous, { ...link, body: text }, sha256);
  const digest = kind === "checkpoint" ? hash : sha256(text);
  const journal: JournalEntry = deepFreeze({ ...link, body, digest, hash });
  run.entries.push(journal);
  world.log.push(journal);
  return journal;
}
