import { isAcceptedTip } from "../../core/resume/accepted.ts";
import type { AnyContext } from "../any-context.ts";
import { unreachable } from "./find-base.ts";
import { askForge } from "./forge-answer.ts";
import type { Worktree } from "../worktree.ts";

export type RemoteAnswer =
  /** What the remote has of the branch, which may be pushed over; null: nothing. */
  { readonly kind: "go"; readonly expected: string | null } | { readonly kind: "stop"; readonly reason: string };

/** Commits of others on the run's branch are never pushed over unless a person says so. */
export async function settleRemote(
  context: AnyContext,
  { branch }: Worktree,
  { head }: { readonly head: string },
): Promise<RemoteAnswer> {
  const found = await askForge(context, () =>
    context.step("remote-tip", async () => {
      const fetched = await branch.fetch();
      if (fetched.kind === "failed")
        throw unreachable((await branch.remote())?.name ?? "of this repository", fetched.refusal);
      const tip = await branch.remoteBranch(branch.name);
      return { tip, ours: tip === null || (await branch.isAncestor({ ancestor: tip, of: head })) };
    }),
  );
  if (found.ours || isAcceptedTip(context.extensions, found.tip)) return { kind: "go", expected: found.tip };
  const answer = await context.decide({
    name: "foreign-commits",
    question: `${branch.name} on the remote is at ${found.tip ?? "nothing"}, which is not part of this run's work (${head}). Replace it, or stop?`,
    options: ["replace", "stop"],
  });
  if (answer === "replace") return { kind: "go", expected: found.tip };
  return { kind: "stop", reason: `Stopped by a person: ${branch.name} on the remote has commits of others` };
}
