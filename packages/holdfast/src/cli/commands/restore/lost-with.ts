import type { RunRestorePlan } from "../../../app.ts";
import type { FilesPlane } from "../../../core/checkpoint/checkpoint.ts";
import { leftOutOf } from "../../output/left-out.ts";
import type { LeftOut } from "../../output/left-out.ts";
import { inScope } from "../../path-scope.ts";

/** What the checkpoint was taken without: it does not come back, so whoever counts on it must hear of it. */
export function lostWith(plan: RunRestorePlan, files: FilesPlane | null): readonly LeftOut[] {
  const named = new Set(plan.files?.untouched.map(({ path }) => path));
  return leftOutOf(files).filter(
    ({ path }) => inScope(path, plan.paths) && !named.has(path) && !named.has(path.replace(/\/$/, "")),
  );
}
