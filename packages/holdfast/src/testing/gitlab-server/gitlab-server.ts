import type { Incoming, Reply } from "../forge-server/exchange.ts";
import { follow } from "../forge-server/route.ts";
import { startForgeServer, type ForgeServer } from "../forge-server/forge-server.ts";
import { issueRoutes } from "./issue-routes.ts";
import { notFound, Projects, type GitlabRoute } from "./projects.ts";
import { repositoryRoutes } from "./repository-routes.ts";
import { requestRoutes } from "./request-routes.ts";

export interface GitlabServer extends ForgeServer {
  readonly projects: Projects;
}

/** GitLab on loopback: its REST API as far as Holdfast goes, on real bare repositories that are also served to git. */
export async function startGitlabServer(): Promise<GitlabServer> {
  const projects = new Projects();
  const server = await startForgeServer({
    handle: (incoming) => handle(projects, incoming),
    bareOf: (name) => projects.all.find(({ path }) => path === name)?.bare.path ?? null,
  });
  return { ...server, projects };
}

const ROUTES: readonly GitlabRoute[] = [...issueRoutes, ...requestRoutes, ...repositoryRoutes];

async function handle(projects: Projects, incoming: Incoming): Promise<Reply> {
  const login = projects.requireLogin(incoming, "401 Unauthorized");
  const [, name = "", rest = ""] = /^\/api\/v4\/projects\/([^/]+)(?:\/(.+))?$/.exec(incoming.path) ?? [];
  const project = projects.require(decodeURIComponent(name));
  if (rest === "" && incoming.method === "GET") {
    const { id, path } = project;
    return { status: 200, body: { id, path_with_namespace: path, default_branch: await project.bare.head() } };
  }
  const reply = await follow(ROUTES, rest, { projects, project, incoming, login });
  if (reply === null) throw notFound("Route");
  return reply;
}
