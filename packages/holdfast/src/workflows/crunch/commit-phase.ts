import { commitWork } from "../commit-work.ts";
import type { Place } from "./enter-phase.ts";
import { requireSetup } from "./work.ts";
import type { CrunchContext } from "./work.ts";
import type { CrunchStage } from "./workflow-shape.ts";

const SUMMARY_CHARACTERS = 4000;

/** What a phase has made of the files becomes one commit; nothing when it has made nothing. */
export async function commitPhase(
  context: CrunchContext,
  { worktree, at }: Place,
  params: { readonly phase: CrunchStage; readonly summary: string },
): Promise<{ readonly head: string; readonly moved: boolean }> {
  const { issue } = requireSetup(context);
  const before = await context.step("head", () => worktree.branch.head());
  // A NUL ends a commit message early for every reader of it.
  const body = params.summary.replaceAll("\0", "").trim().slice(0, SUMMARY_CHARACTERS).toWellFormed();
  const message = `Issue #${issue.number}, ${params.phase}: ${issue.title.trim()}\n${body === "" ? "" : `\n${body}\n`}`;
  return await commitWork(context, worktree, { step: "commit", message, before, at });
}
