import { publishable } from "../publish/publishable.ts";
import { HoldfastError } from "../../core/error.ts";
import { runGates } from "./run-gates.ts";
import { outputFiles } from "./output-files.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import { expandTemplate } from "./prompt-template.ts";
import { requireSetup } from "./state.ts";
import type { ImplContext, ImplWork } from "./work.ts";
import type { Worktree } from "../worktree.ts";

export type Mended =
  | { readonly kind: "mended"; readonly commit: string }
  | { readonly kind: "given_up"; readonly why: string };

/**
 * Offers a conflict to the agent, once. The branch moves only when the marks are gone and the gates are green; otherwise the files go back to
 * what they were, and nothing of the attempt is left but its checkpoint.
 */
export async function mendConflict(
  work: ImplWork,
  context: ImplContext,
  worktree: Worktree,
  params: { readonly onto: string; readonly at: string },
): Promise<Mended> {
  const { onto, at } = params;
  const { issue } = requireSetup(context.state);
  const { branch } = worktree;
  const sequence = await context.step("before-mending", () => newestSequence(work, context));
  const { files } = await context.step("place-conflict", () => branch.placeConflict({ onto }), { changesFiles: true });
  const giveUp = async (why: string): Promise<Mended> => {
    await context.restoreFiles("undo-mending", { sequence });
    return { kind: "given_up", why };
  };

  const report = await context.agent({
    name: "mender",
    role: "rebase",
    prompt: mendPrompt(context, { files, onto }),
    model: work.options.implModel,
    yolo: work.options.yolo,
    ...(work.options.agentTimeoutMs === null ? {} : { timeoutMs: work.options.agentTimeoutMs }),
  });
  if (report.outcome === "failed")
    return await giveUp(
      `the agent failed (${report.cause ?? "unknown cause"}): ${report.message ?? "it said nothing"}`,
    );
  const verdict = await runGates(work, context, worktree, { from: onto, commitAt: null });
  if (verdict.kind === "failed") return await giveUp(`after the agent's attempt: ${verdict.reason}`);
  const words = `Issue #${issue.number}: ${issue.title.trim()}\n`;
  const message = await publishable(context, { what: "The commit message", text: words, kind: "plain" });
  const committed = await context.step(
    "commit-mended",
    async () => {
      const done = await branch.commitResolved({ onto, files, message, at, exclude: [OUTPUT_DIRECTORY] });
      return { ...done };
    },
    { changesFiles: true },
  );
  if (committed.kind === "unresolved") return await giveUp(`conflict marks are left in ${committed.files.join(", ")}`);
  return { kind: "mended", commit: committed.commit };
}

function mendPrompt(
  context: ImplContext,
  params: { readonly files: readonly string[]; readonly onto: string },
): string {
  const { issue, base, templates } = requireSetup(context.state);
  const fence = context.fence("mender");
  const text = expandTemplate(templates.rebase, {
    issue_no: String(issue.number),
    issue_title: fence.data("issue title", issue.title),
    issue_file: outputFiles.issue(issue.number),
    base_branch: base.branch,
    onto: params.onto,
    files: fence.data("file names", params.files.map((file) => `- ${file}`).join("\n")),
  });
  return fence.prompt(text);
}

async function newestSequence({ parts }: ImplWork, { run }: ImplContext): Promise<number> {
  const [newest] = await parts.store.listCheckpoints({ run: run.id, limit: 1 });
  if (newest !== undefined) return newest.sequence;
  throw new HoldfastError({ code: "CHECKPOINT_NOT_FOUND", message: `Run ${run.id} has no checkpoint to go back to` });
}
