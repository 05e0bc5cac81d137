/**
 * The watchdog for an agent that goes on saying that it waits: such a line is no sign of life. It runs from the first of them in a row;
 * any other line calls it off.
 */
export function createWaitingWatch(idleMs: number | null): WaitingWatch {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | null = null;
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
    stop,
  };
}

export interface WaitingWatch {
  /** Aborted when it has waited long enough. */
  readonly signal: AbortSignal;
  line(isWaiting: boolean): void;
  stop(): void;
}
