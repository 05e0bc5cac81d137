import * as z from "zod/mini";
import type { CheckRun, Checks } from "../../ports/forge.ts";
import { requireCommit, unknownCommit } from "../asked-commit.ts";
import { checksOf } from "../checks-state.ts";
import { logTail, MOST_LOGS } from "../failed-logs.ts";
import { projectPath, readProject, type GitlabPlace } from "./project.ts";

/** Jobs of pipelines and what other services say, which GitLab has in one list. Pipelines of a fork run in the fork. */
export async function readChecks(place: GitlabPlace, commit: string): Promise<Checks> {
  requireCommit(commit);
  const found = await Promise.all(
    [...new Set([place.head, place.project])].map(async (project) => ({
      project,
      statuses: await place.api.list(`${projectPath(project)}/repository/commits/${commit}/statuses`, STATUS),
    })),
  );
  if (found.every(({ statuses }) => statuses === null)) {
    await readProject(place, place.head);
    throw unknownCommit("GitLab", commit);
  }
  const runs = found.flatMap(({ project, statuses }) => (statuses ?? []).map((status) => ({ project, status })));
  const failed = runs.filter(({ status }) => stateOfStatus(status) === "failed").slice(0, MOST_LOGS);
  const logs = new Map(
    await Promise.all(
      failed.map(async ({ project, status }) => [status.id, await readLog(place, project, status)] as const),
    ),
  );
  return checksOf(runs.map(({ status }) => viewStatus(status, logs.get(status.id) ?? null)));
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

function viewStatus(status: Status, log: string | null): CheckRun {
  const { name, target_url, description } = status;
  const said = [description, log].filter((part) => part !== null && part !== undefined && part !== "");
  return { name, state: stateOfStatus(status), url: target_url ?? null, summary: said.join("\n\n") };
}

/** A status that is not known is no success: somebody has to look. What may fail, and what waits for a person, does not count. */
export function stateOfStatus(status: {
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

/** Of a job: its status has the job's own number. What other services report has no log. */
async function readLog(place: GitlabPlace, project: string, { id, target_url }: Status): Promise<string | null> {
  if (target_url?.includes("/-/jobs/") !== true) return null;
  return await logTail(() => place.api.read(`${projectPath(project)}/jobs/${id}/trace`, z.string()));
}
