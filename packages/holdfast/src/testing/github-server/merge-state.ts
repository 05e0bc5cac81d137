import type { Pull, Repository } from "./world.ts";

export interface MergeState {
  readonly mergeable: boolean | null;
  readonly state: "clean" | "dirty" | "behind" | "blocked" | "draft" | "unstable" | "unknown";
}

/** Takes over where the head is now: a pull request follows its branch as long as it is open. */
export async function followHead(repository: Repository, pull: Pull): Promise<void> {
  if (pull.state !== "open") return;
  const tip = await pull.head.repository.bare.tip(pull.head.branch);
  if (tip === null || tip === pull.headCommit) return;
  pull.headCommit = tip;
  await bringIn(repository, pull);
}

/** The head's objects in the base's repository, also when they come from a fork. */
export async function bringIn(repository: Repository, pull: Pull): Promise<void> {
  const { head, number } = pull;
  await repository.bare.fetchFrom(head.repository.bare, head.branch, `refs/pull/${number}/head`);
}

/** As GitHub does: whoever asks first after a change is told "unknown", and the answer is there the next time. */
export async function mergeState(repository: Repository, pull: Pull): Promise<MergeState> {
  const base = await repository.bare.tip(pull.base);
  if (pull.state !== "open" || base === null) return { mergeable: null, state: "unknown" };
  const pair = `${base}..${pull.headCommit}`;
  if (pull.reckoned !== pair) {
    pull.reckoned = pair;
    return { mergeable: null, state: "unknown" };
  }
  if ((await repository.bare.mergedTree(base, pull.headCommit)) === null) return { mergeable: false, state: "dirty" };
  if (pull.draft) return { mergeable: true, state: "draft" };
  if (repository.rules.approvals) return { mergeable: true, state: "blocked" };
  const isBehind = !(await repository.bare.isAncestor(base, pull.headCommit));
  if (repository.rules.strict && isBehind) return { mergeable: true, state: "behind" };
  const failed = repository.checkRuns.some((run) => run.commit === pull.headCommit && run.conclusion === "failure");
  return { mergeable: true, state: failed ? "unstable" : "clean" };
}
