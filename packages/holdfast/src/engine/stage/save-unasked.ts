import { LONGEST_TIMER_MS } from "../../core/longest-timer.ts";
import { reasonOf } from "../reason-of.ts";
import type { RunSession, SaveRequest } from "../conduct/run-session.ts";

/**
 * Saves a checkpoint whenever the run has gone on for so long without one, whatever stage it is in: a safety net, whose own failure fails
 * nothing. A run that waits and changes nothing is not saved again and again.
 */
export function saveByClock(writer: RunSession): AsyncDisposable {
  const { checkpointEveryMs } = writer.parts;
  if (checkpointEveryMs === null) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  let saving: Promise<void> | undefined;
  const look = (): void => {
    const unsaved = writer.unsavedFor;
    if (saving !== undefined || unsaved === null || unsaved < checkpointEveryMs || !mayAsk(writer)) return;
    saving = saveFromOutside(writer, { trigger: "timer" })
      .catch((error: unknown) => writer.tell({ kind: "note", text: `A checkpoint failed: ${reasonOf(error)}` }))
      .finally(() => {
        saving = undefined;
      });
  };
  // More often than it is due: a checkpoint that something else took begins the time anew.
  const timer = setInterval(look, Math.max(1, Math.min(checkpointEveryMs / 4, LOOK_MS, LONGEST_TIMER_MS)));
  timer.unref();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await saving;
    },
  };
}

const LOOK_MS = 15_000;
const PLACED_MS = 20;

/** Not while work is being stopped, which saves by itself, nor while files are half in place. */
export function mayAsk(writer: RunSession): boolean {
  return writer.halt.cause === undefined && writer.placing === 0;
}

/** A checkpoint in the middle of whatever the stage is doing. */
export async function saveFromOutside(writer: RunSession, request: SaveRequest): Promise<void> {
  for (const bring of writer.beforeSave) await bring();
  // Begun while the agents were asked what they know.
  while (writer.placing > 0) await new Promise((resolve) => setTimeout(resolve, PLACED_MS));
  await writer.save(request);
}
