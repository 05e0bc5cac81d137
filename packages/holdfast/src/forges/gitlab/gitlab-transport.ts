import { createHttpTransport } from "../http-transport.ts";
import { createProgramTransport } from "../program-transport.ts";
import type { Transport } from "../transport.ts";

/** Through `glab`, which holds the login. */
export function createGlabTransport(params: {
  readonly program: string;
  readonly host: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly timeoutMs?: number;
}): Transport {
  const fix = `Run \`glab auth login --hostname ${params.host}\`, or set GITLAB_TOKEN to a valid token.`;
  return createProgramTransport({ ...params, name: "glab", headers: {}, fix });
}

/** With a token from the environment. */
export function createGitlabTokenTransport(params: {
  readonly host: string;
  readonly token: string;
  readonly root?: string;
  readonly timeoutMs?: number;
}): Transport {
  const { host, token, root = `https://${host}/api/v4` } = params;
  return createHttpTransport({
    root,
    token,
    headers: { authorization: `Bearer ${token}`, "user-agent": "holdfast" },
    fix: `Set GITLAB_TOKEN to a valid token, or install glab and run \`glab auth login --hostname ${host}\`.`,
    ...(params.timeoutMs === undefined ? {} : { timeoutMs: params.timeoutMs }),
  });
}

/** In this order, as `glab` has them. */
export const GITLAB_TOKENS: readonly string[] = ["GITLAB_TOKEN", "GITLAB_ACCESS_TOKEN", "OAUTH_TOKEN"];
