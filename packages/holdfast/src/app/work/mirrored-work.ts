import type { LoopLayoutSettings } from "../../core/lease/loop-layout.ts";
import type { Parts } from "../../engine/parts.ts";
import type { ProgressListener } from "../../engine/progress-event.ts";
import type { WorkReport } from "./start-run.ts";

/** Crunch runs and loops keep the directories up to date that other readers of theirs look into, unasked. */
export async function mirroredWork(
  params: {
    readonly parts: Parts;
    readonly workflow: string;
    readonly run: string;
    readonly cwd: string;
    readonly listen: ProgressListener | undefined;
    readonly loopLayout: LoopLayoutSettings;
    readonly maxLoops: number | null;
  },
  work: (listen: ProgressListener | undefined) => Promise<WorkReport>,
): Promise<WorkReport> {
  const { workflow, loopLayout: settings, maxLoops: limit, ...followed } = params;
  if (workflow === "crunch") {
    const { followCrunch } = await import("../foreign/follow-crunch.ts");
    await using mirror = await followCrunch(followed);
    return await work(mirror.listen);
  }
  if (workflow === "ralph" && settings.mirror) {
    const { followLoop } = await import("../foreign/follow-loop.ts");
    await using mirror = await followLoop({ ...followed, settings, limit });
    return await work(mirror.listen);
  }
  return await work(params.listen);
}
