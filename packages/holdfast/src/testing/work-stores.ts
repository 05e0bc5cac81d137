import { scratchDirectory } from "./store-contract/scratch-directory.ts";
import type { Clock } from "../ports/clock.ts";
import type { Store } from "../ports/store.ts";
import { openMemoryStore } from "../stores/memory/memory-store.ts";
import { openSqliteStore } from "../stores/sqlite/open.ts";

export interface WorkStore {
  readonly name: string;
  open(clock: Clock, later: (dispose: () => void | Promise<void>) => void): Promise<Store>;
}

export const SQLITE: WorkStore = {
  name: "sqlite",
  async open(clock, later) {
    const store = await openSqliteStore({ directory: scratchDirectory(later), clock });
    later(() => store.close());
    return store;
  },
};

export const MEMORY: WorkStore = {
  name: "memory",
  open: (clock) => Promise.resolve(openMemoryStore({ clock })),
};

/** Both stores, for suites of what stands on one. */
export const WORK_STORES: readonly WorkStore[] = [MEMORY, SQLITE];
