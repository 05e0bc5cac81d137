// The state of the loopback GitHub, and its JSON in GitHub's own form.

import { Accounts, BareRepository, Refused } from "./forge-server.ts";

/** The whole state of a loopback GitHub, which tests set up and inspect. */
export class GithubState extends Accounts {
  readonly repositories = new Map<string, Repository>();

  add(params: {
    readonly owner: string;
    readonly name: string;
    readonly bare: string;
    readonly parent?: Repository;
  }): Repository {
    const repository: Repository = {
      id: this.repositories.size + 1,
      owner: params.owner,
      name: params.name,
      bare: new BareRepository(params.bare),
      parent: params.parent ?? null,
      issues: [],
      pulls: [],
      comments: [],
      reviews: [],
      checkRuns: [],
      statuses: [],
      logs: new Map(),
      rules: { strict: false, approvals: false, drafts: true, methods: ["merge", "squash", "rebase"] },
    };
    this.repositories.set(`${params.owner}/${params.name}`.toLowerCase(), repository);
    return repository;
  }

  require(owner: string, name: string): Repository {
    const found = this.repositories.get(`${owner}/${name}`.toLowerCase());
    if (found === undefined) throw notFound();
    return found;
  }
}

export interface Repository {
  readonly id: number;
  readonly owner: string;
  readonly name: string;
  readonly bare: BareRepository;
  readonly parent: Repository | null;
  readonly issues: Issue[];
  readonly pulls: Pull[];
  readonly comments: Comment[];
  readonly reviews: ReviewRecord[];
  readonly checkRuns: CheckRunRecord[];
  readonly statuses: StatusRecord[];
  /** Log of each job. */
  readonly logs: Map<number, string>;
  readonly rules: {
    /** A head must contain its base before it is merged. */
    strict: boolean;
    /** An approval is required before a merge. */
    approvals: boolean;
    drafts: boolean;
    methods: readonly ("merge" | "squash" | "rebase")[];
  };
}

export interface Issue {
  readonly number: number;
  readonly author: string;
  title: string;
  body: string | null;
  state: "open" | "closed";
  labels: string[];
  readonly createdAt: string;
  updatedAt: string;
}

export interface Pull extends Issue {
  draft: boolean;
  readonly head: { readonly repository: Repository; readonly branch: string };
  readonly base: string;
  headCommit: string;
  mergeCommit: string | null;
  /** Head and base for which the mergeability is computed; for others it must be computed again. */
  reckoned: string | null;
}

interface Comment {
  readonly id: number;
  readonly on: number;
  readonly author: string;
  readonly body: string;
}

export interface ReviewRecord {
  readonly id: number;
  readonly on: number;
  readonly author: string;
  readonly isBot: boolean;
  state: "APPROVED" | "CHANGES_REQUESTED" | "COMMENTED" | "DISMISSED" | "PENDING";
  readonly body: string;
  readonly commit: string;
  readonly at: string;
  readonly remarks: readonly { readonly path: string; readonly line: number; readonly body: string }[];
}

export interface CheckRunRecord {
  readonly id: number;
  readonly commit: string;
  readonly name: string;
  readonly status: string;
  readonly conclusion: string | null;
  readonly summary: string;
  readonly app: string;
}

interface StatusRecord {
  readonly commit: string;
  readonly context: string;
  readonly state: "success" | "pending" | "failure" | "error";
  readonly description: string;
}

export function nextNumber({ issues, pulls }: Repository): number {
  return Math.max(0, ...issues.map(({ number }) => number), ...pulls.map(({ number }) => number)) + 1;
}

export function notFound(): Refused {
  return new Refused({
    status: 404,
    body: { message: "Not Found", documentation_url: "https://docs.github.com/rest" },
  });
}

export function unprocessable(errors: readonly unknown[]): Refused {
  return new Refused({ status: 422, body: { message: "Validation Failed", errors } });
}

interface MergeState {
  readonly mergeable: boolean | null;
  readonly state: "clean" | "dirty" | "behind" | "blocked" | "draft" | "unstable" | "unknown";
}

/** Updates the head: an open pull request follows its branch. */
export async function followHead(repository: Repository, pull: Pull): Promise<void> {
  if (pull.state !== "open") return;
  const tip = await pull.head.repository.bare.tip(pull.head.branch);
  if (tip === null || tip === pull.headCommit) return;
  pull.headCommit = tip;
  await bringIn(repository, pull);
}

