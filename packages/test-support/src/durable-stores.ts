// The durable stores that suites run over.

import type { Store } from "@holdfast/core/store";
import { type OpenSqlParams, openSqlStore } from "@holdfast/core/store-sql/open";
import { openSqliteStore } from "../../holdfast/src/stores/sqlite/open.ts";

/** The stores that survive their process. Suites run over each; a child process of a suite opens the one that HOLDFAST_TEST_STORE names. */
export const DURABLE_STORES = { sqlite: openSqliteStore, sql: openSqlStore } as const;

export type DurableStore = keyof typeof DURABLE_STORES;

export function openDurableStore(params: OpenSqlParams): Promise<Store> {
  const name = process.env["HOLDFAST_TEST_STORE"] ?? "sqlite";
  if (name !== "sqlite" && name !== "sql") throw new Error(`HOLDFAST_TEST_STORE names no store: ${name}`);
  return DURABLE_STORES[name](params);
}
