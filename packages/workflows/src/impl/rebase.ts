// The rebase stage of impl: moves the branch onto the remote's tips and lets the agent resolve one conflict.

import { isAcceptedTip } from "@holdfast/core/findings";
import type { StageResult } from "@holdfast/core/transitions";
import type { Fence } from "@holdfast/core/workflow";
import type { Branch } from "@holdfast/core/branch";
import { commitWork, fetchRemote, rebaseOnto } from "../branch.ts";
import { callForge, sanitizeText } from "../forge.ts";
import { expandTemplate } from "../prompts.ts";
import {
  OUTPUT_DIRECTORY,
  type Worktree,
  newestCheckpoint,
  openWorktree,
  prettyJson,
  stageTime,
  stageHead,
} from "../worktree.ts";
import { runGates } from "./gates.ts";
import { outputFiles } from "./layout.ts";
import {
  type Conclusion,
  type ImplContext,
  type ImplDependencies,
  type ImplState,
  type Issue,
  conclude,
  issueHeading,
  requireSetup,
} from "./state.ts";

/**
 * Rebases the branch onto the remote's present tips. It completes or changes nothing: an unresolved conflict leaves
 * everything as it was.
 */
export async function rebaseStage(work: ImplDependencies, context: ImplContext): Promise<StageResult<ImplState>> {
  const worktree = await openWorktree(work, context);
  const conclusion = await rebase(work, context, worktree);
  const { event, reason, state } = conclusion;
  const report = {
    event,
    pass: event === "rebase_ok",
    reason,
    details: context.position.reason ?? "",
    push_remote: (await worktree.branch.pushRemote())?.name ?? null,
    base_branch: state.base?.branch ?? null,
  };
  await worktree.outputs.write(outputFiles.rebase(context.position.iteration), prettyJson(report));
  const result = conclude(context, conclusion);
  return state.base === null ? result : { ...result, inputs: { base: state.base.commit } };
}

async function rebase(work: ImplDependencies, context: ImplContext, worktree: Worktree): Promise<Conclusion> {
  const { state } = context;
  const { branch } = worktree;
  const { base } = requireSetup(state);
  const at = await stageTime(context);
  const before = await stageHead(context, branch);
  // A person may have edited files meanwhile, and git cannot rebase a branch with uncommitted changes.
  await commitWork(context, worktree, { step: "commit", message: "Changes found before a rebase\n", before, at });
  const tips = await callForge(context, () =>
    context.step("tips", () => fetchTips(worktree, base.branch), { title: "fetching the branches" }),
  );
  if (tips.base === null) return { event: "fatal", reason: `The remote has no branch ${base.branch} any more`, state };

  const own = await settleOwn(context, worktree, { tip: tips.own });
  if (own.kind === "stop") return { event: "fatal", reason: own.reason, state };
  const onto = [
    ...(own.build === null ? [] : [{ step: "rebase-own", commit: own.build, name: `${branch.name} on the remote` }]),
    { step: "rebase", commit: tips.base, name: base.branch },
  ];
  let resolved = false;
  let gate = state.gate;
  for (const { step, commit, name } of onto) {
    const result = await rebaseOnto(context, worktree, { step, onto: commit, at });
    if (result.kind === "rebased" && gate !== undefined) gate = { ...gate, rebased: true };
    if (result.kind !== "conflict") continue;
    const conflict = `${branch.name} conflicts with ${name} in ${result.files.join(", ")}`;
    if (resolved) return conflictEnd(state, `${conflict}; the agent had its one try already`);
    const outcome = await resolveConflict(work, context, worktree, { onto: commit, at });
    if (outcome.kind === "given_up") return conflictEnd(state, `${conflict}; ${outcome.why}`);
    resolved = true;
    gate = outcome.ran.gate ?? gate;
  }
  return {
    event: "rebase_ok",
    reason: `${branch.name} is on top of ${base.branch}${resolved ? ", with its conflicts resolved" : ""}`,
    state: {
      ...state,
      base: { branch: base.branch, commit: tips.base },
      pushed: tips.own,
      failing: null,
      ...(gate === undefined ? {} : { gate }),
    },
    feedback: null,
  };
}

function conflictEnd(state: ImplState, reason: string): Conclusion {
  const detail = `${reason}. The branch is as it was before`;
  return { event: "rebase_conflict", reason: detail, state: { ...state, failing: { gate: "rebase", detail } } };
}

async function fetchTips(
  { branch }: Worktree,
  base: string,
): Promise<{ readonly base: string | null; readonly own: string | null }> {
  await fetchRemote(branch);
  return { base: await branch.remoteBranch(base), own: await branch.remoteBranch(branch.name) };
}

type Own = { readonly kind: "go"; readonly build: string | null } | { readonly kind: "stop"; readonly reason: string };

/**
 * Neither builds on nor replaces commits that this run did not push unless the user agrees. The question names both
 * tips.
 */
