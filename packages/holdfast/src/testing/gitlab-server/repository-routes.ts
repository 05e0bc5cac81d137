import type { Reply } from "../forge-server/exchange.ts";
import { pageOf } from "../forge-server/page.ts";
import { notFound, type GitlabCall, type GitlabRoute } from "./projects.ts";

export const repositoryRoutes: readonly GitlabRoute[] = [
  { method: "GET", path: /^repository\/branches\/([^/]+)$/, run: readBranch },
  { method: "GET", path: /^repository\/compare$/, run: compare },
  { method: "GET", path: /^repository\/commits\/([0-9a-f]+)\/statuses$/, run: listStatuses },
  { method: "GET", path: /^jobs\/(\d+)\/trace$/, run: readTrace },
];

async function readBranch({ project, match }: GitlabCall): Promise<Reply> {
  const name = decodeURIComponent(match[1] ?? "");
  const id = await project.bare.tip(name);
  if (id === null) throw notFound("Branch");
  return { status: 200, body: { name, commit: { id } } };
}

async function compare({ project, incoming }: GitlabCall): Promise<Reply> {
  const [from, to] = await Promise.all(["from", "to"].map((name) => project.bare.tip(incoming.query.get(name) ?? "")));
  if (from === null || to === null || from === undefined || to === undefined) throw notFound("Ref");
  return { status: 200, body: { commits: (await project.bare.isAncestor(to, from)) ? [] : [{ id: to }] } };
}

async function listStatuses({ project, match, incoming }: GitlabCall): Promise<Reply> {
  const commit = match[1] ?? "";
  if (!(await project.bare.hasCommit(commit))) throw notFound("Commit");
  const found = project.statuses.filter((status) => status.commit === commit);
  return pageOf(
    incoming,
    found.map(({ id, name, status, description, isJob, allowFailure }) => ({
      id,
      name,
      status,
      description,
      allow_failure: allowFailure,
      target_url: isJob ? `https://gitlab.com/${project.path}/-/jobs/${id}` : null,
    })),
  );
}

async function readTrace({ project, match }: GitlabCall): Promise<Reply> {
  const trace = project.traces.get(Number(match[1]));
  if (trace === undefined) throw notFound("Job");
  return { status: 200, body: trace };
}
