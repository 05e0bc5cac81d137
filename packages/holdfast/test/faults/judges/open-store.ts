import type { LeaseOwner } from "@holdfast/core/lease";
import type { Store } from "@holdfast/core/store";
import { openDurableStore } from "@holdfast/test-support/durable-stores";

/** The store under test: the one that HOLDFAST_TEST_STORE names. */
export async function openStore(
  directory: string,
  identity?: Pick<LeaseOwner, "host" | "pid" | "started" | "boot">,
): Promise<Store> {
  return openDurableStore({ directory, ...(identity === undefined ? {} : { identity }) });
}

/** Stops waiting early where another process keeps the database locked. */
export async function openImpatiently(directory: string): Promise<Store> {
  return openDurableStore({ directory, busyMs: 300 });
}

/** The file of the high-water mark, and folders of the store that may be missing. */
export const STORE_FILES =
  process.env["HOLDFAST_TEST_STORE"] === "sql"
    ? { highWater: "high-water", folders: [] }
    : { highWater: "heads", folders: ["blobs"] };
