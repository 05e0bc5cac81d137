import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { CheckpointRef, Store } from "../../ports/store.ts";
import { commitWork } from "../commit-work.ts";
import { stageTime } from "../worktree.ts";
import type { Worktree } from "../worktree.ts";
import { parseLoopState } from "./state.ts";
import type { LoopState } from "./state.ts";
import type { LoopContext } from "./work.ts";

/** The iteration whose files a loop that gives up hands over; null: the newest are the best there is. */
export function bestToReturnTo(state: Pick<LoopState, "best" | "iterations">): LoopState["best"] {
  const { best, iterations } = state;
  const last = iterations.at(-1);
  if (best === null || last === undefined || best.iteration === last.number) return null;
  // Of a flow, what an earlier step left is behind, not beside, what a later one made of it.
  if (best.unit !== last.unit || best.tree === last.tree) return null;
  // No better by any measure: then what was worked out since is worth more.
  return last.quality !== null && last.quality >= best.quality ? null : best;
}

/** Said where the run gives up, before the files are moved: the reason of an end is written when it is entered. */
export function handOverText(state: Pick<LoopState, "best" | "iterations">): string {
  const best = bestToReturnTo(state);
  if (best !== null)
    return `The files are those of iteration ${best.iteration}, the best (quality ${Math.round(best.quality)})`;
  return "The files are those of the last iteration";
}

/** Puts the files of the best iteration back, as a commit on top of what was tried since: nothing of that is lost. false: its checkpoint is gone. */
export async function returnToBest(
  parts: WorkParts,
  context: LoopContext,
  worktree: Worktree,
  best: NonNullable<LoopState["best"]>,
): Promise<boolean> {
  const at = await stageTime(context);
  const sequence = await context.step("best-checkpoint", () => findCheckpoint(parts, context, best));
  if (sequence === null) return false;
  const before = await context.step("head", () => worktree.branch.head());
  await context.restoreFiles("best", { sequence });
  const message = `Back to iteration ${best.iteration}, the best so far (quality ${Math.round(best.quality)})\n`;
  await commitWork(context, worktree, { step: "commit", message, before, at });
  return true;
}

/** The position keeps the best-scored checkpoint from being dropped, and that is the one as a rule; any other with the same files does as well. */
async function findCheckpoint(
  { store }: WorkParts,
  { run, position }: LoopContext,
  best: NonNullable<LoopState["best"]>,
): Promise<number | null> {
  const kept =
    position.best === null ? null : await readWhole(store, { run: run.id, sequence: position.best.sequence });
  if (kept !== null && parseLoopState(kept.planes.context.values).iterations.at(-1)?.number === best.iteration)
    return kept.sequence;
  const all = await store.listCheckpoints({ run: run.id });
  return all.find(({ tree, quarantined }) => !quarantined && tree !== null && tree === best.tree)?.sequence ?? null;
}

/** null: dropped, or damaged. */
async function readWhole(store: Store, ref: CheckpointRef): Promise<Checkpoint | null> {
  try {
    const checkpoint = await store.getCheckpoint(ref);
    return checkpoint.quarantined ? null : checkpoint;
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}
