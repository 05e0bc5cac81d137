import type { LeaseOwner } from "../../../src/core/lease/lease.ts";
import type { Store } from "../../../src/ports/store.ts";
import { openSqliteStore } from "../../../src/stores/sqlite/open.ts";

/** The store under test; the one place that names it. */
export async function openStore(
  directory: string,
  identity?: Pick<LeaseOwner, "host" | "pid" | "started" | "boot">,
): Promise<Store> {
  return openSqliteStore({ directory, ...(identity === undefined ? {} : { identity }) });
}

/** Gives up early where another process keeps the database locked. */
export async function openImpatiently(directory: string): Promise<Store> {
  return openSqliteStore({ directory, busyMs: 300 });
}
