import type { CrunchIssue } from "../../core/crunch/crunch-state.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Forge } from "../../ports/forge.ts";
import { findBase } from "../publish/find-base.ts";
import { askForge } from "../publish/forge-answer.ts";
import { syncBranch } from "../publish/sync-branch.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import type { Worktree } from "../worktree.ts";
import { tell } from "./work.ts";
import type { CrunchContext, CrunchWork } from "./work.ts";

export type Setup = { readonly kind: "ready" } | { readonly kind: "impossible"; readonly reason: string };

/** The issue, the rules of the team and the base that the branch builds on: all found once, and fixed from here on. */
export async function setUp(
  work: CrunchWork,
  context: CrunchContext,
  params: { readonly worktree: Worktree; readonly forge: Forge; readonly at: string },
): Promise<Setup> {
  const { worktree, forge, at } = params;
  const { branch } = worktree;
  const issue = await readIssue(context, forge);
  if (issue === null)
    return { kind: "impossible", reason: `Issue ${issueNumber(context)} is not at ${forge.name} (${forge.location})` };
  const named = work.options.baseBranch;
  const found = await askForge(context, () => context.step("base", () => findBase({ branch, forge, named })));
  if (found.kind !== "found") return { kind: "impossible", reason: found.reason };
  const synced = await syncBranch(context, worktree, { base: found.base, at });
  if (synced.kind !== "synced") return { kind: "impossible", reason: synced.reason };
  await worktree.outputs.hide(OUTPUT_DIRECTORY);
  await tell(context, "issue-read", { kind: "issue_read", issue });
  await tell(context, "settings-read", { kind: "settings_read", settings: work.options.settings });
  await tell(context, "branch-made", { kind: "branch_made", branch: branch.name, base: found.base });
  return { kind: "ready" };
}

function issueNumber({ run }: CrunchContext): number {
  if (run.work.kind === "issue") return run.work.number;
  throw new HoldfastError({
    code: "USAGE",
    message: `Run ${run.id} has no issue, and the crunch workflow carries an issue through its phases`,
    hint: "Start it with an issue, or with a text where there is a forge to file it at: `holdfast run --workflow crunch 42`.",
  });
}

/** The text the run began with. A change at the forge is for a person to decide on, never silently taken. */
async function readIssue(context: CrunchContext, forge: Forge): Promise<CrunchIssue | null> {
  const number = issueNumber(context);
  const known = context.inputs.issue;
  if (known !== null && known.number === number) return { ...known };
  return await askForge(context, () =>
    context.step("issue", async () => {
      const issue = await forge.getIssue(number);
      return issue === null || issue.number !== number ? null : { ...issue };
    }),
  );
}
