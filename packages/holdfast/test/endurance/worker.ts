/**
 * One ended: starts the run of issue 1 in the current directory or resumes it, exactly as the command line does. It
 * kills itself with SIGKILL at a given point. Its last line lists the points that it passed and its outcome.
 */
import { writeFileSync } from "node:fs";
import { openHoldfast } from "../../src/open.ts";
import type { Holdfast } from "../../src/holdfast.ts";
import type { ProgressEvent } from "@holdfast/core/progress";
import type { Workflow } from "@holdfast/core/workflow";
import { readProcessTable } from "@holdfast/platform/process-tree";
import type { Leg } from "./scenarios.ts";
import { type Point, crashingAdapters } from "./crashing-adapters.ts";
import { sideWorktreesWorkflow } from "./side-worktrees-workflow.ts";
import { effectsWorkflow } from "./effects-workflow.ts";

export interface WorkerParams {
  readonly agent: string;
  readonly leg: Leg;
  readonly dieAt: Point | null;
  /** Written for the remote's hook when it shall end us in the middle of a push. */
  readonly dieInPush: string;
}

export interface PassedPoint {
  readonly point: Point;
  /** The stage of the run; empty before it was resumed. */
  readonly stage: string;
}

runWorker(JSON.parse(process.argv[2] ?? "") as WorkerParams).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exitCode = 1;
});

/**
 * At every other edit the agent hangs when this process dies, so that only a kill ends it; at the rest it continues to
 * write.
 */
function freezeAgents(): void {
  for (const { pid, parent, mark } of readProcessTable()?.live ?? [])
    if (parent === process.pid && mark !== null) process.kill(pid, "SIGSTOP");
}

async function workflowOf(own: Leg["own"], holdfast: Holdfast): Promise<Workflow | "crunch" | "ralph" | undefined> {
  switch (own) {
    case "effects":
      return effectsWorkflow(await holdfast.work.adapters());
    case "side-worktrees":
      return sideWorktreesWorkflow();
    case "crunch":
    case "ralph":
      return own;
    case null:
      return undefined;
  }
}

async function runWorker({ agent, leg, dieAt, dieInPush }: WorkerParams): Promise<void> {
  const points: PassedPoint[] = [];
  let stage = "";
  const listen = (event: ProgressEvent): void => {
    if (event.kind === "stage_entered") ({ stage } = event);
  };
  const reach = (point: Point): void => {
    points.push({ point, stage });
    if (point !== dieAt) return;
    if (point.endsWith(" during")) return writeFileSync(dieInPush, String(process.pid));
    if (/^agent\.edit#\d*[13579] /.test(point)) freezeAgents();
    process.kill(process.pid, "SIGKILL");
  };
  await using holdfast = await openHoldfast({ adapters: (adapters) => crashingAdapters(adapters, reach) });
  const { options, limit, own } = leg;
  const workflow = await workflowOf(own, holdfast);
  const found = await holdfast.work.findRunFor(1);
  const ended = found.kind === "none" ? found.ended[0] : undefined;
  const run = found.kind === "one" ? found.run.id : ended?.id;
  const { outcome } =
    run === undefined
      ? await holdfast.start({
          work: { kind: "issue", number: 1 },
          agent,
          options,
          limit,
          listen,
          ...(workflow === undefined ? {} : { workflow }),
        })
      : await holdfast.resume({
          run,
          listen,
          ...(leg.raises ? { limit } : {}),
          // A workflow of ours is known by the run.
          ...(workflow === undefined || typeof workflow === "string" ? {} : { workflow }),
        });
  process.stdout.write(`${JSON.stringify({ points, outcome })}\n`);
}
