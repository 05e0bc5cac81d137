import type { Checks, PullRequest, PullRequestReview } from "../../ports/forge.ts";

export type CiDecision =
  | { readonly kind: "pass"; readonly reason: string }
  /** `heeded`: the reviews that the feedback tells of. */
  | { readonly kind: "fail"; readonly reason: string; readonly feedback: string; readonly heeded: readonly string[] }
  | { readonly kind: "conflict"; readonly reason: string }
  | { readonly kind: "closed"; readonly reason: string; readonly number: number }
  /** There is no such pull request. */
  | { readonly kind: "gone"; readonly reason: string }
  /** Its head is not the commit that was pushed: the forge is late, or others pushed to the branch. */
  | { readonly kind: "moved"; readonly reason: string }
  | { readonly kind: "wait"; readonly reason: string };

/**
 * What a look at pull request and checks means. A conflict comes first: a branch that cannot be merged gains nothing from green checks, and some
 * forges do not even start them.
 */
export function decideCi(params: {
  readonly pullRequest: PullRequest | null;
  readonly checks: Checks;
  /** That ask for changes and were not heeded yet. */
  readonly requests: readonly PullRequestReview[];
  readonly commit: string;
  readonly rebaseWhenBehind: boolean;
  /** Has an earlier look found no checks, either? Right after a push they may not be listed yet. */
  readonly noneBefore: boolean;
}): CiDecision {
  const { pullRequest, checks } = params;
  if (pullRequest === null) return { kind: "gone", reason: "The pull request is not there any more" };
  const name = `Pull request #${pullRequest.number}`;
  if (pullRequest.state === "merged") return { kind: "pass", reason: `${name} is merged` };
  if (pullRequest.state === "closed")
    return { kind: "closed", reason: `${name} was closed without being merged`, number: pullRequest.number };
  if (pullRequest.headCommit !== params.commit)
    return {
      kind: "moved",
      reason: `${name} stands at ${short(pullRequest.headCommit)}, not at the pushed ${short(params.commit)}`,
    };
  const { mergeability } = pullRequest;
  // No check makes up for what a person asked for, and none is waited for.
  if (params.requests.length > 0 && mergeability !== "conflicting") return byRequests(params, name);
  switch (mergeability) {
    case "conflicting":
      return { kind: "conflict", reason: `${name} conflicts with ${pullRequest.base}` };
    case "behind":
      if (params.rebaseWhenBehind) return { kind: "conflict", reason: `${name} is behind ${pullRequest.base}` };
      return byChecks(params, name);
    case "unknown":
      // A failure needs no answer to that question.
      return checks.state === "failed"
        ? byChecks(params, name)
        : { kind: "wait", reason: `The forge does not know yet whether ${name} can be merged` };
    case "mergeable":
    // Blocked waits for people (an approval), which is not ours to mend.
    case "blocked":
      return byChecks(params, name);
  }
}

function byChecks(params: { readonly checks: Checks; readonly noneBefore: boolean }, name: string): CiDecision {
  const { checks } = params;
  switch (checks.state) {
    case "passed":
      return { kind: "pass", reason: `All checks of ${name} passed` };
    case "none":
      if (params.noneBefore) return { kind: "pass", reason: `${name} has no checks` };
      return { kind: "wait", reason: `${name} has no checks yet` };
    case "pending":
      return { kind: "wait", reason: `Checks of ${name} are pending: ${namesOf(checks, "pending")}` };
    case "failed": {
      const reason = `Checks of ${name} failed: ${namesOf(checks, "failed")}`;
      return { kind: "fail", reason, feedback: [`${reason}.`, ...failures(checks)].join("\n\n"), heeded: [] };
    }
  }
}

function byRequests(
  { requests, checks }: { readonly requests: readonly PullRequestReview[]; readonly checks: Checks },
  name: string,
): CiDecision {
  const authors = requests.map(({ author }) => author).join(", ");
  const reason = `Changes of ${name} were asked for by ${authors}`;
  const said = requests.map(({ author, body }) => `${author}:\n${body.trim() || "(without a word)"}`);
  const failed =
    checks.state === "failed" ? [`Checks failed, too: ${namesOf(checks, "failed")}.`, ...failures(checks)] : [];
  const feedback = [`${reason}.`, ...said, ...failed].join("\n\n");
  return { kind: "fail", reason, feedback, heeded: requests.map(({ id }) => id) };
}

function failures(checks: Checks): readonly string[] {
  return checks.runs
    .filter((run) => run.state === "failed")
    .map((run) => `${run.name}${run.url === null ? "" : ` (${run.url})`}:\n${run.summary.trim()}`);
}

function namesOf(checks: Checks, state: "pending" | "failed"): string {
  return (
    checks.runs
      .filter((run) => run.state === state)
      .map((run) => run.name)
      .join(", ") || "unnamed"
  );
}

function short(commit: string): string {
  return commit.slice(0, 10);
}
