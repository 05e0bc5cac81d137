// The GitHub forge: its two transports, the login, and checks of commits.

import * as z from "zod/mini";
import type { CheckRun, Checks, Forge } from "@holdfast/core/forge";
import { isJsonObject } from "@holdfast/core/json";
import { systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { type Api, createApi } from "./api.ts";
import { requireNumber, subjectNumber } from "./body-text.ts";
import { MAX_FAILED_LOGS, combineChecks, logTail, requireCommit, unknownCommit } from "./checks.ts";
import {
  type GithubRepository,
  checkAccess,
  commentsOf,
  createIssue,
  findIssue,
  readIssue,
  readRepository,
  repositoryName,
  repositoryPath,
  setLabels,
} from "./github-issues.ts";
import { closePull, createPull, findPull, getPull, mergePull, readReviews, updatePull } from "./github-pulls.ts";
import { addServerComment, deleteServerComment, findServerComment, readServerComments } from "./server-comments.ts";
import { type ServerForgeOptions, type Transport, createHttpTransport, createProgramTransport } from "./transport.ts";

/** GitHub, or a GitHub Enterprise server. */
export function openGithubForge(options: ServerForgeOptions): Forge {
  const { transport, host, owner, name, clock = systemClock, pauseMs } = options;
  const api = createApi({ forge: "GitHub", transport, clock, ...(pauseMs === undefined ? {} : { pauseMs }) });
  const { head = { owner, name } } = options;
  const github: GithubRepository = { api, host, owner, name, head, login: cacheLogin(api) };
  const numbered = async <T>(number: number, work: () => Promise<T>): Promise<T> => {
    requireNumber(number);
    return await work();
  };
  return {
    name: "github",
    location: repositoryName(github),
    lateMs: LATE_MS,
    marked: (mark) => openGithubForge({ ...options, transport: transport.marked(mark) }),
    checkAccess: () => checkAccess(github),
    getIssue: (number) => numbered(number, () => readIssue(github, number)),
    issueComments: (number) => numbered(number, () => readServerComments(commentsOf(github, number))),
    createIssue: async (issue) => await createIssue(github, issue),
    findIssue: async (key) => await findIssue(github, key),
    setLabels: (on, labels) => numbered(subjectNumber(on), () => setLabels(github, subjectNumber(on), labels)),
    findComment: (on, key) =>
      numbered(subjectNumber(on), () => findServerComment(commentsOf(github, subjectNumber(on)), key)),
    comment: (on, comment) =>
      numbered(subjectNumber(on), () => addServerComment(commentsOf(github, subjectNumber(on)), comment)),
    deleteComment: (on, key) =>
      numbered(subjectNumber(on), () => deleteServerComment(commentsOf(github, subjectNumber(on)), key)),
    defaultBranch: async () => (await readRepository(github)).default_branch,
    findPullRequest: (branch) => findPull(github, branch),
    getPullRequest: (number) => numbered(number, () => getPull(github, number)),
    createPullRequest: async (request) => await createPull(github, request),
    updatePullRequest: (number, change) => numbered(number, () => updatePull(github, number, change)),
    closePullRequest: (number) => numbered(number, () => closePull(github, number)),
    mergePullRequest: (number, params) => numbered(number, () => mergePull(github, number, params)),
    checks: async (commit) => await readChecks(github, commit),
    reviews: (number) => numbered(number, () => readReviews(github, number)),
  };
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
