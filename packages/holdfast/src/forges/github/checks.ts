import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Checks } from "../../ports/forge.ts";
import { requireCommit, unknownCommit } from "../asked-commit.ts";
import { checksOf } from "../checks-state.ts";
import { logTail, MOST_LOGS } from "../failed-logs.ts";
import { readRepository, repositoryPath, type GithubPlace } from "./repository.ts";
import { CHECK_RUN, STATUS, stateOfRun, viewCheckRun, viewStatus } from "./view-check.ts";

/** Check runs and commit statuses: older services write only those, and a commit is good when both say so. */
export async function readChecks(place: GithubPlace, commit: string): Promise<Checks> {
  requireCommit(commit);
  const path = `${repositoryPath(place)}/commits/${commit}`;
  const [runs, statuses] = await Promise.all([
    listCheckRuns(place, path),
    place.api.list(`${path}/status`, STATUS, (page) => fieldOf(page, "statuses")),
  ]);
  if (runs === null || statuses === null) {
    await readRepository(place);
    throw unknownCommit("GitHub", commit);
  }
  const failed = runs.filter((run) => stateOfRun(run) === "failed").slice(0, MOST_LOGS);
  const logs = new Map(await Promise.all(failed.map(async (run) => [run.id, await readLog(place, run)] as const)));
  return checksOf([...runs.map((run) => viewCheckRun(run, logs.get(run.id) ?? null)), ...statuses.map(viewStatus)]);
}

/**
 * Fine-grained tokens are never let in here, whatever they were given. The jobs of Actions could be read in another way, but not what other
 * apps say, and half of the checks must not pass for all of them.
 */
async function listCheckRuns(place: GithubPlace, path: string): Promise<readonly z.infer<typeof CHECK_RUN>[] | null> {
  try {
    return await place.api.list(`${path}/check-runs?filter=latest`, CHECK_RUN, (page) => fieldOf(page, "check_runs"));
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

/** Of a job of GitHub Actions: its check run has the job's own number, and says itself nothing about why it failed. */
async function readLog(place: GithubPlace, run: z.infer<typeof CHECK_RUN>): Promise<string | null> {
  if (run.app?.slug !== "github-actions") return null;
  return await logTail(() => place.api.read(`${repositoryPath(place)}/actions/jobs/${run.id}/logs`, z.string()));
}

function fieldOf(page: Parameters<typeof isJsonObject>[0], name: string): unknown {
  return isJsonObject(page) ? page[name] : undefined;
}
