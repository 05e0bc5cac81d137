import type { IssueSnapshot } from "./checkpoint.ts";
import type { Json } from "./json.ts";

/**
 * Where issues and pull requests live. Every answer is complete and authenticated, or the method rejects: an absent
 * thing is `null` only when the forge said so. FORGE_FAILED (retry "later") when it cannot be reached, FORGE_DENIED
 * when it refuses us. Creating twice with one key creates once wherever the forge allows to tell.
 */
export interface Forge {
  /** "local", "github". */
  readonly name: string;
  /** What it stands on, for people: a path or a URL. */
  readonly location: string;
  /** How long it may still act on a request whose sender is gone. Before that, what is not there may be about to come. */
  readonly lateMs: number;
  /** The same forge; every process that it starts to ask for something carries this mark, and is found and ended by it. */
  marked(mark: string): Forge;

  getIssue(number: number): Promise<IssueSnapshot | null>;
  createIssue(issue: {
    readonly title: string;
    readonly body: string;
    readonly labels: readonly string[];
    readonly key: string;
  }): Promise<IssueSnapshot>;
  /** Found by the key's marker in the body. */
  findIssue(key: string): Promise<IssueSnapshot | null>;
  setLabels(on: Subject, labels: readonly string[]): Promise<void>;
  /** Found by the key's marker. */
  findComment(on: Subject, key: string): Promise<{ readonly url: string } | null>;
  comment(on: Subject, comment: { readonly body: string; readonly key: string }): Promise<{ readonly url: string }>;

  defaultBranch(): Promise<string>;
  /** The newest one whose head is this branch: an open one before any that is closed or merged. */
  findPullRequest(head: string): Promise<PullRequest | null>;
  getPullRequest(number: number): Promise<PullRequest | null>;
  /** FORGE_REFUSED (data: why) when there is one already for this head, or the head was never pushed, or has nothing new. */
  createPullRequest(request: NewPullRequest): Promise<PullRequest>;
  updatePullRequest(number: number, change: { readonly title?: string; readonly body?: string }): Promise<PullRequest>;
  mergePullRequest(number: number, params: { readonly head: string }): Promise<PullRequest>;
  checks(commit: string): Promise<Checks>;
  /** All that were handed in, oldest first. FORGE_REFUSED when there is no such pull request. */
  reviews(pullRequest: number): Promise<readonly PullRequestReview[]>;
}

/** A bare number names an issue. Pull requests are named as such: some forges number them apart. */
export type Subject = number | { readonly pullRequest: number };

export interface NewPullRequest {
  readonly title: string;
  readonly body: string;
  readonly head: string;
  readonly base: string;
  readonly draft: boolean;
  /** The effect's key: written into the body as a hidden marker, and looked for before creating. */
  readonly key: string;
}

export interface PullRequest {
  readonly number: number;
  readonly url: string;
  readonly title: string;
  readonly body: string;
  readonly state: "open" | "closed" | "merged";
  readonly draft: boolean;
  readonly head: string;
  /** Tip of the head branch as the forge has it. */
  readonly headCommit: string;
  readonly base: string;
  readonly labels: readonly string[];
  readonly mergeability: Mergeability;
}

/** What somebody said about a pull request as a whole. Of several by one author, the newest that decides is the one that stands. */
export interface PullRequestReview {
  /** Names this review among all of the pull request, for ever. */
  readonly id: string;
  readonly author: string;
  /** false: a bot. */
  readonly byPerson: boolean;
  /** "dismissed": it was a decision once, and does not count any more. */
  readonly state: "approved" | "changes_requested" | "commented" | "dismissed";
  /** Its own words, then those on lines of files, each with its place. */
  readonly body: string;
  /** What was looked at; null where the forge does not tell. */
  readonly commit: string | null;
  /** ISO 8601; null where nobody wrote it down. */
  readonly at: string | null;
}

/** "unknown": the forge is still reckoning; ask again. */
export type Mergeability = "mergeable" | "conflicting" | "behind" | "blocked" | "unknown";

/** "none": there is no CI here, which is not a failure. */
export interface Checks {
  readonly state: "none" | "pending" | "passed" | "failed";
  readonly runs: readonly CheckRun[];
}

export interface CheckRun {
  readonly name: string;
  readonly state: "pending" | "passed" | "failed" | "skipped";
  readonly url: string | null;
  /** The end of its output, for the agent that shall mend it. */
  readonly summary: string;
  readonly data?: Json;
}
