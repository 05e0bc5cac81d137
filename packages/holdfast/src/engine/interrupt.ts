import { stepEffect } from "../core/effect-fold.ts";
import type { NewEntry } from "../core/journal.ts";
import type { RunWriter } from "./run-writer.ts";

/** Files as they are, position with what is half-done named in it, and every effect that may or may not have happened. */
export async function saveInterrupted(writer: RunWriter): Promise<void> {
  await writer.save({
    trigger: "interrupt",
    prepare: () => {
      const entries: NewEntry[] = [];
      for (const { key, state } of writer.ledger.values()) {
        if (state.kind !== "intended") continue;
        entries.push({ kind: "effect.unknown", body: { key, reason: "interrupted" } });
      }
      for (const entry of entries) {
        const known = { ...entry, run: writer.run.id, entry: 0, at: writer.isoNow() };
        const change = stepEffect((key) => writer.ledger.get(key), known);
        if (change !== null) writer.ledger.set(change.key, change);
      }
      return entries;
    },
  });
}
