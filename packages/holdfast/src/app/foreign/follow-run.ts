import type { ProgressEvent, ProgressListener } from "../../engine/progress-event.ts";

export interface FollowedRun extends AsyncDisposable {
  /** Hears what the run tells, and passes it on. */
  readonly listen: ProgressListener;
}

/**
 * Brings each checkpoint of a run to where others read it, as it is saved, never twice at once. It serves others: when it fails that is told
 * once, the run goes on, and the next checkpoint tries again. Disposed when all that was saved is there.
 */
export function followRun(params: {
  readonly run: string;
  readonly listen: ProgressListener | undefined;
  /** What is behind when it fails: "Crunch's directory". */
  readonly what: string;
  /** Called at once, too: one that was killed may have left it behind. */
  readonly catchUp: () => Promise<void>;
  /** Called instead every so often while nothing is saved. */
  readonly pulse?: { readonly everyMs: number; readonly beat: () => Promise<void> };
  /** Once more at the end: what it tells of the run itself is other then. */
  readonly last?: boolean;
}): FollowedRun {
  const { run, listen, pulse } = params;
  let told: string | null = null;
  let waiting = false;
  const attempt = async (act: () => Promise<void>): Promise<void> => {
    try {
      await act();
      told = null;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (why !== told) tell(listen, run, `${params.what} is behind: ${why}`);
      told = why;
    }
  };
  const catchUp = async (): Promise<void> => {
    waiting = false;
    await attempt(params.catchUp);
  };
  let work = catchUp();
  const timer =
    pulse === undefined
      ? undefined
      : setInterval(() => {
          work = work.then(() => attempt(pulse.beat));
        }, pulse.everyMs);
  timer?.unref();
  return {
    listen(event) {
      listen?.(event);
      if (event.kind !== "checkpoint" || waiting) return;
      waiting = true;
      work = work.then(catchUp);
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await work;
      if (params.last === true) await catchUp();
    },
  };
}

function tell(listen: ProgressListener | undefined, run: string, text: string): void {
  const event: ProgressEvent = { kind: "note", text, run, at: new Date().toISOString() };
  listen?.(event);
}
