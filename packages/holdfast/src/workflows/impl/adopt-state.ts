import { HoldfastError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { findBase } from "../publish/find-base.ts";
import { importedIssue } from "../publish/imported-issue.ts";
import { loadTemplates } from "./load-templates.ts";
import { outputFiles } from "./output-files.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import { issueText } from "../issue-text.ts";
import type { ImplOptions } from "./options.ts";
import { parseImplState } from "./state.ts";
import type { Issue, ImplState } from "./state.ts";

/**
 * What setup finds, for a run that comes from elsewhere and stands behind setup already: its history and pull request stay, the issue, the
 * base and the prompts are found as they are now. Nothing is rebased: where the files stand was the other tool's decision.
 */
export async function adoptImplState(params: {
  readonly parts: WorkParts;
  readonly options: ImplOptions;
  readonly values: JsonObject;
  readonly issue: number;
  /** Of the worktree that the run goes on in. */
  readonly root: string;
}): Promise<ImplState> {
  const { parts, options, root } = params;
  const { forge, issue: found } = await importedIssue(parts, params.issue);
  const issue: Issue = { ...found };
  const branch = await parts.branches.of(root);
  const answer = await findBase({ branch, forge, named: options.baseBranch });
  if (answer.kind === "missing")
    throw new HoldfastError({
      code: "USAGE",
      message: answer.reason,
      hint: "Set impl.base to a branch that is there.",
    });
  const outputs = parts.outputs(root);
  await outputs.hide(OUTPUT_DIRECTORY);
  await outputs.write(outputFiles.issue(issue.number), issueText(issue));
  const templates = await loadTemplates(options.prompts, outputs);
  // Only over what our own commits contain may be pushed: anything else is somebody else's and is met as such.
  const remote = await branch.remoteBranch(branch.name);
  const head = await branch.head();
  const contained = remote !== null && (await branch.isAncestor({ ancestor: remote, of: head }));
  const from = await branch.mergeBase({ a: answer.base.commit, b: head });
  return {
    ...parseImplState(params.values),
    issue,
    base: { branch: answer.base.branch, commit: from ?? answer.base.commit },
    templates: { ...templates },
    pushed: contained ? remote : null,
  };
}
