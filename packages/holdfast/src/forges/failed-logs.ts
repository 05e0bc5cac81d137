import { HoldfastError } from "../core/error.ts";
import { plainLog } from "./plain-log.ts";

/** Of how many checks that failed the log is read. */
export const MOST_LOGS = 5;

/** What a job said last; null where that cannot be read: that its check failed is known without it. */
export async function logTail(read: () => Promise<string | null>): Promise<string | null> {
  try {
    const log = await read();
    return log === null ? null : plainLog(log).slice(-LOG_TAIL);
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

const LOG_TAIL = 4000;
