import { createHash } from "node:crypto";
import type { Store } from "@holdfast/core/store";

/** A digest of everything that a store returns: equal before and after means that nothing changed. */
export async function dumpStore(store: Store): Promise<string> {
  const hash = createHash("sha256");
  for (const { id } of await store.listRuns()) {
    hash.update(JSON.stringify(await store.getRun(id)));
    for await (const entry of store.readJournal({ run: id })) hash.update(JSON.stringify(entry));
    // With the digest of each; that the bytes fit it is for reading and verifying to see.
    hash.update(JSON.stringify(await store.listCheckpoints({ run: id })));
    hash.update(
      JSON.stringify([await store.listEffects(id), await store.listTombstones(id), await store.getLease(id)]),
    );
  }
  return hash.digest("hex");
}
