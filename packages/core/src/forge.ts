// The forge contract: issues, pull requests, reviews and CI checks on GitHub, GitLab or a local forge.
import type { IssueComment, IssueSnapshot } from "./checkpoint.ts";
import type { Json } from "./json.ts";

/**
 * A service that hosts issues and pull requests. Every answer is complete and authenticated, or the method rejects:
 * `null` requires that the forge reported the absence. FORGE_FAILED (retry "later"): it cannot be reached.
 * FORGE_DENIED: it refuses access. Creating twice with one key creates once, wherever the forge can detect the key.
 */
export interface Forge {
  /** "local", "github". */
  readonly name: string;
  /** Path or URL of the forge, for messages. */
  readonly location: string;
  /** Milliseconds for which the forge may still process a request whose sender has died. Until then, an absent object may still appear. */
  readonly lateMs: number;
  /** Returns the same forge, whose child processes have this mark. Holdfast finds and terminates them by it. */
  marked(mark: string): Forge;

  /**
   * Rejects with FORGE_DENIED if the login certainly may not do what a run does: push, or open a pull request. Absent: the
   * forge has no logins.
   */
  checkAccess?(): Promise<void>;
  getIssue(number: number): Promise<IssueSnapshot | null>;
  /**
   * Comments on an issue, oldest first, without Holdfast's own and those that the forge itself writes. FORGE_REFUSED: the issue does not
   * exist.
   */
  issueComments(number: number): Promise<readonly IssueComment[]>;
  createIssue(issue: {
    readonly title: string;
    readonly body: string;
    readonly labels: readonly string[];
    readonly key: string;
  }): Promise<IssueSnapshot>;
  /** Found by the key's hidden marker in the body. */
  findIssue(key: string): Promise<IssueSnapshot | null>;
  setLabels(on: Subject, labels: readonly string[]): Promise<void>;
  /** Found by the key's hidden marker. */
  findComment(on: Subject, key: string): Promise<{ readonly url: string } | null>;
  comment(on: Subject, comment: { readonly body: string; readonly key: string }): Promise<{ readonly url: string }>;
  /** Deletes the comment that `findComment` finds. One that is gone already is not an error. */
  deleteComment(on: Subject, key: string): Promise<void>;

  defaultBranch(): Promise<string>;
  /** The newest pull request whose head is this branch. An open one takes precedence over closed and merged ones. */
  findPullRequest(head: string): Promise<PullRequest | null>;
  getPullRequest(number: number): Promise<PullRequest | null>;
  /** FORGE_REFUSED (data: why): one exists for this head, the head was never pushed, or it has no new commits. */
  createPullRequest(request: NewPullRequest): Promise<PullRequest>;
  updatePullRequest(number: number, change: { readonly title?: string; readonly body?: string }): Promise<PullRequest>;
  /** A pull request that is closed already counts as success. FORGE_REFUSED (data: why): it is merged. */
  closePullRequest(number: number): Promise<PullRequest>;
  mergePullRequest(number: number, params: { readonly head: string }): Promise<PullRequest>;
  checks(commit: string): Promise<Checks>;
  /** All submitted reviews, oldest first. FORGE_REFUSED: the pull request does not exist. */
  reviews(pullRequest: number): Promise<readonly PullRequestReview[]>;
}

/** A bare number is an issue. Pull requests have their own form, because some forges number them separately. */
export type Subject = number | { readonly pullRequest: number };

export interface NewPullRequest {
  readonly title: string;
  readonly body: string;
  readonly head: string;
  readonly base: string;
  readonly draft: boolean;
  /** The effect's key. It is written into the body as a hidden marker, and looked up before creation. */
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
  /** Tip of the head branch on the forge. */
  readonly headCommit: string;
  readonly base: string;
  readonly labels: readonly string[];
  readonly mergeability: Mergeability;
}

/** A review of a whole pull request. For each author, the newest review that decides counts. */
export interface PullRequestReview {
  /** Permanent id, unique within the pull request. */
  readonly id: string;
  readonly author: string;
  /** false: the author is a bot. */
  readonly byPerson: boolean;
  /** "dismissed": the review was a decision, but no longer counts. */
  readonly state: "approved" | "changes_requested" | "commented" | "dismissed";
  /** The review's text, followed by its comments on lines, each with file and line. */
  readonly body: string;
  /** The reviewed commit. null: the forge does not report it. */
  readonly commit: string | null;
  /** ISO 8601. null: unknown. */
  readonly at: string | null;
}

/** "unknown": the forge is still computing it. Ask again later. */
export type Mergeability = "mergeable" | "conflicting" | "behind" | "blocked" | "unknown";

/** "none": no CI is configured, which is not a failure. */
export interface Checks {
  readonly state: "none" | "pending" | "passed" | "failed";
  readonly runs: readonly CheckRun[];
}

export interface CheckRun {
  readonly name: string;
  readonly state: "pending" | "passed" | "failed" | "skipped";
  readonly url: string | null;
  /** The end of its output, for the agent that must fix it. */
  readonly summary: string;
  readonly data?: Json;
}

/** Reads an issue with its newest comments, within limits: a comment is text of any author. */
export async function readIssueWithComments(
  forge: Pick<Forge, "getIssue" | "issueComments">,
  number: number,
): Promise<IssueSnapshot | null> {
  const issue = await forge.getIssue(number);
  return issue === null ? null : { ...issue, comments: newestComments(await forge.issueComments(issue.number)) };
}

const MOST_COMMENTS = 20;
const COMMENT_CHARACTERS = 4_000;
const ALL_CHARACTERS = 32_000;

/** The newest 20 comments of at most 32,000 characters together. A long one loses its end. */
export function newestComments(all: readonly IssueComment[]): readonly IssueComment[] {
  const kept: IssueComment[] = [];
  let left = ALL_CHARACTERS;
  for (const { author, body, at } of all.slice(-MOST_COMMENTS).toReversed()) {
    const cut =
      body.length <= COMMENT_CHARACTERS ? body : `${body.slice(0, COMMENT_CHARACTERS).toWellFormed()} … (cut)`;
    left -= cut.length;
    if (left < 0) break;
    kept.unshift({ author: author.slice(0, 100).toWellFormed(), body: cut, at });
  }
  return kept;
}
