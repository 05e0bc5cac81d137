import { Refused, type Reply } from "../forge-server/exchange.ts";
import { pageOf } from "../forge-server/page.ts";
import { checkRunBody, statusBody } from "./bodies.ts";
import type { Call, Route } from "./route.ts";
import { notFound } from "./world.ts";

export const checkRoutes: readonly Route[] = [
  { method: "GET", path: /^commits\/([0-9a-f]+)\/check-runs$/, run: listCheckRuns },
  { method: "GET", path: /^commits\/([0-9a-f]+)\/status$/, run: combinedStatus },
  { method: "GET", path: /^actions\/jobs\/(\d+)\/logs$/, run: readLog },
];

async function listCheckRuns(call: Call): Promise<Reply> {
  const commit = await requireCommit(call);
  const runs = call.repository.checkRuns.filter((run) => run.commit === commit);
  const page = pageOf(
    call.incoming,
    runs.map((run) => checkRunBody(call.repository, run)),
  );
  return { ...page, body: { total_count: runs.length, check_runs: page.items } };
}

async function combinedStatus(call: Call): Promise<Reply> {
  const commit = await requireCommit(call);
  const statuses = call.repository.statuses.filter((status) => status.commit === commit);
  const newest = new Map(statuses.map((status) => [status.context, status]));
  const page = pageOf(call.incoming, [...newest.values()].map(statusBody));
  // With no status at all GitHub says "pending", which means nothing.
  return { ...page, body: { state: "pending", total_count: newest.size, statuses: page.items } };
}

async function readLog({ repository, match }: Call): Promise<Reply> {
  const log = repository.logs.get(Number(match[1]));
  if (log === undefined) throw notFound();
  return { status: 200, body: log };
}

async function requireCommit({ repository, match }: Call): Promise<string> {
  const commit = match[1] ?? "";
  if (await repository.bare.hasCommit(commit)) return commit;
  throw new Refused({ status: 422, body: { message: `No commit found for SHA: ${commit}` } });
}
