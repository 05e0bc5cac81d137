import type { Forge } from "../../ports/forge.ts";
import { openWorktree, requireForge, stageTime } from "../worktree.ts";
import type { Worktree } from "../worktree.ts";
import { heedLabel } from "./heed-label.ts";
import { setStateLabel } from "./set-state-label.ts";
import { requireSetup, tell } from "./work.ts";
import type { CrunchContext, CrunchWork } from "./work.ts";
import type { CrunchStage } from "./workflow-shape.ts";

/** What a phase works with. */
export interface Place {
  readonly worktree: Worktree;
  readonly forge: Forge;
  /** When the phase was entered; commits made in it have this date. */
  readonly at: string;
}

export async function findPlace(work: CrunchWork, context: CrunchContext): Promise<Place> {
  const forge = await requireForge(work, context);
  return { forge, worktree: await openWorktree(work, context), at: await stageTime(context) };
}

/** What every phase begins with: the label that tells others, and a line in the run's own book. */
export async function enterPhase(
  work: CrunchWork,
  context: CrunchContext,
  { place, phase }: { readonly place: Place; readonly phase: CrunchStage },
): Promise<void> {
  const { issue } = requireSetup(context);
  await heedLabel(work, context, { forge: place.forge, phase });
  await setStateLabel(context, place.forge, { issue: issue.number, phase });
  await tell(context, "phase-entered", { kind: "phase_entered", phase, at: place.at });
}
