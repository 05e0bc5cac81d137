// The GitLab forge: its two transports and checks of commits.

import * as z from "zod/mini";
import type { CheckRun, Checks, Forge } from "@holdfast/core/forge";
import { systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { createApi } from "./api.ts";
import { requireNumber, subjectNumber } from "./body-text.ts";
import { MAX_FAILED_LOGS, combineChecks, logTail, requireCommit, unknownCommit } from "./checks.ts";
import {
  type GitlabProject,
  commentsOf,
  createIssue,
  findIssue,
  projectName,
  projectPath,
  readIssue,
  readProject,
  setLabels,
} from "./gitlab-issues.ts";
import {
  closeMergeRequest,
  createMergeRequest,
  findMergeRequest,
  getMergeRequest,
  mergeMergeRequest,
  readReviews,
  updateMergeRequest,
} from "./gitlab-merge-requests.ts";
import { addServerComment, deleteServerComment, findServerComment, readServerComments } from "./server-comments.ts";
import { type ServerForgeOptions, type Transport, createHttpTransport, createProgramTransport } from "./transport.ts";

/** GitLab, or a self-hosted server. Pull requests of the Forge interface are merge requests here. */
export function openGitlabForge(options: ServerForgeOptions): Forge {
  const { transport, host, owner, name, clock = systemClock, pauseMs } = options;
  const { head = { owner, name } } = options;
  const api = createApi({ forge: "GitLab", transport, clock, ...(pauseMs === undefined ? {} : { pauseMs }) });
  const gitlab: GitlabProject = { api, host, project: `${owner}/${name}`, head: `${head.owner}/${head.name}` };
  const numbered = async <T>(number: number, work: () => Promise<T>): Promise<T> => {
    requireNumber(number);
    return await work();
  };
  return {
    name: "gitlab",
    location: projectName(gitlab),
    lateMs: LATE_MS,
    marked: (mark) => openGitlabForge({ ...options, transport: transport.marked(mark) }),
    checkAccess: async () => void (await readProject(gitlab)),
    getIssue: (number) => numbered(number, () => readIssue(gitlab, number)),
    issueComments: (number) => numbered(number, () => readServerComments(commentsOf(gitlab, number))),
    createIssue: async (issue) => await createIssue(gitlab, issue),
    findIssue: async (key) => await findIssue(gitlab, key),
    setLabels: (on, labels) => numbered(subjectNumber(on), () => setLabels(gitlab, on, labels)),
    findComment: (on, key) => numbered(subjectNumber(on), () => findServerComment(commentsOf(gitlab, on), key)),
    comment: (on, comment) => numbered(subjectNumber(on), () => addServerComment(commentsOf(gitlab, on), comment)),
    deleteComment: (on, key) => numbered(subjectNumber(on), () => deleteServerComment(commentsOf(gitlab, on), key)),
    defaultBranch: () => findDefaultBranch(gitlab),
    findPullRequest: (branch) => findMergeRequest(gitlab, branch),
    getPullRequest: (number) => numbered(number, () => getMergeRequest(gitlab, number)),
    createPullRequest: async (request) => await createMergeRequest(gitlab, request),
    updatePullRequest: (number, change) => numbered(number, () => updateMergeRequest(gitlab, number, change)),
    closePullRequest: (number) => numbered(number, () => closeMergeRequest(gitlab, number)),
    mergePullRequest: (number, params) => numbered(number, () => mergeMergeRequest(gitlab, number, params)),
    checks: async (commit) => await readChecks(gitlab, commit),
    reviews: (number) => numbered(number, () => readReviews(gitlab, number)),
  };
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
