import type { Incoming, Reply } from "../forge-server/exchange.ts";
import { follow } from "../forge-server/route.ts";
import { startForgeServer, type ForgeServer } from "../forge-server/forge-server.ts";
import { repositoryBody } from "./bodies.ts";
import { checkRoutes } from "./check-routes.ts";
import { answerGraph } from "./graphql.ts";
import { issueRoutes } from "./issue-routes.ts";
import { pullRoutes } from "./pull-routes.ts";
import type { Route } from "./route.ts";
import { notFound, World } from "./world.ts";

export interface GithubServer extends ForgeServer {
  readonly world: World;
}

/**
 * GitHub on loopback: its REST API as far as Holdfast goes, and its GraphQL as far as the usual commands of `gh` go, on real bare
 * repositories that are also served to git. Under `/`, as
 * api.github.com has it, and under `/api/v3/`, as an Enterprise server has it.
 */
export async function startGithubServer(): Promise<GithubServer> {
  const world = new World();
  const server = await startForgeServer({
    handle: (incoming) => handle(world, incoming),
    bareOf: (name) => world.repositories.get(name.toLowerCase())?.bare.path ?? null,
  });
  return { ...server, world };
}

const ROUTES: readonly Route[] = [...issueRoutes, ...pullRoutes, ...checkRoutes];

async function handle(world: World, incoming: Incoming): Promise<Reply> {
  const login = world.requireLogin(incoming, "Bad credentials");
  const path = incoming.path.replace(/^\/(?:api\/v3\/)?/, "");
  if (/^(?:api\/)?graphql$/.test(path))
    return await answerGraph({ world, login, incoming, rest: (inner) => handle(world, inner) });
  if (path === "user") return { status: 200, body: { login } };
  const [, owner, name, rest = ""] = /^repos\/([^/]+)\/([^/]+)(?:\/(.+))?$/.exec(path) ?? [];
  if (owner === undefined || name === undefined) throw notFound();
  const repository = world.require(owner, name);
  if (rest === "" && incoming.method === "GET") return { status: 200, body: await repositoryBody(repository) };
  const reply = await follow(ROUTES, rest, { world, repository, incoming, login });
  if (reply === null) throw notFound();
  return reply;
}
