import { HoldfastError } from "../../core/error.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Forge } from "../../ports/forge.ts";
import { systemClock } from "../../system/clock.ts";
import { createApi } from "../api.ts";
import { requireNumber } from "../require-number.ts";
import type { Transport } from "../transport.ts";
import { readChecks } from "./checks.ts";
import { addComment, findComment } from "./comments.ts";
import { createIssue, findIssue, readIssue, setLabels } from "./issues.ts";
import { mergeRequest } from "./merge.ts";
import { createRequest, findRequest, getRequest, updateRequest } from "./merge-requests.ts";
import { locationOf, readProject, type GitlabPlace } from "./project.ts";

export interface GitlabForgeOptions {
  readonly transport: Transport;
  readonly host: string;
  /** Where issues and merge requests live. */
  readonly owner: string;
  readonly name: string;
  /** Where branches are pushed to, when that is a fork. */
  readonly head?: { readonly owner: string; readonly name: string };
  readonly clock?: Clock;
  /** Before a read is tried again. */
  readonly pauseMs?: number;
}

/** GitLab, or a server of one's own. What the port calls a pull request is a merge request here. */
export function openGitlabForge(options: GitlabForgeOptions): Forge {
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
    getIssue: (number) => numbered(number, () => readIssue(place, number)),
    createIssue: async (issue) => await createIssue(place, issue),
    findIssue: async (key) => await findIssue(place, key),
    setLabels: (number, labels) => numbered(number, () => setLabels(place, number, labels)),
    findComment: (number, key) => numbered(number, () => findComment(place, number, key)),
    comment: (number, comment) => numbered(number, () => addComment(place, number, comment)),
    defaultBranch: () => findDefaultBranch(place),
    findPullRequest: (branch) => findRequest(place, branch),
    getPullRequest: (number) => numbered(number, () => getRequest(place, number)),
    createPullRequest: async (request) => await createRequest(place, request),
    updatePullRequest: (number, change) => numbered(number, () => updateRequest(place, number, change)),
    mergePullRequest: (number, params) => numbered(number, () => mergeRequest(place, number, params)),
    checks: async (commit) => await readChecks(place, commit),
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
