import type { Parts } from "../../engine/parts.ts";
import type { ProgressEvent, ProgressListener } from "../../engine/progress-event.ts";
import { crunchRoot } from "./crunch-root.ts";
import { Mirror } from "./mirror.ts";

export interface FollowedRun extends AsyncDisposable {
  /** Hears what the run tells, and passes it on. */
  readonly listen: ProgressListener;
}

/**
 * Brings each checkpoint of a crunch run into crunch's directory as it is saved. It serves others: when it fails that is told once, the run goes
 * on, and the next checkpoint tries again. Disposed when all that was saved is there.
 */
export async function followCrunch(params: {
  readonly parts: Parts;
  readonly run: string;
  readonly cwd: string;
  readonly listen: ProgressListener | undefined;
}): Promise<FollowedRun> {
  const { parts, run, listen } = params;
  const root = await crunchRoot(parts.workspaces, params.cwd);
  const fresh = (): Mirror => new Mirror({ parts, run, to: "crunch-yaml", root });
  let mirror = fresh();
  let told: string | null = null;
  let waiting = false;
  const catchUp = async (): Promise<void> => {
    waiting = false;
    try {
      await mirror.catchUp();
      told = null;
    } catch (error) {
      // What it had written it will find there.
      mirror = fresh();
      const why = error instanceof Error ? error.message : String(error);
      if (why !== told) tell(listen, run, `Crunch's directory is behind: ${why}`);
      told = why;
    }
  };
  // At once: one that was killed may have left it behind.
  let work = catchUp();
  return {
    listen(event) {
      listen?.(event);
      if (event.kind !== "checkpoint" || waiting) return;
      waiting = true;
      work = work.then(catchUp);
    },
    async [Symbol.asyncDispose]() {
      await work;
    },
  };
}

function tell(listen: ProgressListener | undefined, run: string, text: string): void {
  const event: ProgressEvent = { kind: "note", text, run, at: new Date().toISOString() };
  listen?.(event);
}
