import type { Planes } from "../../core/checkpoint/checkpoint.ts";
import type { CrunchState } from "../../core/crunch/crunch-state.ts";
import { initialCrunchState, parseCrunchState } from "../../core/crunch/crunch-state.ts";
import { HoldfastError } from "../../core/error.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { findBase } from "../publish/find-base.ts";
import { importedIssue } from "../publish/imported-issue.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import type { CrunchOptions } from "./options.ts";

/**
 * What the first phase finds, for a run that comes from elsewhere and may stand behind it already. Team, messages, conflicts and knowledge are
 * those of the document where Holdfast wrote it; crunch's own documents name them only, so those begin anew. The issue and the base are found as
 * they are now.
 */
export async function adoptCrunchState(params: {
  readonly parts: WorkParts;
  readonly options: CrunchOptions;
  readonly planes: Pick<Planes, "context">;
  readonly issue: number;
  /** Of the worktree that the run goes on in. */
  readonly root: string;
}): Promise<CrunchState> {
  const { parts, options, root } = params;
  const { forge, issue } = await importedIssue(parts, params.issue);
  const { values } = params.planes.context;
  const state = Object.hasOwn(values, "messages") ? parseCrunchState(values) : initialCrunchState;
  const branch = await parts.branches.of(root);
  const found = await findBase({ branch, forge, named: options.baseBranch });
  if (found.kind === "missing")
    throw new HoldfastError({ code: "USAGE", message: found.reason, hint: "Name a base branch that is there." });
  await parts.outputs(root).hide(OUTPUT_DIRECTORY);
  const from = await branch.mergeBase({ a: found.base.commit, b: await branch.head() });
  return {
    ...state,
    issue: state.issue ?? { ...issue },
    base: { branch: found.base.branch, commit: from ?? found.base.commit },
    branch: branch.name,
    settings: state.settings ?? options.settings,
  };
}
