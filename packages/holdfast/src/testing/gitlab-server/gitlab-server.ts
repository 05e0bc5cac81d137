import { Refused, type Incoming, type Reply } from "../forge-server/exchange.ts";
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
  const login = requireLogin(projects, incoming);
  const [, name = "", rest = ""] = /^\/api\/v4\/projects\/([^/]+)(?:\/(.+))?$/.exec(incoming.path) ?? [];
  const project = projects.require(decodeURIComponent(name));
  if (rest === "" && incoming.method === "GET") {
    const { id, path } = project;
    return { status: 200, body: { id, path_with_namespace: path, default_branch: await project.bare.head() } };
  }
  for (const route of ROUTES) {
    const match = route.method === incoming.method ? route.path.exec(rest) : null;
    if (match !== null) return await route.run({ projects, project, incoming, login, match });
  }
  throw notFound("Route");
}

function requireLogin(projects: Projects, { headers }: Incoming): string {
  const [, bearer] = /^bearer (.+)$/i.exec(headers["authorization"] ?? "") ?? [];
  const known = projects.tokens.get(bearer ?? headers["private-token"] ?? "");
  if (known !== undefined) return known.login;
  throw new Refused({ status: 401, body: { message: "401 Unauthorized" } });
}
