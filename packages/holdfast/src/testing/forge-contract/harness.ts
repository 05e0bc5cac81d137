import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import type { CheckRun, Forge, NewPullRequest, PullRequest } from "../../ports/forge.ts";

/** One forge under test with a repository of its own, fresh for each case. Its default branch `main` has one commit with `a.txt`. */
export interface ForgeHarness {
  /** Another handle on the same forge, as another process would have. */
  open(): Promise<Forge>;
  /** Commits these files on top of a branch of the remote (or of `from`, for a new one) and pushes. Returns the commit. */
  push(params: PushParams): Promise<string>;
  /** Commit of a branch on the remote; null when it is not there. */
  tip(branch: string): Promise<string | null>;
  isAncestor(ancestor: string, of: string): Promise<boolean>;
  /** As the owner of the repository would: a branch that is there. */
  makeDefault(branch: string): Promise<void>;
  /** As a person would. */
  writeReview(pullRequest: number, review: WrittenReview): Promise<void>;
  /** As a CI service would. */
  writeChecks(commit: string, runs: readonly Pick<CheckRun, "name" | "state" | "summary">[]): Promise<void>;
}

export interface WrittenReview {
  readonly author: string;
  readonly state: "approved" | "changes_requested";
  readonly body: string;
  readonly commit: string;
}

export interface PushParams {
  readonly branch: string;
  readonly from?: string;
  readonly files: Readonly<Record<string, string>>;
}

export interface ForgeCase {
  readonly name: string;
  run(harness: ForgeHarness): Promise<void>;
}

export function pullRequest(change: Partial<NewPullRequest> = {}): NewPullRequest {
  const title = "[feat][#1] Add a greeting";
  return { title, body: "Adds it.", head: "topic", base: "main", draft: false, key: "run-1/pr/create", ...change };
}

/** Asks until the forge has made up its mind. */
export async function settledPull(forge: Forge, number: number): Promise<PullRequest> {
  for (let attempt = 1; ; attempt++) {
    const pull = await forge.getPullRequest(number);
    assert.ok(pull !== null, `pull request ${number} is gone`);
    if (pull.mergeability !== "unknown" || pull.state !== "open" || attempt === 100) return pull;
    await setTimeout(50);
  }
}
