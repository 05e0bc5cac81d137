/**
 * The watchdog for an agent that goes on saying that it waits: such a line is no sign of life. It runs from the first of them in a row;
 * any other line calls it off.
 */
export function createWaitingWatch(idleMs: number | null): WaitingWatch {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | null = null;
  let overflows = 0;
  const stop = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
  };
  return {
    signal: controller.signal,
    line(isWaiting) {
      if (!isWaiting) stop();
      else if (timer === null && idleMs !== null) timer = setTimeout(() => controller.abort(), idleMs);
    },
    overflow() {
      overflows += 1;
      if (overflows === MAX_OVERFLOWS) controller.abort();
    },
    acted: () => void (overflows = 0),
    stop,
  };
}

/** One leads to a summary of the history, which may help; the next one shows that it did not. */
const MAX_OVERFLOWS = 3;

export interface WaitingWatch {
  /** Aborted when it has waited long enough. */
  readonly signal: AbortSignal;
  line(isWaiting: boolean): void;
  /** The model refused the prompt because it is too long. The third time without a tool call in between is the end: each one costs a summary. */
  overflow(): void;
  /** A tool was called. */
  acted(): void;
  stop(): void;
}
