import { isAcceptedTip } from "../../core/resume/accepted.ts";
import type { RebaseResult } from "../../ports/branch.ts";
import type { Base } from "./find-base.ts";
import type { AnyContext } from "../any-context.ts";
import type { Worktree } from "../worktree.ts";

export type Synced =
  /** `pushed`: what the remote has of this branch, which we now build on. */
  | { readonly kind: "synced"; readonly pushed: string | null }
  | { readonly kind: "conflict"; readonly reason: string }
  /** The user decided against building on it and against replacing it. */
  | { readonly kind: "stopped"; readonly reason: string };

/**
 * Brings a branch that was there before up to date: on top of what the remote has of it, then on top of the base. Commits on the remote that are not in
 * the branch here are built upon only if the user says so. A conflict is reported and changes nothing.
 */
export async function syncBranch(
  context: AnyContext,
  worktree: Worktree,
  params: { readonly base: Base; readonly at: string },
): Promise<Synced> {
  const { base, at } = params;
  const { branch } = worktree;
  const pushed = await context.step("pushed", () => branch.remoteBranch(branch.name));
  const isForeign = pushed !== null && (await context.step("pushed-foreign", () => isNew(worktree, pushed, base)));
  const isOpen = isForeign && !isAcceptedTip(context.extensions, pushed);
  const answer = isOpen ? await askForeign(context, worktree, pushed) : "ours";
  if (answer === "stop")
    return {
      kind: "stopped",
      reason: `Stopped by you: ${branch.name} on the remote has commits of others (${pushed})`,
    };
  for (const [step, onto, name] of [
    ["sync-own", answer === "theirs" ? pushed : null, `${branch.name} on the remote`],
    ["sync-base", base.commit, base.branch],
  ] as const) {
    if (onto === null) continue;
    const result = await rebaseOnto(context, worktree, { step, onto, at });
    if (result.kind === "conflict")
      return {
        kind: "conflict",
        reason: `${branch.name} does not go onto ${name} without conflicts in ${result.files.join(", ")}; nothing was changed. Rebase it by hand, or remove the branch and start again`,
      };
  }
  return { kind: "synced", pushed };
}

async function isNew({ branch }: Worktree, tip: string, base: Base): Promise<boolean> {
  if (await branch.isAncestor({ ancestor: tip, of: await branch.head() })) return false;
  return !(await branch.isAncestor({ ancestor: tip, of: base.commit }));
}

async function askForeign(context: AnyContext, { branch }: Worktree, tip: string): Promise<string> {
  return await context.decide({
    name: "foreign-branch",
    question: `The remote already has a branch ${branch.name} with commits that are not part of this run (${tip}). Build on theirs, replace them with ours, or stop?`,
    options: ["theirs", "ours", "stop"],
  });
}

/** A step of its own, so that it is done once; up to date already, no step that changes files is begun. */
export async function rebaseOnto(
  context: AnyContext,
  { branch }: Worktree,
  params: { readonly step: string; readonly onto: string; readonly at: string },
): Promise<RebaseResult> {
  const { step, onto, at } = params;
  const there = await context.step(`${step}-look`, async () => {
    const head = await branch.head();
    return (await branch.isAncestor({ ancestor: onto, of: head })) ? head : null;
  });
  if (there !== null) return { kind: "up_to_date", commit: there };
  const result = await context.step(
    step,
    async () => {
      const done = await branch.rebase({ onto, at });
      return { ...done };
    },
    { changesFiles: true, risk: `rebase of ${branch.name}` },
  );
  return result;
}
