import { LONGEST_TIMER_MS } from "../core/longest-timer.ts";
import { reasonOf } from "./reason-of.ts";
import type { Stay } from "./stay.ts";

/**
 * Saves a checkpoint every so often while `work` is under way: a safety net, whose own failure fails nothing. `before` brings up to date what it
 * is to hold.
 */
export async function withTimer<T>(
  stay: Stay,
  work: () => Promise<T>,
  before: () => Promise<void> = () => Promise.resolve(),
): Promise<T> {
  const { writer } = stay;
  const { checkpointEveryMs } = writer.parts;
  if (checkpointEveryMs === null) return await work();
  let saving: Promise<unknown> | undefined;
  const timer = setInterval(
    () => {
      if (writer.halt.cause !== undefined) return;
      saving ??= before()
        .then(() => writer.save({ trigger: "timer" }))
        .catch((error: unknown) => writer.tell({ kind: "note", text: `A checkpoint failed: ${reasonOf(error)}` }))
        .finally(() => {
          saving = undefined;
        });
    },
    Math.min(checkpointEveryMs, LONGEST_TIMER_MS),
  );
  timer.unref();
  try {
    return await work();
  } finally {
    clearInterval(timer);
    await saving;
  }
}
