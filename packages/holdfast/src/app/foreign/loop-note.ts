import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json } from "../../core/json.ts";
import type { Store } from "../../ports/store.ts";

/**
 * What the clean-up has taken out of a loop's directory, kept with the store: without it the next writing would put back what is missing.
 * Written before the files go, so that a kill in between leaves them to the next writing.
 */
export async function readDropped(store: Store, run: string): Promise<ReadonlySet<number>> {
  const text = await store.getMeta(keyOf(run));
  if (text === undefined) return new Set();
  const note: Json = JSON.parse(text);
  const dropped = isJsonObject(note) ? note["dropped"] : undefined;
  return new Set((isJsonArray(dropped) ? dropped : []).filter((one) => typeof one === "number"));
}

export async function writeDropped(store: Store, run: string, dropped: readonly number[]): Promise<void> {
  await store.setMeta(keyOf(run), JSON.stringify({ dropped }));
}

function keyOf(run: string): string {
  return `aiwg.dropped.${run}`;
}
