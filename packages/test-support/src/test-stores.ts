// The stores that every promise of the store is tested on, in one table.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "@holdfast/core/store";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import type { Clock } from "@holdfast/platform/clock";
import type { ProcessIdentity } from "@holdfast/platform/identity";
import { type OpenPostgresParams, openPostgresStore } from "@holdfast/postgres/open";
import { SHARED, postgresMissing, sharedPostgres } from "./postgres-server.ts";
import { scratchDirectory } from "./scratch-directory.ts";

export interface TestStore {
  readonly name: string;
  /** Why it cannot be tested here. */
  readonly missing: string | null;
  /** A location for `openTestStore` where no store is yet. */
  location(later: (remove: () => void) => void): Promise<string>;
}

export const TEST_STORES: readonly TestStore[] = [
  { name: "SQLite", missing: null, location: async (later) => join(scratchDirectory(later), "store") },
  { name: "PostgreSQL", missing: postgresMissing(), location: async () => (await sharedPostgres()).url() },
];

/** A directory is SQLite's, a URL is PostgreSQL's. Works in any process of a test run. */
export function openTestStore(
  location: string,
  params: {
    readonly create?: boolean;
    readonly clock?: Clock;
    readonly identity?: ProcessIdentity;
    readonly busyMs?: number;
    readonly patienceMs?: number;
    readonly onWait?: OpenPostgresParams["onWait"];
  } = {},
): Promise<Store> {
  const { busyMs, patienceMs, onWait, ...common } = params;
  if (!location.startsWith("postgres:"))
    return openSqliteStore({ directory: location, ...common, ...(busyMs === undefined ? {} : { busyMs }) });
  // Beside the shared server: processes that share a store share the directory.
  const stateHome = process.env[SHARED] ?? mkdtempSync(join(tmpdir(), "holdfast-state-"));
  return openPostgresStore({
    url: location,
    stateHome,
    ...common,
    ...(patienceMs === undefined ? {} : { patienceMs }),
    ...(onWait === undefined ? {} : { onWait }),
  });
}
