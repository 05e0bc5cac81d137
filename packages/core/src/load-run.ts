// Loads a run's state from the store: the newest usable checkpoint and the journal entries after it.
import { HoldfastError } from "@holdfast/platform/error";
import type { CoreAdapters } from "./adapters.ts";
import { spendTime } from "./budget.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { workingTime } from "./journal.ts";
import type { Position } from "./position.ts";
import { type ApplyEvent, type LoadedState, type SettledFiles, loadState } from "./state.ts";
import type { Store } from "./store.ts";

export interface LoadedRun extends LoadedState {
  /** The state's position. Its budget includes the working time since the checkpoint. */
  readonly position: Position;
  /** Working time since the checkpoint, from the times of the entries. */
  readonly milliseconds: number;
  readonly newest: Checkpoint;
  /** Sequence of the newest checkpoint, even if that one is not usable. */
  readonly top: number;
}

/** Loads a run: the newest usable checkpoint and the entries after it. Reads only. */
export async function loadRun(
  parts: Pick<CoreAdapters, "store">,
  run: string,
  apply: ApplyEvent = null,
): Promise<LoadedRun> {
  const { store } = parts;
  const newest = await store.latest(run);
  if (newest === undefined) {
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `Run ${run} has no checkpoint to resume from`,
      hint: "Start it again under the same id: what is there is kept.",
    });
  }
  const loaded = await loadFrom(store, newest, apply);
  const [top] = await store.listCheckpoints({ run, limit: 1 });
  return { ...loaded, newest, top: top?.sequence ?? newest.sequence };
}

/** Loads a run from a checkpoint that the caller already has. */
export async function loadFrom(
  store: Store,
  newest: Checkpoint,
  apply: ApplyEvent = null,
): Promise<Omit<LoadedRun, "newest" | "top">> {
  const since = await Array.fromAsync(store.readJournal({ run: newest.run, after: newest.entry - 1 }));
  const entries = since.filter(({ entry }) => entry > newest.entry);
  const settled = await settledBefore(store, newest);
  const loaded = loadState({
    run: newest.run,
    checkpoint: newest,
    entries,
    effects: await store.listEffects(newest.run),
    ...(settled === null ? {} : { settled }),
    apply,
  });
  const { position } = loaded.state;
  const milliseconds = workingTime(since);
  return { ...loaded, position: { ...position, budget: spendTime(position.budget, milliseconds) }, milliseconds };
}

/**
 * Finds the settled files of a checkpoint that was taken during an agent call that must not change files. null: the
 * checkpoint's own files are the settled ones.
 */
async function settledBefore(
  store: Store,
  { run, sequence, entry, planes: taken }: Checkpoint,
): Promise<SettledFiles | null> {
  const { settled } = taken.position.visit;
  if (settled === undefined || settled.of !== sequence) return null;
  // Retention may have dropped that checkpoint.
  const [found] = await store.listCheckpoints({ run, before: settled.at + 1, limit: 1 });
  if (found?.sequence !== settled.at || found.entry >= entry) return null;
  const { planes } = await store.getCheckpoint({ run, sequence: settled.at });
  return { sequence: settled.at, files: planes.files };
}
