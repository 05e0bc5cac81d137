import { loopPicture } from "../app.ts";
import type { Holdfast, ProgressEvent, WorkReport } from "../app.ts";
import { HoldfastError } from "../core/error.ts";
import type { Exit } from "../core/exit.ts";
import type { Shell } from "./command.ts";
import { exitOfOutcome, NO_FLAGS, outcomeText } from "./commands/run/outcome-view.ts";
import { heldError } from "./commands/run/run-refusals.ts";
import { statusJson } from "./commands/status/status-json.ts";
import { createRunMirror } from "./run-mirror.ts";
import { canRedraw } from "./live/can-redraw.ts";
import { followGraph } from "./live/follow-graph.ts";
import { createReporter } from "./live/reporter.ts";

/** Shows a run as it is carried on, and then how that ended. */
export async function carryRun(
  shell: Shell,
  holdfast: Holdfast,
  work: (listen: (event: ProgressEvent) => void) => Promise<WorkReport>,
  flags = NO_FLAGS,
): Promise<Exit> {
  const reporter = createReporter(shell);
  const mirror = await createRunMirror(shell, holdfast);
  const live = canRedraw(shell) && !shell.json && !shell.quiet;
  const graph = live ? followGraph(holdfast, reporter) : undefined;
  const listen = (event: ProgressEvent): void => {
    reporter.tell(event);
    graph?.tell(event);
    if (event.kind === "checkpoint") mirror.follow(event.run);
    // Money is in the checkpoints; news that comes a moment late is good enough for a live view.
    if (event.kind === "checkpoint" && live)
      void holdfast.store
        .latest(event.run)
        .then((latest) => {
          if (latest === undefined) return;
          reporter.spent(latest.planes.position.budget.spent);
          reporter.loop(loopPicture(latest.planes));
        })
        .catch(() => undefined);
  };
  let report: WorkReport;
  try {
    report = await work(listen);
  } catch (error) {
    throw await namingHolder(holdfast, error);
  } finally {
    await graph?.close();
    await mirror.close();
    reporter.close();
  }
  const { run, outcome, earlier } = report;
  const status = await holdfast.status(run);
  if (shell.json)
    shell.write(
      `${JSON.stringify({ run, outcome, ...(earlier === true ? { earlier } : {}), status: statusJson(status) })}\n`,
    );
  else shell.write(outcomeText(outcome, status, shell.page, flags));
  return exitOfOutcome(outcome);
}

/** Somebody was quicker: who that is, and what can be done about it. */
async function namingHolder(holdfast: Holdfast, error: unknown): Promise<unknown> {
  const run = error instanceof HoldfastError && error.code === "LEASE_HELD" ? error.data["run"] : undefined;
  if (typeof run !== "string") return error;
  const holder = await (await holdfast.run(run)).holder();
  return holder?.alive === "alive" ? heldError(run, holder.lease) : error;
}
