import type { NewEntry } from "../../core/journal/journal.ts";
import type { Stopped } from "../halt.ts";
import type { RunOutcome } from "../outcome.ts";
import { takeBackStrays } from "../restore/right-place.ts";
import type { RunSession } from "./run-session.ts";

/** What is saved when work was stopped from outside. */
export async function leaveInOrder(writer: RunSession, { outcome, saved }: Stopped): Promise<RunOutcome> {
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
  writer: RunSession,
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
    prepare: () => [
      ...Object.values(writer.state.effects)
        .filter(({ state }) => state.kind === "intended")
        .map(({ key }): NewEntry => ({ kind: "effect.unknown", body: { key, reason: params.why } })),
      ...params.entries,
    ],
  });
}
