import { HoldfastError } from "../../core/error.ts";
import type { RestorePlan } from "../../ports/workspace.ts";
import { captureTree, DEFAULT_CAPTURE, type CapturePlace } from "../capture/capture.ts";
import { createRestoreLooks } from "./look-restore.ts";
import { inScope, parseScope } from "../path-scope.ts";
import { parsePath, quotePath } from "../raw-path.ts";
import { diffTrees, type TreeChange } from "../capture/tree-diff.ts";

/**
 * Reads the worktree once more and returns its tree. Throws unless it is what the plan promised, and unless every file of the
 * snapshot is there or is named in the plan as left alone.
 */
export async function verifyRestore(place: CapturePlace, plan: RestorePlan): Promise<string> {
  const { tree } = await captureTree(place, plan.capture ?? DEFAULT_CAPTURE);
  if (tree === plan.targetTree) return tree;
  const [differences, before, missing] = await Promise.all([
    diffTrees(place.repository.objects, plan.toTree, tree),
    diffTrees(place.repository.objects, plan.fromTree, plan.toTree),
    diffTrees(place.repository.objects, plan.targetTree, tree),
  ]);
  const touched = new Set(plan.changes.map(({ path }) => parsePath(path)));
  const removed = new Set(before.filter(({ to }) => to === null).map(({ path }) => path));
  const left = new Set(plan.untouched.map(({ path }) => parsePath(path)));
  const { holds } = createRestoreLooks(place);
  const wrong = [...differences.filter((difference) => !isHarmless(difference)), ...missing.filter(isUnreported)];
  if (wrong.length === 0) return tree;
  throw new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `after the restore ${wrong.length} files are not what they should be, first ${quotePath(wrong[0]?.path ?? "")}`,
    hint: "Something else is writing into this worktree. Stop it, take a new snapshot and restore again.",
    retry: "later",
    data: { paths: wrong.slice(0, 100).map(({ path }) => quotePath(path)) },
  });

  /** A file of the snapshot that is not on disk as the snapshot has it, although the plan does not name it as left alone. */
  function isUnreported({ path, from }: TreeChange): boolean {
    const asked = plan.paths === null || inScope(path, parseScope(plan.paths));
    return asked && from !== null && !left.has(path) && !holds(path, from);
  }

  /** The restored ignore rules may show files that were ignored before, and hide restored ones that git no longer tracks. */
  function isHarmless({ path, from, to }: TreeChange): boolean {
    if (from === null) return !touched.has(path) && !removed.has(path);
    return to === null && holds(path, from);
  }
}
