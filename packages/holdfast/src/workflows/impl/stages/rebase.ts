import { isAcceptedTip } from "../../../core/resume/accepted.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { commitWork } from "../../commit-work.ts";
import { unreachable } from "../../publish/find-base.ts";
import { judgeTip } from "../foreign-tip.ts";
import { askForge } from "../../publish/forge-answer.ts";
import { conclude } from "../history.ts";
import type { Conclusion } from "../history.ts";
import { mendConflict } from "../mend-conflict.ts";
import { outputFiles } from "../output-files.ts";
import { requireSetup } from "../state.ts";
import type { ImplState } from "../state.ts";
import { rebaseOnto } from "../../publish/sync-branch.ts";
import { openWorktree, prettyJson, stageTime } from "../../worktree.ts";
import type { ImplContext, ImplWork } from "../work.ts";
import type { Worktree } from "../../worktree.ts";

/** Puts the branch on top of what is on the remote now. It ends whole or not at all: a conflict that nobody mends leaves everything as it was. */
export async function rebaseStage(work: ImplWork, context: ImplContext): Promise<StageResult<ImplState>> {
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

async function rebase(work: ImplWork, context: ImplContext, worktree: Worktree): Promise<Conclusion> {
  const { state } = context;
  const { branch } = worktree;
  const { base } = requireSetup(state);
  const at = await stageTime(context);
  const before = await context.step("head", () => branch.head());
  // A person may have edited meanwhile, and a branch with changes in its files cannot be moved.
  await commitWork(context, worktree, { step: "commit", message: "Changes found before a rebase\n", before, at });
  const tips = await askForge(context, () => context.step("tips", () => fetchTips(worktree, base.branch)));
  if (tips.base === null) return { event: "fatal", reason: `The remote has no branch ${base.branch} any more`, state };

  const own = await settleOwn(context, worktree, { tip: tips.own });
  if (own.kind === "stop") return { event: "fatal", reason: own.reason, state };
  const onto = [
    ...(own.build === null ? [] : [{ step: "rebase-own", commit: own.build, name: `${branch.name} on the remote` }]),
    { step: "rebase", commit: tips.base, name: base.branch },
  ];
  let mended = false;
  for (const { step, commit, name } of onto) {
    const result = await rebaseOnto(context, worktree, { step, onto: commit, at });
    if (result.kind !== "conflict") continue;
    const conflict = `${branch.name} conflicts with ${name} in ${result.files.join(", ")}`;
    if (mended) return conflictEnd(state, `${conflict}; the agent had its one try already`);
    const outcome = await mendConflict(work, context, worktree, { onto: commit, at });
    if (outcome.kind === "given_up") return conflictEnd(state, `${conflict}; ${outcome.why}`);
    mended = true;
  }
  return {
    event: "rebase_ok",
    reason: `${branch.name} is on top of ${base.branch}${mended ? ", with its conflicts mended" : ""}`,
    state: { ...state, base: { branch: base.branch, commit: tips.base }, pushed: tips.own, failing: null },
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
  const fetched = await branch.fetch();
  if (fetched.kind === "failed")
    throw unreachable((await branch.remote())?.name ?? "of this repository", fetched.refusal);
  return { base: await branch.remoteBranch(base), own: await branch.remoteBranch(branch.name) };
}

type Own = { readonly kind: "go"; readonly build: string | null } | { readonly kind: "stop"; readonly reason: string };

/** Commits that this run did not push are never built upon, and never replaced, unless the user says so; both tips are in the question. */
async function settleOwn(
  context: ImplContext,
  { branch }: Worktree,
  { tip }: { readonly tip: string | null },
): Promise<Own> {
  const { pushed } = context.state;
  const judged = await context.step("own-tip", async () => {
    const found = await judgeTip({ branch, tip, head: await branch.head(), pushed });
    return { ...found };
  });
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
    name: "foreign-commits",
    question: `${branch.name} on the remote is at ${judged.commit}, which this run did not push${where} (it pushed ${pushed ?? "nothing"}). Build on theirs, replace it with ours, or stop?`,
    options: ["theirs", "ours", "stop"],
  });
  if (answer === "theirs") return { kind: "go", build: judged.commit };
  if (answer === "ours") return { kind: "go", build: null };
  return {
    kind: "stop",
    reason: `Stopped by a person: ${branch.name} on the remote has commits of others (${judged.commit})`,
  };
}
