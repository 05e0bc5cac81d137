import type { RunSummary } from "../../core/run.ts";
import { newestWhole } from "../../engine/newest-whole.ts";
import type { Parts } from "../../engine/parts.ts";
import { liveLoop } from "../../formats/loop-json/live-loop.ts";
import type { LoopStanding, StandingLoop } from "../../formats/loop-json/loop-standing.ts";
import { conditionOf } from "../run-condition.ts";
import type { Condition } from "../run-condition.ts";

/** All loops of the store that have not ended. */
export async function standingLoops(parts: Parts): Promise<readonly StandingLoop[]> {
  const runs = await parts.store.listRuns({ workflow: "ralph" });
  const loops: StandingLoop[] = [];
  for (const run of runs.toReversed()) {
    if (run.state.kind === "done" || run.state.kind === "fatal") continue;
    const loop = await standingLoop(parts, run);
    if (loop !== null) loops.push(loop);
  }
  return loops;
}

/** null: it is no loop, or not one yet. */
export async function standingLoop(parts: Parts, run: RunSummary): Promise<StandingLoop | null> {
  const { checkpoint: newest } = await newestWhole(parts.store, run.id);
  const live = newest === undefined ? null : liveLoop(run, newest.planes);
  if (newest === undefined || live === null) return null;
  const lease = await parts.store.getLease(run.id);
  const holder = lease === undefined ? undefined : { lease, alive: parts.liveness(lease.owner) };
  const condition = conditionOf({ run, holder, question: null, worked: true });
  return { run, live, newest, store: parts.store.id, standing: standingOf(condition, newest.stage) };
}

function standingOf(condition: Condition, stage: string): LoopStanding {
  const nobody = { reason: null, endedAt: null, pid: null, owner: null, heartbeatAt: null };
  switch (condition.kind) {
    case "running":
    case "held": {
      const { owner, heartbeatAt } = condition.lease;
      const here = condition.kind === "running";
      const completing = COMPLETING.has(stage);
      return {
        ...nobody,
        status: completing ? "completing" : "running",
        detail: here ? (completing ? "completing" : "running") : `running on ${owner.host}`,
        pid: here ? owner.pid : null,
        owner: `${owner.host}: ${owner.label}`,
        heartbeatAt,
      };
    }
    case "parked": {
      const { on, reason } = condition;
      return { ...nobody, status: "paused", detail: on === "budget" ? "budget exhausted" : `waits for ${on}`, reason };
    }
    case "stopped":
    case "manual":
      return { ...nobody, status: "paused", detail: "stopped, can be resumed" };
    case "crashed":
      return { ...nobody, status: "crashed", detail: "crashed, can be resumed", reason: "Its process is gone" };
    case "done":
      return { ...nobody, status: "completed", detail: "completed", endedAt: condition.at };
    case "fatal":
      return {
        ...nobody,
        status: "failed",
        detail: stage === "limit" ? "limit reached" : "failed",
        reason: condition.reason,
        endedAt: condition.at,
      };
  }
}

/** The criterion holds, and what is left is to hand the work over. */
const COMPLETING: ReadonlySet<string> = new Set(["publish", "done"]);
