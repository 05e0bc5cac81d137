import { HoldfastError } from "../../core/error.ts";
import type { Forge } from "../../ports/forge.ts";
import { systemClock } from "../../system/clock.ts";
import { createApi } from "../api.ts";
import { requireNumber } from "../require-number.ts";
import type { ServerForgeOptions } from "../server-forge-options.ts";
import { numberOf } from "../subject.ts";
import { readChecks } from "./checks.ts";
import { addComment, findComment } from "./comments.ts";
import { createIssue, findIssue, readIssue } from "./issues.ts";
import { setLabels } from "./labels.ts";
import { mergeRequest } from "./merge.ts";
import { createRequest, findRequest, getRequest, updateRequest } from "./merge-requests.ts";
import { readReviews } from "./reviews.ts";
import { locationOf, readProject, type GitlabPlace } from "./project.ts";

/** GitLab, or a server of one's own. What the port calls a pull request is a merge request here. */
export function openGitlabForge(options: ServerForgeOptions): Forge {
  const { transport, host, owner, name, clock = systemClock, pauseMs } = options;
  const { head = { owner, name } } = options;
  const api = createApi({ forge: "GitLab", transport, clock, ...(pauseMs === undefined ? {} : { pauseMs }) });
  const place: GitlabPlace = { api, host, project: `${owner}/${name}`, head: `${head.owner}/${head.name}` };
  const numbered = async <T>(number: number, work: () => Promise<T>): Promise<T> => {
    requireNumber(number);
    return await work();
  };
  return {
    name: "gitlab",
    location: locationOf(place),
    lateMs: LATE_MS,
    marked: (mark) => openGitlabForge({ ...options, transport: transport.marked(mark) }),
    getIssue: (number) => numbered(number, () => readIssue(place, number)),
    createIssue: async (issue) => await createIssue(place, issue),
    findIssue: async (key) => await findIssue(place, key),
    setLabels: (on, labels) => numbered(numberOf(on), () => setLabels(place, on, labels)),
    findComment: (on, key) => numbered(numberOf(on), () => findComment(place, on, key)),
    comment: (on, comment) => numbered(numberOf(on), () => addComment(place, on, comment)),
    defaultBranch: () => findDefaultBranch(place),
    findPullRequest: (branch) => findRequest(place, branch),
    getPullRequest: (number) => numbered(number, () => getRequest(place, number)),
    createPullRequest: async (request) => await createRequest(place, request),
    updatePullRequest: (number, change) => numbered(number, () => updateRequest(place, number, change)),
    mergePullRequest: (number, params) => numbered(number, () => mergeRequest(place, number, params)),
    checks: async (commit) => await readChecks(place, commit),
    reviews: (number) => numbered(number, () => readReviews(place, number)),
  };
}

async function findDefaultBranch(place: GitlabPlace): Promise<string> {
  const { default_branch: branch } = await readProject(place);
  if (branch !== null && branch !== undefined) return branch;
  throw new HoldfastError({
    code: "FORGE_FAILED",
    message: `${locationOf(place)} has no default branch`,
    hint: "Push a first commit to it.",
    retry: "ask",
  });
}

/** GitLab ends each request after a minute, whoever waits for it. */
const LATE_MS = 62_000;
