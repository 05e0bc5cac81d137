import type { Checkpoint, Planes } from "../core/checkpoint.ts";
import { HoldfastError } from "../core/error.ts";
import { foldProgress } from "../core/progress-fold.ts";
import type { Parts } from "./parts.ts";

/** Where a run stands: its newest checkpoint, and its planes with the entries after it folded in. */
export async function findStanding(
  parts: Parts,
  run: string,
): Promise<{ readonly newest: Checkpoint; readonly planes: Planes }> {
  const newest = await parts.store.latest(run);
  if (newest === undefined) {
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `Run ${run} has no checkpoint`,
      hint: "Start it anew with `holdfast run`.",
    });
  }
  const entries = await Array.fromAsync(parts.store.readJournal({ run, after: newest.entry }));
  const { position } = foldProgress({ position: newest.planes.position, sequence: newest.sequence, entries });
  return { newest, planes: { ...newest.planes, position } };
}