/** Fetches the head's objects into the base's repository, also from a fork. */
export async function bringIn(repository: Repository, pull: Pull): Promise<void> {
  const { head, number } = pull;
  await repository.bare.fetchFrom(head.repository.bare, head.branch, `refs/pull/${number}/head`);
}

/** As GitHub does, the first query after a change answers "unknown", and the next one has the result. */
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

/** The functions below write answers in GitHub's own form: the fields that clients read, with their names and oddities. */
export function issueBody(repository: Repository, issue: Issue, isPull: boolean): Readonly<Record<string, unknown>> {
  const { number, title, body, state, createdAt, updatedAt } = issue;
  return {
    id: repository.id * 10_000 + number,
    number,
    title,
    body,
    state,
    labels: issue.labels.map((name, id) => ({ id, name, color: "ededed" })),
    user: { login: issue.author },
    created_at: createdAt,
    updated_at: updatedAt,
    html_url: `${htmlUrl(repository)}/${isPull ? "pull" : "issues"}/${number}`,
    repository_url: `https://api.github.com/repos/${fullName(repository)}`,
    ...(isPull ? { pull_request: { html_url: `${htmlUrl(repository)}/pull/${number}` } } : {}),
  };
}

/** `merge`: undefined in lists, which do not include it. */
export function pullBody(repository: Repository, pull: Pull, merge?: MergeState): Readonly<Record<string, unknown>> {
  const { number, title, body, state, draft, head, base, headCommit, mergeCommit, createdAt, updatedAt } = pull;
  const single =
    merge === undefined
      ? {}
      : { merged: mergeCommit !== null, mergeable: merge.mergeable, mergeable_state: merge.state };
  return {
    id: repository.id * 10_000 + number,
    number,
    title,
    body,
    state,
    draft,
    labels: pull.labels.map((label, id) => ({ id, name: label, color: "ededed" })),
    user: { login: pull.author },
    html_url: `${htmlUrl(repository)}/pull/${number}`,
    created_at: createdAt,
    updated_at: updatedAt,
    merged_at: mergeCommit === null ? null : updatedAt,
    merge_commit_sha: mergeCommit,
    head: {
      label: `${head.repository.owner}:${head.branch}`,
      ref: head.branch,
      sha: headCommit,
      user: { login: head.repository.owner },
      repo: { full_name: fullName(head.repository) },
    },
    base: { label: `${repository.owner}:${base}`, ref: base, repo: { full_name: fullName(repository) } },
    ...single,
  };
}

export function commentBody(repository: Repository, comment: Comment): Readonly<Record<string, unknown>> {
  const { id, on, body, author } = comment;
  return { id, body, user: { login: author }, html_url: `${htmlUrl(repository)}/issues/${on}#issuecomment-${id}` };
}

export function reviewBody(review: ReviewRecord): Readonly<Record<string, unknown>> {
  const { id, author, isBot, body, state, commit, at } = review;
  const user = { login: author, type: isBot ? "Bot" : "User" };
  return { id, user, body, state, commit_id: commit, submitted_at: at };
}

export function remarkBodies({ id, remarks }: ReviewRecord): readonly Readonly<Record<string, unknown>>[] {
  return remarks.map((remark) => ({ ...remark, pull_request_review_id: id, original_line: remark.line }));
}

export function checkRunBody(repository: Repository, run: CheckRunRecord): Readonly<Record<string, unknown>> {
  const { id, name, status, conclusion, summary, app, commit } = run;
  const output = { title: null, summary: summary === "" ? null : summary, text: null };
  const html_url = `${htmlUrl(repository)}/runs/${id}`;
  return {
    id,
    name,
    head_sha: commit,
    status,
    conclusion,
    html_url,
    details_url: html_url,
    output,
    app: { slug: app },
  };
}

export function statusBody({ context, state, description }: StatusRecord): Readonly<Record<string, unknown>> {
  return { context, state, description, target_url: null };
}

export async function repositoryBody(repository: Repository): Promise<Readonly<Record<string, unknown>>> {
  const { id, owner, name, rules, parent } = repository;
  return {
    id,
    name,
    full_name: fullName(repository),
    owner: { login: owner },
    html_url: htmlUrl(repository),
    default_branch: await repository.bare.head(),
    fork: parent !== null,
    permissions: { push: true, pull: true },
    allow_merge_commit: rules.methods.includes("merge"),
    allow_squash_merge: rules.methods.includes("squash"),
    allow_rebase_merge: rules.methods.includes("rebase"),
  };
}

function fullName({ owner, name }: Repository): string {
  return `${owner}/${name}`;
}

function htmlUrl(repository: Repository): string {
  return `https://github.com/${fullName(repository)}`;
}
