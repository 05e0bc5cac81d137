import { isJsonObject } from "../../core/json.ts";
import type { Parts } from "../../engine/parts.ts";
import type { ForeignCheckpoint } from "../../formats/format.ts";
import { WRITTEN_BY } from "../../formats/loop-json/encode-live.ts";

/**
 * The run of this very store whose mirror wrote the documents, all of them: that of the newest. null: others had a hand in them, or the store
 * does not know the run, and there is something to import.
 */
export async function ownWriter(parts: Parts, checkpoints: readonly ForeignCheckpoint[]): Promise<string | null> {
  const runs = checkpoints.map((checkpoint) => runIn(parts.store.id, checkpoint));
  const newest = runs.at(-1) ?? null;
  if (newest === null || runs.includes(null)) return null;
  return (await parts.store.getRun(newest)) === undefined ? null : newest;
}

function runIn(store: string, { original }: ForeignCheckpoint): string | null {
  const document = original?.document;
  const metadata = isJsonObject(document) ? document["metadata"] : undefined;
  const mark = isJsonObject(metadata) ? metadata[WRITTEN_BY] : undefined;
  if (typeof mark !== "string" || !mark.startsWith(`${store}/`)) return null;
  return /^([^@]+)@\d+$/.exec(mark.slice(store.length + 1))?.[1] ?? null;
}
