import type { RunSummary } from "../../core/run/run.ts";
import { newestWhole } from "../../engine/conduct/newest-whole.ts";
import type { Parts } from "../../engine/parts.ts";
import { liveLoop } from "../../formats/loop-json/live-loop.ts";
import type { LoopStanding, LoopStatus, StandingLoop } from "../../formats/loop-json/loop-standing.ts";
import { standAll } from "../look/loops.ts";
import type { Stood } from "../look/loops.ts";

/** All loops of the store that have not ended, oldest first. */
export async function standingLoops(parts: Parts): Promise<readonly StandingLoop[]> {
  const stood = await standAll(parts, async () => {
    const runs = await parts.store.listRuns({ workflow: "ralph" });
    return runs.filter(({ state }) => state.kind === "open" || state.kind === "parked");
  });
  const loops: StandingLoop[] = [];
  for (const one of stood.toReversed()) {
    const loop = await loopOf(parts, one);
    if (loop !== null && ACTIVE.has(loop.standing.status)) loops.push(loop);
  }
  return loops;
}

/** null: it is no loop, or not one yet. */
export async function standingLoop(parts: Parts, run: RunSummary): Promise<StandingLoop | null> {
  const [stood] = await standAll(parts, async () => [run]);
  return stood === undefined ? null : await loopOf(parts, stood);
}

async function loopOf(parts: Parts, stood: Stood): Promise<StandingLoop | null> {
  const { run } = stood;
  const { checkpoint: newest } = await newestWhole(parts.store, run.id);
  const live = newest === undefined ? null : liveLoop(run, newest.planes);
  if (newest === undefined || live === null) return null;
  return { run, live, newest, store: parts.store.id, priority: stood.priority, standing: standingOf(stood) };
}

const ACTIVE: ReadonlySet<LoopStatus> = new Set(["running", "paused", "completing", "crashed"]);

function standingOf({ standing, holder }: Stood): LoopStanding {
  const nobody = { reason: null, endedAt: null, pid: null, owner: null, heartbeatAt: null };
  const held =
    holder === null ? nobody : { ...nobody, owner: `${holder.host}: ${holder.label}`, heartbeatAt: holder.heartbeatAt };
  const here = holder === null ? held : { ...held, pid: holder.pid };
  switch (standing.kind) {
    case "running":
      return {
        ...here,
        status: "running",
        detail: standing.ordered === null ? "running" : `running, told to ${standing.ordered}`,
      };
    case "completing":
      return { ...here, status: "completing", detail: "completing" };
    case "stale":
      return {
        ...here,
        status: "running",
        detail: standing.suspended ? "running, suspended" : "running, gives no sign of life",
      };
    case "elsewhere":
      return { ...held, status: "running", detail: `running on ${standing.host}` };
    case "queued":
      return { ...here, status: "paused", detail: "waits for a place among the loops at work" };
    case "waiting":
      return { ...nobody, status: "paused", detail: `waits for ${standing.on}` };
    case "paused":
      return { ...nobody, status: "paused", detail: "paused" };
    case "budget_exhausted":
      return { ...nobody, status: "paused", detail: "budget exhausted" };
    case "stopped":
    case "new":
    case "manual":
      return { ...nobody, status: "paused", detail: "stopped, can be resumed" };
    case "crashed":
      return { ...nobody, status: "crashed", detail: "crashed, can be resumed", reason: "Its process is gone" };
    case "completed":
      return { ...nobody, status: "completed", detail: "completed", endedAt: standing.at };
    case "failed":
      return { ...nobody, status: "failed", detail: "failed", reason: standing.reason, endedAt: standing.at };
    case "limit_reached":
      return { ...nobody, status: "failed", detail: "limit reached", reason: standing.reason };
    case "aborted":
      return { ...nobody, status: "aborted", detail: "aborted", reason: standing.reason };
  }
}
