// The GitHub forge: its two transports, the login, pull requests with their reviews, and checks of commits.

import * as z from "zod/mini";
import type { CheckRun, Checks, Forge, Mergeability, PullRequest, PullRequestReview } from "@holdfast/core/forge";
import { isJsonObject } from "@holdfast/core/json";
import { systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { type Api, type ClassifiedResponse, createApi, forgeRefused } from "./api.ts";
import { reviewText, subjectNumber } from "./body-text.ts";
import { MAX_FAILED_LOGS, combineChecks, logTail, requireCommit, unknownCommit } from "./checks.ts";
import {
  type GithubRepository,
  MAX_BODY_LENGTH,
  checkAccess,
  commentsOf,
  confirmAbsent,
  listOwnIssues,
  parseIssue,
  readIssue,
  readRepository,
  repositoryName,
  repositoryPath,
  setLabels,
  writeDenied,
} from "./github-issues.ts";
import { type ForgeServer, createServerForge, findMade, findPull, issuesRefused, requirePull } from "./server-forge.ts";
import { type ServerForgeOptions, type Transport, createHttpTransport, createProgramTransport } from "./transport.ts";

/** GitHub, or a GitHub Enterprise server. */
export function openGithubForge(options: ServerForgeOptions): Forge {
  const { transport, host, owner, name, clock = systemClock, pauseMs } = options;
  const api = createApi({ forge: "GitHub", transport, clock, ...(pauseMs === undefined ? {} : { pauseMs }) });
  const { head = { owner, name } } = options;
  const github: GithubRepository = { api, host, owner, name, head, login: cacheLogin(api) };
  return createServerForge(serverOf(github), {
    name: "github",
    lateMs: LATE_MS,
    marked: (mark) => openGithubForge({ ...options, transport: transport.marked(mark) }),
    checkAccess: () => checkAccess(github),
    getIssue: (number) => readIssue(github, number),
    setLabels: (on, labels) => setLabels(github, subjectNumber(on), labels),
    defaultBranch: async () => (await readRepository(github)).default_branch,
    checks: (commit) => readChecks(github, commit),
    reviews: (number) => readReviews(github, number),
  });
}

function serverOf(github: GithubRepository): ForgeServer {
  const { api } = github;
  const server: ForgeServer = {
    api,
    location: repositoryName(github),
    place: "repository",
    noun: "pull request",
    maxBodyLength: MAX_BODY_LENGTH,
    requireVisible: () => readRepository(github),
    denied: (what) => writeDenied(github, what),
    ownIssues: () => listOwnIssues(github),
    createIssue: (issue) => ({ method: "POST", path: `${repositoryPath(github)}/issues`, body: { ...issue } }),
    parseIssue: (made, what) => parseIssue(github, made, what),
    issuesHidden: () => issuesRefused(server, "issues are disabled"),
    commentsOf: (on) => commentsOf(github, subjectNumber(on)),
    getPull: (number) => getPull(github, number),
    pullsOf: (head) => listPulls(github, head),
    parsePull: (body, what) => toPullRequest(api.parse(body, PULL, what)),
    createPull({ title, body, base, draft, head }) {
      const path = `${repositoryPath(github)}/pulls`;
      return { method: "POST", path, body: { title, body, base, draft, ...headOf(github, head) } };
    },
    async createRefused(request, refusal) {
      const { head, base } = request;
      const error = classifyPullError(refusal);
      // Another call with the same key was faster, or this one succeeded a moment ago.
      const made = error.why === "exists" ? await findMade(server, request) : null;
      if (made !== null) return made;
      const open = error.why === "exists" ? await findPull(server, head) : null;
      return forgeRefused(
        `a pull request of ${head} into ${base} cannot be created in ${server.location}: ${refusal.message}`,
        error.hint,
        { why: error.why, ...(open === null ? {} : { number: open.number, url: open.url }) },
      );
    },
    updatePull: (number, { title, body }) => ({ method: "PATCH", path: pathOf(github, number), body: { title, body } }),
    closePull: (number) => ({ method: "PATCH", path: pathOf(github, number), body: { state: "closed" } }),
    mergePull: async (number, head) => ({
      method: "PUT",
      path: `${pathOf(github, number)}/merge`,
      body: { sha: head, merge_method: await methodOf(github) },
    }),
  };
  return server;
}

/** GitHub ends each request after ten seconds, whether or not the client still waits. */
const LATE_MS = 12_000;

/** Uses `gh`, which holds the login. */
export function createGhTransport(params: {
  readonly program: string;
  readonly host: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly timeoutMs?: number;
}): Transport {
  const { host } = params;
  const fix = `Run \`gh auth login --hostname ${host}\`, or set ${githubTokenVariables(host)[0]} to a valid token.`;
  return createProgramTransport({ ...params, name: "gh", headers: HEADERS, fix });
}

/** Uses a token from the environment. */
export function createGithubTokenTransport(params: {
  readonly host: string;
  readonly token: string;
  /** Defaults to GitHub's API URL for this host. */
  readonly root?: string;
  readonly timeoutMs?: number;
}): Transport {
  const { host, token, root = githubApiRoot(host) } = params;
  return createHttpTransport({
    root,
    token,
    headers: { ...HEADERS, authorization: `Bearer ${token}`, "user-agent": "holdfast" },
    fix: `Set ${githubTokenVariables(host)[0]} to a valid token, or install gh and run \`gh auth login --hostname ${host}\`.`,
    ...(params.timeoutMs === undefined ? {} : { timeoutMs: params.timeoutMs }),
  });
}

/** github.com and its tenants have a separate API host. An Enterprise server has the API below a path. */
export function githubApiRoot(host: string): string {
  if (host === "github.com" || host.endsWith(".ghe.com")) return `https://api.${host}`;
  return `https://${host}/api/v3`;
}

/** In order of precedence, as in `gh`. */
export function githubTokenVariables(host: string): readonly string[] {
  return host === "github.com" || host.endsWith(".ghe.com")
    ? ["GH_TOKEN", "GITHUB_TOKEN"]
    : ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"];
}

const HEADERS = { accept: "application/vnd.github+json", "x-github-api-version": "2022-11-28" };

/** The name of our login, requested once; null for a login without a user, such as an app. A failure is not cached. */
function cacheLogin(api: Api): () => Promise<string | null> {
  let known: Promise<string | null> | undefined;
  return () => {
    known ??= ownLogin(api).catch((error: unknown) => {
      known = undefined;
      throw error;
    });
    return known;
  };
}

async function ownLogin(api: Api): Promise<string | null> {
  try {
    return (await api.read("user", z.object({ login: z.string() })))?.login ?? null;
  } catch (error) {
    // "Resource not accessible by integration". The next request shows whether the repository is visible.
    if (error instanceof HoldfastError && error.code === "FORGE_DENIED") return null;
    throw error;
  }
}

async function getPull(github: GithubRepository, number: number): Promise<PullRequest | null> {
  const found = await github.api.read(pathOf(github, number), PULL);
  return found === null ? await confirmAbsent(github) : toPullRequest(found);
}

/**
 * Newest first. Filters by the exact head again, because GitHub ignores a filter it does not understand and returns
 * everything.
 */
async function listPulls(github: GithubRepository, head: string): Promise<readonly PullRequest[]> {
  const label = `${github.head.owner}:${head}`;
  const path = `${repositoryPath(github)}/pulls?state=all&sort=created&direction=desc&head=${encodeURIComponent(label)}`;
  const all = (await github.api.list(path, PULL)) ?? (await confirmAbsent(github)) ?? [];
  return all
    .filter(({ head: { ref, label: its } }) => ref === head && isOwner(its, github.head.owner))
    .map(toPullRequest);
}

function isOwner(label: string | null | undefined, owner: string): boolean {
  return label === null || label === undefined || label.split(":")[0]?.toLowerCase() === owner.toLowerCase();
}

/**
 * The branch name within one repository. For a fork also its owner, and its name if one owner has both repositories.
 */
function headOf(github: GithubRepository, branch: string): { readonly head: string; readonly head_repo?: string } {
  const { owner, name } = github.head;
  if (owner.toLowerCase() !== github.owner.toLowerCase()) return { head: `${owner}:${branch}` };
  if (name.toLowerCase() === github.name.toLowerCase()) return { head: branch };
  return { head: `${owner}:${branch}`, head_repo: name };
}

function pathOf(github: GithubRepository, number: number): string {
  return `${repositoryPath(github)}/pulls/${number}`;
}

interface PullError {
  readonly why: "exists" | "head_missing" | "base_missing" | "nothing_new" | "drafts_off" | "refused";
  readonly hint: string;
}

/** GitHub names the invalid field where it can, and otherwise gives only a message. */
export function classifyPullError({
  message,
  body,
}: Pick<Extract<ClassifiedResponse, { kind: "refused" }>, "message" | "body">): PullError {
  const parsed = z.safeParse(BODY, body);
  const errors = parsed.success ? (parsed.data.errors ?? []) : [];
  const isInvalid = (field: string): boolean =>
    errors.some((error) => typeof error === "object" && error.field === field && error.code === "invalid");
  if (/pull request already exists/i.test(message)) return { why: "exists", hint: "Use that one, or close it first." };
  if (/no commits between/i.test(message)) return { why: "nothing_new", hint: "Commit and push something first." };
  if (isInvalid("head")) return { why: "head_missing", hint: "Push it first, then create the pull request." };
  if (isInvalid("base")) return { why: "base_missing", hint: "Give a branch that exists in the repository." };
  if (/draft pull requests are not supported/i.test(message))
    return { why: "drafts_off", hint: "Set impl.draft to false: this repository has no drafts." };
  return { why: "refused", hint: "Check the repository's rules for pull requests." };
}

const BODY = z.object({
  errors: z.optional(
    z.array(z.union([z.string(), z.object({ field: z.optional(z.string()), code: z.optional(z.string()) })])),
  ),
});

/** A pull request in GitHub's format. Lists omit the computed fields merged and mergeable. */
const PULL = z.object({
  number: z.number(),
  html_url: z.string(),
  title: z.string(),
  body: z.nullish(z.string()),
  state: z.enum(["open", "closed"]),
  draft: z.optional(z.boolean()),
  labels: z.array(z.object({ name: z.string() })),
  merged_at: z.nullish(z.string()),
  mergeable: z.nullish(z.boolean()),
  mergeable_state: z.nullish(z.string()),
  // A deleted fork leaves its repository empty but keeps the label.
  head: z.object({ ref: z.string(), sha: z.string(), label: z.nullish(z.string()) }),
  base: z.object({ ref: z.string() }),
});

type GithubPull = z.infer<typeof PULL>;

function toPullRequest(pull: GithubPull): PullRequest {
  const { number, title, body, head, base, draft = false } = pull;
  const state = stateOf(pull);
  return {
    number,
    url: pull.html_url,
    title,
    body: body ?? "",
    state,
    draft,
    head: head.ref,
    headCommit: head.sha,
    base: base.ref,
    labels: pull.labels.map((label) => label.name),
    mergeability: state === "open" ? mergeabilityOf(pull) : "unknown",
  };
}

function stateOf(pull: Pick<GithubPull, "state" | "merged_at">): PullRequest["state"] {
  return pull.merged_at !== null && pull.merged_at !== undefined ? "merged" : pull.state;
}

/**
 * GitHub reports "dirty" for a conflict, and "draft" takes precedence over anything but a conflict. "unstable" and
 * "has_hooks" can be merged, because only optional checks fail. While `mergeable` is null, GitHub is still computing
 * it, and `mergeable_state` is outdated.
 */
export function mergeabilityOf(pull: Pick<GithubPull, "mergeable" | "mergeable_state" | "draft">): Mergeability {
  const { mergeable, mergeable_state: word } = pull;
  if (mergeable === false || word === "dirty") return "conflicting";
  if (mergeable === null || mergeable === undefined) return "unknown";
  if (pull.draft === true) return "blocked";
  switch (word) {
    case "clean":
    case "unstable":
    case "has_hooks":
      return "mergeable";
    case "behind":
      return "behind";
    case "blocked":
    case "draft":
      return "blocked";
    default:
      return "unknown";
  }
}

/** Prefers a merge commit, because only that keeps the reviewed commits. */
async function methodOf(github: GithubRepository): Promise<"merge" | "squash" | "rebase"> {
  const settings = await readRepository(github);
  if (settings.allow_merge_commit !== false) return "merge";
  return settings.allow_squash_merge === false ? "rebase" : "squash";
}

/** Includes the line comments, which GitHub stores separately. Reviews that are not submitted yet are omitted. */
async function readReviews(github: GithubRepository, number: number): Promise<readonly PullRequestReview[]> {
  const path = pathOf(github, number);
  const reviews = await github.api.list(`${path}/reviews`, REVIEW);
  const remarks = reviews === null || reviews.length === 0 ? [] : await github.api.list(`${path}/comments`, REMARK);
  if (reviews === null || remarks === null) {
    await requirePull(serverOf(github), number);
    throw writeDenied(github, `read the reviews of pull request ${number}`);
  }
  return reviews.flatMap((review) => {
    const state = STATES.get(review.state);
    if (state === undefined) return [];
    const own = remarks.filter(({ pull_request_review_id: of }) => of === review.id);
    const lines = own.map(({ path: file, line, original_line: was, body }) => ({
      file,
      line: line ?? was ?? null,
      body,
    }));
    return [
      {
        id: String(review.id),
        author: review.user?.login ?? "ghost",
        byPerson: review.user?.type !== "Bot",
        state,
        body: reviewText(review.body ?? "", lines),
        commit: review.commit_id ?? null,
        at: review.submitted_at ?? null,
      },
    ];
  });
}

/** PENDING is omitted: its author is still writing, and only the author sees it. */
const STATES: ReadonlyMap<string, PullRequestReview["state"]> = new Map([
  ["APPROVED", "approved"],
  ["CHANGES_REQUESTED", "changes_requested"],
  ["COMMENTED", "commented"],
  ["DISMISSED", "dismissed"],
]);

const REVIEW = z.object({
  id: z.number(),
  // null for a deleted account.
  user: z.nullish(z.object({ login: z.string(), type: z.optional(z.string()) })),
  body: z.nullish(z.string()),
  state: z.string(),
  commit_id: z.nullish(z.string()),
  submitted_at: z.nullish(z.string()),
});
const REMARK = z.object({
  pull_request_review_id: z.nullish(z.number()),
  path: z.string(),
  // null if the line is no longer in the diff.
  line: z.nullish(z.number()),
  original_line: z.nullish(z.number()),
  body: z.string(),
});

/**
 * Combines check runs and commit statuses, because older services write only statuses. A commit passes only if both
 * pass.
 */
async function readChecks(github: GithubRepository, commit: string): Promise<Checks> {
  requireCommit(commit);
  const path = `${repositoryPath(github)}/commits/${commit}`;
  const [runs, statuses] = await Promise.all([
    listCheckRuns(github, path),
    github.api.list(`${path}/status`, STATUS, (page) => fieldOf(page, "statuses")),
  ]);
  if (runs === null || statuses === null) {
    await readRepository(github);
    throw unknownCommit("GitHub", commit);
  }
  const failed = runs.filter((run) => checkRunState(run) === "failed").slice(0, MAX_FAILED_LOGS);
  const logs = new Map(await Promise.all(failed.map(async (run) => [run.id, await readLog(github, run)] as const)));
  return combineChecks([
    ...runs.map((run) => toCheckRun(run, logs.get(run.id) ?? null)),
    ...statuses.map(statusToCheckRun),
  ]);
}

/**
 * Fine-grained tokens never have access here. Jobs of Actions could be read another way, but not the results of other
 * apps. A part of the checks must not count as all of them.
 */
async function listCheckRuns(
  github: GithubRepository,
  path: string,
): Promise<readonly z.infer<typeof CHECK_RUN>[] | null> {
  try {
    return await github.api.list(`${path}/check-runs?filter=latest`, CHECK_RUN, (page) => fieldOf(page, "check_runs"));
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== "FORGE_DENIED") throw error;
    throw new HoldfastError({
      code: "FORGE_DENIED",
      message: error.message,
      hint: `Fine-grained tokens cannot read check runs: log in with gh, or use a classic token with the scope repo. ${error.hint ?? ""}`,
      retry: "ask",
    });
  }
}

