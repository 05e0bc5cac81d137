import type { MergeState } from "./merge-state.ts";
import type { CheckRunRecord, Comment, Issue, Pull, Repository, ReviewRecord, StatusRecord } from "./world.ts";

/** Answers in GitHub's own words: the fields that clients read, with their names and oddities. */
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

/** `merge`: undefined in lists, which do not tell. */
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
