// The memory store: the SQL store in a SQLite database that exists only in this process, without durability.

import { type Clock, systemClock } from "@holdfast/platform/clock";
import { type ProcessIdentity, processIdentity, randomId } from "@holdfast/platform/identity";
import { checkOptions } from "./options.ts";
import type { Driver } from "./store-sql/driver.ts";
import { openToken } from "./store-sql/leases.ts";
import { SQLITE, createTables } from "./store-sql/schema.ts";
import { type OpenDatabase, type Turns, connectToMemory, inTurn, readSnapshot } from "./store-sql/sqlite-driver.ts";
import { losesTrust, sqliteError } from "./store-sql/sqlite-errors.ts";
import { createSqlStore } from "./store-sql/store.ts";
import type { Store } from "./store.ts";

const LOCATION = "memory";

/** The database that the handles of one memory store share. It is freed with the last of them. */
export interface MemoryDatabase {
  readonly id: string;
  readonly connection: OpenDatabase;
  readonly turns: Turns;
  readonly listeners: Set<() => void>;
  /** How many transactions were committed. */
  commits: number;
}

export function createMemoryDatabase(): MemoryDatabase {
  const id = randomId();
  const connection = connectToMemory();
  createTables(connection, SQLITE, id);
  return { id, connection, turns: { busy: false, waiting: [] }, listeners: new Set(), commits: 0 };
}

/** Keeps every promise of the store contract except durability. */
export function openMemoryStore(
  params: {
    /** Shared by the handles of one store; a new one when absent. */
    readonly database?: MemoryDatabase;
    readonly clock?: Clock;
    readonly identity?: ProcessIdentity;
  } = {},
): Store {
  checkOptions("openMemoryStore", params, { database: "object", clock: "object", identity: "object" });
  const database = params.database ?? createMemoryDatabase();
  return createSqlStore({
    driver: createMemoryDriver(database),
    id: database.id,
    access: "write",
    directory: null,
    locks: false,
    token: openToken(),
    identity: params.identity ?? processIdentity(),
    clock: params.clock ?? systemClock,
  });
}

/** All handles use one connection, so reads and writes take turns. */
function createMemoryDriver(database: MemoryDatabase): Driver {
  const { connection, turns, listeners } = database;
  /** The newest commit that this handle made. */
  let own = -1;
  return {
    engine: "memory",
    durability: "none: gone with the process",
    location: LOCATION,
    highWater: null,
    forUpdate: "",
    checkHead: null,
    shared: false,
    ordersCommits: true,
    clock: null,
    async write(_claims, work) {
      const result = await inTurn(turns, async () => {
        connection.run("BEGIN");
        try {
          const done = await work(connection, own === database.commits);
          connection.run("COMMIT");
          database.commits += 1;
          own = database.commits;
          return done;
        } catch (error) {
          own = -1;
          connection.run("ROLLBACK");
          throw error;
        }
      });
      for (const listener of listeners) listener();
      return result;
    },
    read: (work) => inTurn(turns, () => readSnapshot(connection, work)),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    version: () => String(database.commits),
    generation: () => 0,
    inspect: () => Promise.resolve([]),
    bytes: () => Promise.resolve(Number(connection.pragma("page_count")) * Number(connection.pragma("page_size"))),
    compact: () => Promise.resolve(),
    makeRoom: () => 0,
    toError: (error) => sqliteError(error, LOCATION),
    losesTrust,
    blamesOne: () => true,
    close: () => Promise.resolve(),
  };
}
