import type { Forge } from "../../ports/forge.ts";
import { systemClock } from "../../system/clock.ts";
import { createApi } from "../api.ts";
import { requireNumber } from "../require-number.ts";
import type { ServerForgeOptions } from "../server-forge-options.ts";
import { numberOf } from "../subject.ts";
import { readChecks } from "./checks.ts";
import { addComment, findComment } from "./comments.ts";
import { createIssue, findIssue, readIssue, setLabels } from "./issues.ts";
import { mergePull } from "./merge-pull.ts";
import { rememberLogin } from "./own-login.ts";
import { createPull, findPull, getPull, updatePull } from "./pulls.ts";
import { readReviews } from "./reviews.ts";
import { locationOf, readRepository, type GithubPlace } from "./repository.ts";

/** GitHub, or an Enterprise server of one's own. */
export function openGithubForge(options: ServerForgeOptions): Forge {
  const { transport, host, owner, name, clock = systemClock, pauseMs } = options;
  const api = createApi({ forge: "GitHub", transport, clock, ...(pauseMs === undefined ? {} : { pauseMs }) });
  const { head = { owner, name } } = options;
  const place: GithubPlace = { api, host, owner, name, head, login: rememberLogin(api) };
  const numbered = async <T>(number: number, work: () => Promise<T>): Promise<T> => {
    requireNumber(number);
    return await work();
  };
  return {
    name: "github",
    location: locationOf(place),
    lateMs: LATE_MS,
    marked: (mark) => openGithubForge({ ...options, transport: transport.marked(mark) }),
    getIssue: (number) => numbered(number, () => readIssue(place, number)),
    createIssue: async (issue) => await createIssue(place, issue),
    findIssue: async (key) => await findIssue(place, key),
    setLabels: (on, labels) => numbered(numberOf(on), () => setLabels(place, numberOf(on), labels)),
    findComment: (on, key) => numbered(numberOf(on), () => findComment(place, numberOf(on), key)),
    comment: (on, comment) => numbered(numberOf(on), () => addComment(place, numberOf(on), comment)),
    defaultBranch: async () => (await readRepository(place)).default_branch,
    findPullRequest: (branch) => findPull(place, branch),
    getPullRequest: (number) => numbered(number, () => getPull(place, number)),
    createPullRequest: async (request) => await createPull(place, request),
    updatePullRequest: (number, change) => numbered(number, () => updatePull(place, number, change)),
    mergePullRequest: (number, params) => numbered(number, () => mergePull(place, number, params)),
    checks: async (commit) => await readChecks(place, commit),
    reviews: (number) => numbered(number, () => readReviews(place, number)),
  };
}

/** GitHub ends each request after ten seconds, whoever waits for it. */
const LATE_MS = 12_000;
