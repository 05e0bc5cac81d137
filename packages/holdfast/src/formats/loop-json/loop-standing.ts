import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import type { Run } from "../../core/run/run.ts";
import type { LiveLoop } from "./live-loop.ts";

/** Words of the published schemas. What they have no word for is told by `detail`. */
export type LoopStatus = "running" | "paused" | "completing" | "completed" | "failed" | "aborted" | "crashed";

/** Where a loop stands, derived from journal and lease at the moment of writing. */
export interface LoopStanding {
  readonly status: LoopStatus;
  /** In our own words: "parked on budget", "crashed, can be resumed". */
  readonly detail: string;
  readonly reason: string | null;
  readonly endedAt: string | null;
  /** Of the living process that carries it on this host. */
  readonly pid: number | null;
  readonly owner: string | null;
  readonly heartbeatAt: string | null;
}

export interface StandingLoop {
  readonly run: Pick<Run, "id" | "createdAt">;
  readonly live: LiveLoop;
  readonly newest: Pick<Checkpoint, "createdAt" | "iteration" | "stage" | "planes">;
  readonly standing: LoopStanding;
  readonly priority: number;
  /** Store and run, so that entries of ours are told from those of others. */
  readonly store: string;
}

/** What the registry and a loop's state say alike. */
export function commonMembers({ run, live, newest, standing }: StandingLoop) {
  const { options } = live;
  const checks = options.until.map(({ command }) => command);
  return {
    loop_id: live.loopId ?? live.workflowId,
    status: standing.status,
    // As in the names of the files: from 1, 0 before the first.
    iteration: newest.iteration,
    task: options.task,
    ...(checks.length === 0 ? {} : { completion_criteria: checks.join(" && ") }),
    started_at: run.createdAt,
    pid: standing.pid,
    ...(standing.owner === null ? {} : { owner: standing.owner }),
    working_directory: newest.planes.files?.worktree ?? null,
  };
}
