import type { LeaseOwner } from "@holdfast/core/lease";
import type { Store } from "@holdfast/core/store";
import { openSqliteStore } from "@holdfast/core/store-sql/open";

export async function openStore(
  directory: string,
  identity?: Pick<LeaseOwner, "host" | "pid" | "started" | "boot">,
): Promise<Store> {
  return openSqliteStore({ directory, ...(identity === undefined ? {} : { identity }) });
}

/** Stops waiting early where another process keeps the database locked. */
export async function openImpatiently(directory: string): Promise<Store> {
  return openSqliteStore({ directory, busyMs: 300 });
}
