/** Reads the entries of the queue as `queue` and `status` show them: with the reason why each waits, and its failed attempts. */
import type { Dispatch, Entry } from "@holdfast/core/dispatch";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import type { Store } from "@holdfast/core/store";
import type { Settings } from "../config/effective-config.ts";
import { readAttempt } from "./fleet-runs.ts";
import { dispatchPlace, findDispatch } from "./open-dispatch.ts";
import { failuresOf, parseEntryKey, whyWaiting } from "./plan-fleet.ts";
import { askInTime } from "./worker-health.ts";

export interface QueueEntry extends Entry {
  /** The id of the run in its store. */
  readonly run: string;
  /** The id of the store that has the run. */
  readonly store: string;
  /** null: it is executed, or its time has not come, and no attempt has failed. */
  readonly why: string | null;
  /** How many attempts failed in a row. null: the store of the run is not read here. */
  readonly failures: number | null;
}

type Env = Readonly<Record<string, string | undefined>>;
type FoundRun = Pick<RunWithStatus, "run" | "status">;

/** `runs`: those of the store that is read here, read after the entries: a run is in its store before its entry. `now`: by the clock of that store. */
export async function readEntries(
  dispatch: Pick<Dispatch, "list" | "workers">,
  params: {
    readonly store: Pick<Store, "id" | "getMeta"> | null;
    readonly runs: () => Promise<readonly FoundRun[]>;
    readonly limits: Settings["fleet"]["limits"];
    readonly now: () => Promise<number>;
  },
): Promise<readonly QueueEntry[]> {
  const { store, limits } = params;
  const [entries, workers] = await Promise.all([dispatch.list(), dispatch.workers()]);
  const now = await params.now();
  const runs = new Map((await params.runs()).map((found) => [found.run.id, found]));
  return await Promise.all(
    entries.map(async (entry): Promise<QueueEntry> => {
      const key = parseEntryKey(entry.run);
      const found = key.store === store?.id ? runs.get(key.run) : undefined;
      const status = found?.status ?? null;
      const attempt = store === null || found === undefined ? undefined : await readAttempt(store, key.run);
      const failures =
        found === undefined ? null : failuresOf({ ...found, entries: found.run.entries, attempt }, entry);
      const facts = { entries, workers, limits, now, status, failures, host: attempt?.host ?? null };
      const why = whyWaiting(entry, facts);
      return { ...entry, ...key, why, failures };
    }),
  );
}

export interface QueueReader {
  /** The entries of these runs. A run without one is not in the queue, or the queue cannot be read now. */
  read(runs: readonly RunWithStatus[]): Promise<ReadonlyMap<string, QueueEntry>>;
  close(): Promise<void>;
}

/** For commands that need no queue: one that is away, or that the role may not read, is as good as empty. It is opened for the first submitted run. */
export function createQueueReader(params: {
  readonly store: Store;
  readonly settings: Pick<Settings, "fleet" | "store">;
  readonly env: Env;
}): QueueReader {
  const { store, settings, env } = params;
  const { limits } = settings.fleet;
  let dispatch: Promise<Dispatch | null> | null = null;
  let asked: readonly RunWithStatus[] = [];
  const ask = askInTime(async () => {
    dispatch ??= findDispatch(dispatchPlace(settings, store.location), { limits, env });
    const found = await dispatch.catch(() => null);
    // There may be one later.
    if (found === null) dispatch = null;
    return found === null
      ? []
      : await readEntries(found, { store, limits, runs: async () => asked, now: () => store.now() });
  });
  return {
    async read(runs) {
      asked = runs;
      if (!runs.some(({ submitted }) => submitted)) return new Map();
      const entries = await ask().catch(() => []);
      const wanted = new Set(runs.map(({ run }) => run.id));
      const own = entries.filter((entry) => entry.store === store.id && wanted.has(entry.run));
      return new Map(own.map((entry) => [entry.run, entry]));
    },
    async close() {
      await askInTime(async () => await (await dispatch)?.close())().catch(() => undefined);
    },
  };
}
