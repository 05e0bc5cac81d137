import { stepEffect } from "../../core/effect/effect-fold.ts";
import type { NewEntry } from "../../core/journal/journal.ts";
import type { Stopped } from "../halt.ts";
import type { RunOutcome } from "../outcome.ts";
import { takeBackStrays } from "../restore/right-place.ts";
import type { RunWriter } from "./run-writer.ts";

/** What is saved when work was stopped from outside. */
export async function leaveInOrder(writer: RunWriter, { outcome, saved }: Stopped): Promise<RunOutcome> {
  if (saved) return outcome;
  if (outcome.kind === "interrupted")
    await saveStopped(writer, { trigger: "interrupt", why: "interrupted", entries: [] });
  else if (outcome.kind === "fatal") {
    await saveStopped(writer, { trigger: "interrupt", why: "aborted", entries: [abortedEntry(outcome.reason)] });
    writer.tell({ kind: "ended", outcome: "fatal", reason: outcome.reason });
  } else {
    const { on, reason, until } = outcome;
    const entries: readonly NewEntry[] = [{ kind: "run.parked", body: { on, reason, until } }];
    const why = on === "pause" ? "paused" : "the session ended";
    await saveStopped(writer, { trigger: "session_end", why, entries });
    writer.tell({ kind: "parked", on, reason, until });
  }
  return outcome;
}

export function abortedEntry(reason: string): NewEntry {
  return { kind: "run.ended", body: { outcome: "fatal", reason, cause: "aborted" } };
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
  // Who goes on finds this checkpoint, and could not tell any more.
  await takeBackStrays(writer);
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