async function settleOwn(
  context: ImplContext,
  { branch }: Worktree,
  { tip }: { readonly tip: string | null },
): Promise<Own> {
  const { pushed } = context.state;
  const judged = await context.step(
    "own-tip",
    async () => {
      const found = await compareRemoteTip({ branch, tip, head: await branch.head(), pushed });
      return { ...found };
    },
    { title: "comparing the branch with its remote" },
  );
  switch (judged.kind) {
    case "known":
      return { kind: "go", build: null };
    case "added":
    case "other":
      break;
  }
  if (isAcceptedTip(context.extensions, judged.commit)) return { kind: "go", build: null };
  const where = judged.kind === "added" ? " on top of what this run pushed" : "";
  const answer = await context.decide({
    name: "unknown-commits",
    question: `${branch.name} on the remote is at ${judged.commit}, which this run did not push${where} (it pushed ${pushed ?? "nothing"}). Build on theirs, replace it with ours, or stop?`,
    options: ["theirs", "ours", "stop"],
  });
  if (answer === "theirs") return { kind: "go", build: judged.commit };
  if (answer === "ours") return { kind: "go", build: null };
  return {
    kind: "stop",
    reason: `Stopped by the user: ${branch.name} on the remote has commits of others (${judged.commit})`,
  };
}

type ConflictResult =
  | { readonly kind: "resolved"; readonly ran: Pick<ImplState, "gate"> }
  | { readonly kind: "given_up"; readonly why: string };

/**
 * Lets the agent resolve a conflict once. The branch moves only if no conflict markers remain and the gates pass.
 * Otherwise the files are restored, and only the attempt's checkpoint remains.
 */
async function resolveConflict(
  work: ImplDependencies,
  context: ImplContext,
  worktree: Worktree,
  params: { readonly onto: string; readonly at: string },
): Promise<ConflictResult> {
  const { onto, at } = params;
  const { issue, base, templates } = requireSetup(context.state);
  const { branch } = worktree;
  const earlier = await context.step("before-fix", () => newestCheckpoint(work, context), {
    title: "finding the newest checkpoint",
  });
  const { files } = await context.step("place-conflict", () => branch.placeConflict({ onto }), {
    changesFiles: true,
    title: "merging, with the conflicts in the files",
  });
  const failFix = async (why: string): Promise<ConflictResult> => {
    await context.restoreFiles("undo-fix", earlier);
    return { kind: "given_up", why };
  };

  const report = await context.agent({
    name: "fixer",
    title: "the agent resolves conflicts",
    role: "rebase",
    prompt: rebasePrompt({
      template: templates.rebase,
      issue,
      baseBranch: base.branch,
      files,
      onto,
      fence: context.fence("fixer"),
    }),
    model: work.options.implModel,
    yolo: work.options.yolo,
    ...(work.options.agentTimeoutMs === null ? {} : { timeoutMs: work.options.agentTimeoutMs }),
  });
  if (report.outcome === "failed")
    return await failFix(
      `the agent failed (${report.cause ?? "unknown cause"}): ${report.message ?? "it said nothing"}`,
    );
  const verdict = await runGates(work, context, worktree, { from: onto, commitAt: null });
  if (verdict.kind === "failed") return await failFix(`after the agent's attempt: ${verdict.reason}`);
  const words = `${issueHeading(issue)}: ${issue.title.trim()}\n`;
  const message = await sanitizeText(context, { what: "The commit message", text: words, kind: "plain" });
  const committed = await context.step(
    "commit-fix",
    async () => {
      const done = await branch.commitResolved({ onto, files, message, at, exclude: [OUTPUT_DIRECTORY] });
      return { ...done };
    },
    { changesFiles: true },
  );
  if (committed.kind === "unresolved") return await failFix(`conflict marks are left in ${committed.files.join(", ")}`);
  return { kind: "resolved", ran: verdict.ran };
}

export function rebasePrompt(params: {
  readonly template: string;
  readonly issue: Issue;
  readonly baseBranch: string;
  readonly files: readonly string[];
  readonly onto: string;
  readonly fence: Fence;
}): string {
  const { issue, fence } = params;
  const text = expandTemplate(params.template, {
    issue_no: String(issue.number),
    issue_title: fence.data("issue title", issue.title),
    issue_file: outputFiles.issue(issue.number),
    base_branch: params.baseBranch,
    onto: params.onto,
    files: fence.data("file names", params.files.map((file) => `- ${file}`).join("\n")),
  });
  return fence.prompt(text);
}

/** The remote tip of the run's branch, compared with what this run pushed and with its head. */
type Tip =
  /** The remote has no commit that the run lacks. */
  | { readonly kind: "known"; readonly commit: string | null }
  /** Another user added commits on top of what this run pushed. */
  | { readonly kind: "added"; readonly commit: string }
  /** The remote has other commits: its branch and what this run pushed have diverged. */
  | { readonly kind: "other"; readonly commit: string };

export async function compareRemoteTip(params: {
  readonly branch: Pick<Branch, "isAncestor">;
  readonly tip: string | null;
  readonly head: string;
  readonly pushed: string | null;
}): Promise<Tip> {
  const { branch, tip, head, pushed } = params;
  // The run's own push is known even if a rebase has since rewritten the local commits: a pinned push replaces exactly
  // this commit.
  if (tip === null || tip === pushed) return { kind: "known", commit: tip };
  if (await branch.isAncestor({ ancestor: tip, of: head })) return { kind: "known", commit: tip };
  const follows = pushed !== null && (await branch.isAncestor({ ancestor: pushed, of: tip }));
  return { kind: follows ? "added" : "other", commit: tip };
}