/** The log of a GitHub Actions job. Its check run has the id of the job but no reason for the failure. */
async function readLog(github: GithubRepository, run: z.infer<typeof CHECK_RUN>): Promise<string | null> {
  if (run.app?.slug !== "github-actions") return null;
  return await logTail(() => github.api.read(`${repositoryPath(github)}/actions/jobs/${run.id}/logs`, z.string()));
}

function fieldOf(page: Parameters<typeof isJsonObject>[0], name: string): unknown {
  return isJsonObject(page) ? page[name] : undefined;
}

const CHECK_RUN = z.object({
  id: z.number(),
  name: z.string(),
  status: z.string(),
  conclusion: z.nullish(z.string()),
  html_url: z.nullish(z.string()),
  details_url: z.nullish(z.string()),
  output: z.nullish(
    z.object({ title: z.nullish(z.string()), summary: z.nullish(z.string()), text: z.nullish(z.string()) }),
  ),
  app: z.nullish(z.object({ slug: z.nullish(z.string()) })),
});

const STATUS = z.object({
  context: z.string(),
  state: z.string(),
  description: z.nullish(z.string()),
  target_url: z.nullish(z.string()),
});

/** `log` is the end of the job's output; null if there is none. */
function toCheckRun(run: z.infer<typeof CHECK_RUN>, log: string | null): CheckRun {
  const { title, summary, text } = run.output ?? {};
  const texts = [title, summary, text, log].filter((one) => one !== null && one !== undefined && one !== "");
  return {
    name: run.name,
    state: checkRunState(run),
    url: run.html_url ?? run.details_url ?? null,
    summary: texts.join("\n\n").slice(-LONGEST_SUMMARY),
  };
}

function statusToCheckRun({ context, state, description, target_url }: z.infer<typeof STATUS>): CheckRun {
  return { name: context, state: stateOfStatus(state), url: target_url ?? null, summary: description ?? "" };
}

/** An unknown conclusion counts as failed, so that the user is asked. */
export function checkRunState(run: {
  readonly status: string;
  readonly conclusion?: string | null | undefined;
}): CheckRun["state"] {
  if (run.status !== "completed") return "pending";
  switch (run.conclusion) {
    case "success":
      return "passed";
    case "neutral":
    case "skipped":
      return "skipped";
    // GitHub abandoned the check because it received no result. That does not describe the commit, and the check may
    // run again.
    case "stale":
      return "pending";
    default:
      return "failed";
  }
}

function stateOfStatus(state: string): CheckRun["state"] {
  if (state === "success") return "passed";
  return state === "pending" ? "pending" : "failed";
}

const LONGEST_SUMMARY = 8000;
