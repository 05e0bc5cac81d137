import { HoldfastError } from "../../core/error.ts";
import type { NewEntry, RunParked, RunUnparked } from "../../core/journal/journal.ts";
import { Stopped } from "../halt.ts";
import type { Stay } from "../stage/stay.ts";

/**
 * In one commit: why, until when, and a checkpoint, so that whatever changes until somebody goes on can be told from
 * what the run did. `prepare` adds what belongs to the same act.
 */
export async function parkRun(
  stay: Stay,
  parked: RunParked,
  prepare: () => readonly NewEntry[] = () => [],
): Promise<never> {
  const { writer } = stay;
  stay.check();
  checkUntil(parked.until);
  await stay.busy(() =>
    writer.save({
      trigger: "session_end",
      name: `parked on ${parked.on}`,
      prepare: () => [...prepare(), parkedOn(parked)],
    }),
  );
  const { on, reason, until } = parked;
  writer.tell({ kind: "parked", on, reason, until });
  const stopped = new Stopped({ kind: "parked", on, reason, until }, { saved: true });
  writer.halt.stop(stopped);
  throw stopped;
}

export function parkedOn({ decision, ...parked }: RunParked): NewEntry {
  return { kind: "run.parked", body: decision === undefined ? parked : { ...parked, decision } };
}

export function unparked(body: RunUnparked): NewEntry {
  return { kind: "run.unparked", body: { ...body } };
}

function checkUntil(until: string | null): void {
  if (until === null || Number.isFinite(Date.parse(until))) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(until)} is not a time to park until`,
    hint: "Give an ISO 8601 time, or null.",
  });
}
