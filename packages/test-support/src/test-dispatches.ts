// The dispatches that every promise of the dispatch is tested on, in one table.

import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Dispatch } from "@holdfast/core/dispatch";
import { openDbosDispatch } from "../../dispatch/src/dbos.ts";
import { openLocalDispatch } from "../../dispatch/src/local.ts";
import type { DispatchParams } from "../../dispatch/src/table-dispatch.ts";
import { postgresMissing, sharedPostgres } from "./postgres-server.ts";
import { scratchDirectory } from "./scratch-directory.ts";

export interface TestDispatch {
  readonly name: string;
  /** Why it cannot be tested here. */
  readonly missing: string | null;
  /** A location for `openTestDispatch` where no dispatch is yet. */
  location(later: (remove: () => void) => void): Promise<string>;
  /** Removes all that is stored there. */
  lose(location: string): Promise<void>;
}

export const TEST_DISPATCHES: readonly TestDispatch[] = [
  {
    name: "SQLite",
    missing: null,
    location: async (later) => join(scratchDirectory(later), "dispatch"),
    lose: async (location) => rmSync(location, { recursive: true }),
  },
  {
    name: "PostgreSQL with DBOS",
    missing: postgresMissing(),
    location: async () => (await sharedPostgres()).url(),
    async lose(location) {
      const schema = new URL(location).searchParams.get("schema") ?? "";
      const { sql } = await sharedPostgres();
      for (const suffix of ["dispatch", "dbos"]) sql(`DROP SCHEMA IF EXISTS "${schema}_${suffix}" CASCADE`);
    },
  },
];

/** A directory is SQLite's, a URL is PostgreSQL's. Works in any process of a test run. */
export function openTestDispatch(location: string, params: DispatchParams): Promise<Dispatch> {
  return location.startsWith("postgres:")
    ? openDbosDispatch({ url: location, ...params })
    : openLocalDispatch({ directory: location, ...params });
}
