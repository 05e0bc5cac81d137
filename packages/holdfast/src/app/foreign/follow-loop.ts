import type { LoopLayoutSettings } from "../../core/lease/loop-layout.ts";
import type { Parts } from "../../engine/parts.ts";
import type { ProgressListener } from "../../engine/progress-event.ts";
import { crunchRoot } from "./crunch-root.ts";
import { followRun } from "./follow-run.ts";
import type { FollowedRun } from "./follow-run.ts";
import { LayoutFiles } from "./layout-files.ts";
import { cleanUpDaily } from "./loop-cleanup.ts";
import { LoopLayout } from "./loop-layout.ts";
import { writeRegistry } from "./loop-registry.ts";
import { standingLoops } from "./loop-standings.ts";

/** As often as the published registry wants to see a sign of life. */
const PULSE_MS = 60_000;

/** Keeps the files below `.aiwg` up to date with a run of the ralph workflow, and cleans up there when a day has passed. */
export async function followLoop(params: {
  readonly parts: Parts;
  readonly run: string;
  readonly cwd: string;
  readonly settings: LoopLayoutSettings;
  readonly limit: number | null;
  readonly listen: ProgressListener | undefined;
}): Promise<FollowedRun> {
  const { parts, run, settings, listen } = params;
  const root = settings.directory ?? (await crunchRoot(parts.workspaces, params.cwd));
  const place = { parts, root, settings, limit: params.limit };
  const layout = new LoopLayout({ ...place, run });
  let begun = false;
  const catchUp = async (): Promise<void> => {
    await layout.catchUp();
    if (begun) return;
    begun = true;
    // Nobody is there to tell of a loop whose process died.
    for (const { run: other, standing } of await standingLoops(parts)) {
      if (standing.status === "crashed") await new LoopLayout({ ...place, run: other.id }).catchUp();
    }
    await cleanUpDaily(place);
  };
  const files = new LayoutFiles(root);
  const beat = async (): Promise<void> => void (await writeRegistry(place, files, { pulse: true }));
  const pulse = { everyMs: PULSE_MS, beat };
  return followRun({ run, listen, what: "The directory .aiwg", catchUp, pulse, last: true });
}
