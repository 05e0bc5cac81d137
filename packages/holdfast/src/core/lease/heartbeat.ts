/** How often whoever holds a run says that it lives. */
export const HEARTBEAT_MS = 10_000;

/** Three beats missed: it hangs, or was stopped. */
export const SILENT_AFTER_MS = 35_000;
