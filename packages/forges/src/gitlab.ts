// The GitLab forge: its two transports, merge requests with their reviews, and checks of commits.

import * as z from "zod/mini";
import type { CheckRun, Checks, Forge, Mergeability, PullRequest, PullRequestReview } from "@holdfast/core/forge";
import { systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { createApi, forgeRefused } from "./api.ts";
import { reviewText } from "./body-text.ts";
import { MAX_FAILED_LOGS, combineChecks, logTail, requireCommit, unknownCommit } from "./checks.ts";
import {
  type GitlabProject,
  MAX_BODY_LENGTH,
  commentsOf,
  confirmAbsent,
  issueRequest,
  listOwnIssues,
  parseIssue,
  projectName,
  projectPath,
  readIssue,
  readProject,
  requireSubject,
  setLabels,
  subjectPaths,
  writeDenied,
} from "./gitlab-issues.ts";
import { type ForgeServer, createServerForge, findMade, findPull } from "./server-forge.ts";
import { type ServerForgeOptions, type Transport, createHttpTransport, createProgramTransport } from "./transport.ts";

/** GitLab, or a self-hosted server. Pull requests of the Forge interface are merge requests here. */
export function openGitlabForge(options: ServerForgeOptions): Forge {
  const { transport, host, owner, name, clock = systemClock, pauseMs } = options;
  const { head = { owner, name } } = options;
  const api = createApi({ forge: "GitLab", transport, clock, ...(pauseMs === undefined ? {} : { pauseMs }) });
  const gitlab: GitlabProject = { api, host, project: `${owner}/${name}`, head: `${head.owner}/${head.name}` };
  return createServerForge(serverOf(gitlab), {
    name: "gitlab",
    lateMs: LATE_MS,
    marked: (mark) => openGitlabForge({ ...options, transport: transport.marked(mark) }),
    checkAccess: async () => void (await readProject(gitlab)),
    getIssue: (number) => readIssue(gitlab, number),
    setLabels: (on, labels) => setLabels(gitlab, on, labels),
    defaultBranch: () => findDefaultBranch(gitlab),
    checks: (commit) => readChecks(gitlab, commit),
    reviews: (number) => readReviews(gitlab, number),
  });
}

function serverOf(gitlab: GitlabProject): ForgeServer {
  const { api } = gitlab;
  const server: ForgeServer = {
    api,
    location: projectName(gitlab),
    place: "project",
    noun: "merge request",
    maxBodyLength: MAX_BODY_LENGTH,
    requireVisible: () => readProject(gitlab),
    denied: (what) => writeDenied(gitlab, what),
    ownIssues: () => listOwnIssues(gitlab),
    createIssue: (issue) => issueRequest(gitlab, issue),
    parseIssue: (made, what) => parseIssue(gitlab, made, what),
    issuesHidden: () => writeDenied(gitlab, "create an issue"),
    commentsOf: (on) => commentsOf(gitlab, on),
    getPull: (number) => getMergeRequest(gitlab, number),
    pullsOf: (head) => listRequests(gitlab, head),
    parsePull: (body, what) => toPullRequest(api.parse(body, MERGE_REQUEST, what)),
    /** Refuses merge requests that GitLab would accept without use: of a branch that does not exist or has no new commits. */
    async createPull({ title, body, head, base, draft }) {
      await requireCommits(gitlab, { head, base });
      const target = gitlab.head === gitlab.project ? {} : { target_project_id: (await readProject(gitlab)).id };
      return {
        method: "POST",
        // A merge request is created in its source project.
        path: `${projectPath(gitlab.head)}/merge_requests`,
        body: {
          source_branch: head,
          target_branch: base,
          title: draftTitle(title, draft),
          description: body,
          ...target,
        },
      };
    },
    async createRefused(request, { message }) {
      // Another call with the same key was faster, or this one succeeded a moment ago.
      const there = await findMade(server, request);
      if (there !== null) return there;
      const found = await findPull(server, request.head);
      if (found?.state === "open") return exists(gitlab, found);
      return forgeRefused(
        `a merge request cannot be created in ${server.location}: ${message}`,
        "Check the project's rules for merge requests.",
        { why: "refused" },
      );
    },
    updatePull: (number, { title, body, draft }) => ({
      method: "PUT",
      path: pathOf(gitlab, number),
      body: { title: draftTitle(title, draft), description: body },
    }),
    closePull: (number) => ({ method: "PUT", path: pathOf(gitlab, number), body: { state_event: "close" } }),
    mergePull: (number, head) => ({ method: "PUT", path: `${pathOf(gitlab, number)}/merge`, body: { sha: head } }),
  };
  return server;
}

async function findDefaultBranch(gitlab: GitlabProject): Promise<string> {
  const { default_branch: branch } = await readProject(gitlab);
  if (branch !== null && branch !== undefined) return branch;
  throw new HoldfastError({
    code: "FORGE_FAILED",
    message: `${projectName(gitlab)} has no default branch`,
    hint: "Push a first commit to it.",
    retry: "ask",
  });
}

/** GitLab ends each request after a minute, whether or not the client still waits. */
const LATE_MS = 62_000;

/** Uses `glab`, which holds the login. */
export function createGlabTransport(params: {
  readonly program: string;
  readonly host: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly timeoutMs?: number;
}): Transport {
  const fix = `Run \`glab auth login --hostname ${params.host}\`, or set GITLAB_TOKEN to a valid token.`;
  return createProgramTransport({ ...params, name: "glab", headers: {}, fix });
}

/** Uses a token from the environment. */
export function createGitlabTokenTransport(params: {
  readonly host: string;
  readonly token: string;
  readonly root?: string;
  readonly timeoutMs?: number;
}): Transport {
  const { host, token, root = `https://${host}/api/v4` } = params;
  return createHttpTransport({
    root,
    token,
    headers: { authorization: `Bearer ${token}`, "user-agent": "holdfast" },
    fix: `Set GITLAB_TOKEN to a valid token, or install glab and run \`glab auth login --hostname ${host}\`.`,
    ...(params.timeoutMs === undefined ? {} : { timeoutMs: params.timeoutMs }),
  });
}

/** In order of precedence, as in `glab`. */
export const GITLAB_TOKEN_VARIABLES: readonly string[] = ["GITLAB_TOKEN", "GITLAB_ACCESS_TOKEN", "OAUTH_TOKEN"];

async function getMergeRequest(gitlab: GitlabProject, number: number): Promise<PullRequest | null> {
  const found = await gitlab.api.read(pathOf(gitlab, number), MERGE_REQUEST);
  return found === null ? await confirmAbsent(gitlab) : toPullRequest(found);
}

/**
 * Newest first, and only from the project that receives our branches: other projects may have a branch of the same
 * name.
 */
async function listRequests(gitlab: GitlabProject, head: string): Promise<readonly PullRequest[]> {
  const query = `state=all&order_by=created_at&sort=desc&source_branch=${encodeURIComponent(head)}`;
  const path = `${projectPath(gitlab.project)}/merge_requests?${query}`;
  const all = (await gitlab.api.list(path, MERGE_REQUEST)) ?? (await confirmAbsent(gitlab)) ?? [];
  const named = all.filter((request) => request.source_branch === head);
  if (named.length === 0) return [];
  const id = gitlab.head === gitlab.project ? null : (await readProject(gitlab, gitlab.head)).id;
  return named
    .filter(({ source_project_id: source, target_project_id: target }) => source === (id ?? target))
    .map(toPullRequest);
}

async function requireCommits(
  gitlab: GitlabProject,
  { head, base }: { readonly head: string; readonly base: string },
): Promise<void> {
  const commit = await gitlab.api.read(branchPath(gitlab.head, head), BRANCH);
  if (commit === null) {
    await readProject(gitlab, gitlab.head);
    const hint = "Push it first, then create the merge request.";
    throw forgeRefused(`branch ${head} was never pushed`, hint, { why: "head_missing", head });
  }
  if ((await gitlab.api.read(branchPath(gitlab.project, base), BRANCH)) === null) {
    await readProject(gitlab);
    const hint = "Give a branch that exists in the project.";
    throw forgeRefused(`base branch ${base} does not exist`, hint, { why: "base_missing", base });
  }
  const open = (await listRequests(gitlab, head)).find((one) => one.state === "open" && one.base === base);
  if (open !== undefined) throw exists(gitlab, open);
  // GitLab cannot compare two projects. A merge request without new commits is harmless there.
  if (gitlab.head !== gitlab.project) return;
  const range = `from=${encodeURIComponent(base)}&to=${encodeURIComponent(head)}`;
  const compared = await gitlab.api.read(`${projectPath(gitlab.project)}/repository/compare?${range}`, COMPARED);
  if (compared === null || compared.commits.length > 0) return;
  const hint = "Commit and push something first.";
  throw forgeRefused(`${head} has no commit that ${base} lacks`, hint, { why: "nothing_new", head, base });
}

const BRANCH = z.object({ name: z.string() });
const COMPARED = z.object({ commits: z.array(z.unknown()) });

function exists(gitlab: GitlabProject, { number, url, head }: PullRequest): HoldfastError {
  const message = `merge request ${number} for ${head} is already open in ${projectName(gitlab)}`;
  return forgeRefused(message, "Use that one, or close it first.", { why: "exists", number, url });
}

function branchPath(project: string, branch: string): string {
  return `${projectPath(project)}/repository/branches/${encodeURIComponent(branch)}`;
}

function pathOf(gitlab: GitlabProject, number: number): string {
  return `${projectPath(gitlab.project)}/merge_requests/${number}`;
}

const MERGE_REQUEST = z.object({
  iid: z.number(),
  web_url: z.string(),
  title: z.string(),
  description: z.nullish(z.string()),
  // "locked" means that it is being merged right now.
  state: z.enum(["opened", "closed", "merged", "locked"]),
  draft: z.optional(z.boolean()),
  labels: z.array(z.string()),
  source_branch: z.string(),
  target_branch: z.string(),
  // Absent if the fork was deleted.
  source_project_id: z.nullish(z.number()),
  target_project_id: z.number(),
  sha: z.nullish(z.string()),
  has_conflicts: z.nullish(z.boolean()),
  detailed_merge_status: z.nullish(z.string()),
  merge_status: z.nullish(z.string()),
});

type MergeRequest = z.infer<typeof MERGE_REQUEST>;

function toPullRequest(request: MergeRequest): PullRequest {
  const state = stateOf(request);
  return {
    number: request.iid,
    url: request.web_url,
    title: withoutDraft(request.title),
    body: request.description ?? "",
    state,
    draft: isDraft(request),
    head: request.source_branch,
    headCommit: request.sha ?? "",
    base: request.target_branch,
    labels: request.labels,
    mergeability: state === "open" ? mergeabilityOf(request) : "unknown",
  };
}

function stateOf({ state }: Pick<MergeRequest, "state">): PullRequest["state"] {
  switch (state) {
    case "opened":
    case "locked":
      return "open";
    case "closed":
    case "merged":
      return state;
  }
}

/** GitLab marks a draft by its title. */
function draftTitle(title: string, draft: boolean): string {
  return draft ? `Draft: ${withoutDraft(title)}` : title;
}

function isDraft({ draft, title }: Pick<MergeRequest, "draft" | "title">): boolean {
  return draft ?? DRAFT.test(title);
}

/**
 * The detailed status names one of several reasons; a conflict takes precedence. Versions before 15.6 have only the
 * plain status, which distinguishes conflicts from everything else.
 */
export function mergeabilityOf(
  request: Pick<MergeRequest, "has_conflicts" | "detailed_merge_status" | "merge_status" | "draft" | "title">,
): Mergeability {
  const { detailed_merge_status: detailed, merge_status: plain } = request;
  if (detailed === "conflict" || detailed === "broken_status") return "conflicting";
  const word = detailed ?? plain ?? "unchecked";
  if (UNDECIDED.has(word)) return "unknown";
  if (request.has_conflicts === true || word === "cannot_be_merged") return "conflicting";
  if (word === "need_rebase") return "behind";
  if (isDraft(request)) return "blocked";
  return word === "mergeable" || word === "can_be_merged" ? "mergeable" : "blocked";
}

const UNDECIDED: ReadonlySet<string> = new Set([
  "checking",
  "unchecked",
  "preparing",
  "approvals_syncing",
  "cannot_be_merged_recheck",
  "cannot_be_merged_rechecking",
]);
const DRAFT = /^(?:\[draft\]|\(draft\)|draft:)\s*/i;

function withoutDraft(title: string): string {
  return title.replace(DRAFT, "");
}

/**
 * GitLab has no list of reviews. An approval or a request for changes is a system note with an id and a time. The
 * reviewer's comments are the notes before it, including those on lines of files. Only the list of approvals shows
 * whether an approval still counts.
 */
async function readReviews(gitlab: GitlabProject, number: number): Promise<readonly PullRequestReview[]> {
  const { name, path } = subjectPaths(gitlab, { pullRequest: number });
  const notes = await gitlab.api.list(`${path}/notes?sort=asc&order_by=created_at`, NOTE);
  const approvals = await gitlab.api.read(`${path}/approvals`, APPROVALS);
  if (notes === null || approvals === null) {
    await requireSubject(gitlab, { pullRequest: number });
    throw writeDenied(gitlab, `read the reviews of ${name}`);
  }
  return toReviews(notes, new Set(approvals.approved_by.map(({ user }) => user.username)));
}

/** `notes` are oldest first. `approvers` are the users whose approval counts. Resolved threads are omitted. */
export function toReviews(notes: readonly Note[], approvers: ReadonlySet<string>): readonly PullRequestReview[] {
  const comments = new Map<string, Note[]>();
  const reviews: PullRequestReview[] = [];
  const add = (note: Note, state: PullRequestReview["state"], own: readonly Note[]): void => {
    const { id, author, created_at: at } = note;
    const remarks = own.flatMap(({ position, body }) =>
      position === null || position === undefined
        ? []
        : [
            {
              file: position.new_path ?? position.old_path ?? "?",
              line: position.new_line ?? position.old_line ?? null,
              body,
            },
          ],
    );
    const texts = own.flatMap(({ position, body }) =>
      position === null || position === undefined ? [body.trim()] : [],
    );
    const body = reviewText(texts.join("\n\n"), remarks);
    const commit = own.find(({ position }) => position?.head_sha !== undefined)?.position?.head_sha ?? null;
    reviews.push({
      id: String(id),
      author: author.username,
      byPerson: !BOT.test(author.username),
      state,
      body,
      commit,
      at,
    });
  };
  for (const note of notes) {
    const { username } = note.author;
    const decided = note.system ? DECISIONS.get(note.body.trim()) : undefined;
    if (decided !== undefined) {
      add(
        note,
        decided === "approved" && !approvers.has(username) ? "dismissed" : decided,
        comments.get(username) ?? [],
      );
      comments.delete(username);
    } else if (!note.system && note.resolved !== true)
      comments.set(username, [...(comments.get(username) ?? []), note]);
  }
  for (const own of comments.values()) for (const note of own) add(note, "commented", [note]);
  return reviews;
}

/** The texts of GitLab's system notes, which are the same in every language. */
const DECISIONS: ReadonlyMap<string, PullRequestReview["state"]> = new Map([
  ["approved this merge request", "approved"],
  ["unapproved this merge request", "dismissed"],
  ["requested changes", "changes_requested"],
]);

/** Accounts of project and group tokens, and those of GitLab itself. */
const BOT = /^(?:project|group)_\d+_bot|^(?:ghost|support-bot|alert-bot|GitLabDuo)$/;

const POSITION = z.object({
  head_sha: z.optional(z.string()),
  new_path: z.nullish(z.string()),
  old_path: z.nullish(z.string()),
  new_line: z.nullish(z.number()),
  old_line: z.nullish(z.number()),
});
const NOTE = z.object({
  id: z.number(),
  body: z.string(),
  system: z.boolean(),
  author: z.object({ username: z.string() }),
  created_at: z.string(),
  resolved: z.nullish(z.boolean()),
  position: z.nullish(POSITION),
});
type Note = z.infer<typeof NOTE>;
const APPROVALS = z.object({ approved_by: z.array(z.object({ user: z.object({ username: z.string() }) })) });

/**
 * Pipeline jobs and results of other services, which GitLab returns in one list. Pipelines of a fork run in the fork.
 */
async function readChecks(gitlab: GitlabProject, commit: string): Promise<Checks> {
  requireCommit(commit);
  const found = await Promise.all(
    [...new Set([gitlab.head, gitlab.project])].map(async (project) => ({
      project,
      statuses: await gitlab.api.list(`${projectPath(project)}/repository/commits/${commit}/statuses`, STATUS),
    })),
  );
  if (found.every(({ statuses }) => statuses === null)) {
    await readProject(gitlab, gitlab.head);
    throw unknownCommit("GitLab", commit);
  }
  const runs = found.flatMap(({ project, statuses }) => (statuses ?? []).map((status) => ({ project, status })));
  const failed = runs.filter(({ status }) => commitStatusState(status) === "failed").slice(0, MAX_FAILED_LOGS);
  const logs = new Map(
    await Promise.all(
      failed.map(async ({ project, status }) => [status.id, await readLog(gitlab, project, status)] as const),
    ),
  );
  return combineChecks(runs.map(({ status }) => toCheckRun(status, logs.get(status.id) ?? null)));
}

const STATUS = z.object({
  id: z.number(),
  name: z.string(),
  status: z.string(),
  description: z.nullish(z.string()),
  target_url: z.nullish(z.string()),
  allow_failure: z.nullish(z.boolean()),
});

type Status = z.infer<typeof STATUS>;

function toCheckRun(status: Status, log: string | null): CheckRun {
  const { name, target_url, description } = status;
  const texts = [description, log].filter((one) => one !== null && one !== undefined && one !== "");
  return { name, state: commitStatusState(status), url: target_url ?? null, summary: texts.join("\n\n") };
}

/** An unknown status counts as failed, so that the user is asked. Jobs that may fail and manual jobs do not count. */
export function commitStatusState(status: {
  readonly status: string;
  readonly allow_failure?: boolean | null | undefined;
}): CheckRun["state"] {
  switch (status.status) {
    case "success":
      return "passed";
    case "created":
    case "waiting_for_resource":
    case "preparing":
    case "pending":
    case "running":
    case "scheduled":
      return "pending";
    case "skipped":
    case "manual":
      return "skipped";
    default:
      return status.allow_failure === true ? "skipped" : "failed";
  }
}

/** The log of a job, whose status has the id of the job. Results of other services have no log. */
async function readLog(gitlab: GitlabProject, project: string, { id, target_url }: Status): Promise<string | null> {
  if (target_url?.includes("/-/jobs/") !== true) return null;
  return await logTail(() => gitlab.api.read(`${projectPath(project)}/jobs/${id}/trace`, z.string()));
}
