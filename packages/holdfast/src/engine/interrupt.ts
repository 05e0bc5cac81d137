import { stepEffect } from "../core/effect-fold.ts";
import type { NewEntry } from "../core/journal.ts";
import type { Stopped } from "./halt.ts";
import type { RunOutcome } from "./outcome.ts";
import type { RunWriter } from "./run-writer.ts";

/** What is saved when work was stopped from outside. */
export async function leaveInOrder(writer: RunWriter, { outcome, saved }: Stopped): Promise<RunOutcome> {
  if (saved) return outcome;
  if (outcome.kind === "interrupted")
    await saveStopped(writer, { trigger: "interrupt", why: "interrupted", entries: [] });
  else {
    const { on, reason, until } = outcome;
    const entries: readonly NewEntry[] = [{ kind: "run.parked", body: { on, reason, until } }];
    await saveStopped(writer, { trigger: "session_end", why: "the session ended", entries });
    writer.tell({ kind: "parked", on, reason, until });
  }
  return outcome;
}

/** Files as they are, position with what is half-done named in it, and every effect that may or may not have happened. */
async function saveStopped(
  writer: RunWriter,
  params: {
    readonly trigger: "interrupt" | "session_end";
    readonly why: string;
    readonly entries: readonly NewEntry[];
  },
): Promise<void> {
  await writer.save({
    trigger: params.trigger,
    prepare: () => {
      const entries: NewEntry[] = [];
      for (const { key, state } of writer.ledger.values()) {
        if (state.kind !== "intended") continue;
        entries.push({ kind: "effect.unknown", body: { key, reason: params.why } });
      }
      for (const entry of entries) {
        const known = { ...entry, run: writer.run.id, entry: 0, at: writer.isoNow() };
        const change = stepEffect((key) => writer.ledger.get(key), known);
        if (change !== null) writer.ledger.set(change.key, change);
      }
      return [...entries, ...params.entries];
    },
  });
}
