import { createHttpTransport } from "../http-transport.ts";
import { createProgramTransport } from "../program-transport.ts";
import type { Transport } from "../transport.ts";

/** Through `gh`, which holds the login. */
export function createGhTransport(params: {
  readonly program: string;
  readonly host: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly timeoutMs?: number;
}): Transport {
  const { host } = params;
  const fix = `Run \`gh auth login --hostname ${host}\`, or set ${tokenVariables(host)[0]} to a valid token.`;
  return createProgramTransport({ ...params, name: "gh", headers: HEADERS, fix });
}

/** With a token from the environment. */
export function createTokenTransport(params: {
  readonly host: string;
  readonly token: string;
  /** Default: where GitHub has its API for this host. */
  readonly root?: string;
  readonly timeoutMs?: number;
}): Transport {
  const { host, token, root = apiRoot(host) } = params;
  return createHttpTransport({
    root,
    token,
    headers: { ...HEADERS, authorization: `Bearer ${token}`, "user-agent": "holdfast" },
    fix: `Set ${tokenVariables(host)[0]} to a valid token, or install gh and run \`gh auth login --hostname ${host}\`.`,
    ...(params.timeoutMs === undefined ? {} : { timeoutMs: params.timeoutMs }),
  });
}

/** github.com and its tenants have an API host of their own, an Enterprise server has it below a path. */
export function apiRoot(host: string): string {
  if (host === "github.com" || host.endsWith(".ghe.com")) return `https://api.${host}`;
  return `https://${host}/api/v3`;
}

/** In this order, as `gh` has them. */
export function tokenVariables(host: string): readonly string[] {
  return host === "github.com" || host.endsWith(".ghe.com")
    ? ["GH_TOKEN", "GITHUB_TOKEN"]
    : ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"];
}

const HEADERS = { accept: "application/vnd.github+json", "x-github-api-version": "2022-11-28" };
