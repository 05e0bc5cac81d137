import { LONGEST_TIMER_MS } from "../core/longest-timer.ts";
import { reasonOf } from "./reason-of.ts";
import type { Stay } from "./stay.ts";

/**
 * Saves a checkpoint every so often while `work` is under way: a safety net, whose own failure fails nothing. `before` brings up to date what it
 * is to hold. Works that go on at the same time share one timer.
 */
export async function withTimer<T>(
  stay: Stay,
  work: () => Promise<T>,
  before: () => Promise<void> = () => Promise.resolve(),
): Promise<T> {
  const { checkpointEveryMs } = stay.writer.parts;
  if (checkpointEveryMs === null) return await work();
  const timer = timers.get(stay) ?? startTimer(stay, checkpointEveryMs);
  timer.befores.add(before);
  try {
    return await work();
  } finally {
    timer.befores.delete(before);
    await timer.stopUnused();
  }
}

interface SaveTimer {
  readonly befores: Set<() => Promise<void>>;
  stopUnused(): Promise<void>;
}

const timers = new WeakMap<Stay, SaveTimer>();

function startTimer(stay: Stay, everyMs: number): SaveTimer {
  const { writer } = stay;
  const befores = new Set<() => Promise<void>>();
  let saving: Promise<unknown> | undefined;
  const interval = setInterval(
    () => {
      if (writer.halt.cause !== undefined) return;
      saving ??= Promise.all([...befores].map((before) => before()))
        .then(() => writer.save({ trigger: "timer" }))
        .catch((error: unknown) => writer.tell({ kind: "note", text: `A checkpoint failed: ${reasonOf(error)}` }))
        .finally(() => {
          saving = undefined;
        });
    },
    Math.min(everyMs, LONGEST_TIMER_MS),
  );
  interval.unref();
  const timer: SaveTimer = {
    befores,
    async stopUnused() {
      if (befores.size === 0) {
        clearInterval(interval);
        timers.delete(stay);
      }
      await saving;
    },
  };
  timers.set(stay, timer);
  return timer;
}
