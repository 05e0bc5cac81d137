import { HoldfastError } from "../../core/error.ts";
import type { ForgePlace } from "./forge-place.ts";

/** Here what the system throws becomes an error that says what to do; what is one already passes. */
export async function tellForgeFailures<T>(place: ForgePlace, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    const locking = error instanceof Error && "errcode" in error ? error.errcode : undefined;
    const isDenied = ["EACCES", "EPERM", "EROFS"].some((name) => name === code) || isLockDenied(locking);
    const isFull = code === "ENOSPC" || code === "EDQUOT";
    throw new HoldfastError({
      code: isDenied ? "FORGE_DENIED" : isFull ? "DISK_FULL" : "FORGE_FAILED",
      message: `the forge in ${place.directory} failed: ${error instanceof Error ? error.message : String(error)}`,
      hint: isDenied
        ? "Check who owns the folder and its permissions."
        : "Look at the folder and the disk, then try again.",
      retry: isDenied ? "ask" : "later",
      cause: error,
    });
  }
}

/** SQLite's words for a lock file that may not be written or opened: READONLY and CANTOPEN. */
function isLockDenied(errcode: unknown): boolean {
  return errcode === 8 || errcode === 14;
}
