import type { DetectedForge } from "../forges/detect-forge.ts";
import { createGhTransport, createTokenTransport, tokenVariables } from "../forges/github/github-transport.ts";
import { createGitlabTokenTransport, createGlabTransport, GITLAB_TOKENS } from "../forges/gitlab/gitlab-transport.ts";
import { createNoLoginTransport } from "../forges/no-login-transport.ts";
import type { Transport } from "../forges/transport.ts";
import { findProgram } from "../system/probe.ts";

export interface ForgeAccess {
  /** The program that holds the login, or the variable of a token; null: neither is there. */
  readonly way: { readonly kind: "program" | "token"; readonly name: string } | null;
  readonly transport: Transport;
}

/** The forge's own program where it is there: it knows the user's login, proxy and certificates. Else a token from the environment. */
export function accessForge(forge: Pick<DetectedForge, "kind" | "host">, env: NodeJS.ProcessEnv): ForgeAccess {
  const { kind, host } = forge;
  const name = PROGRAMS[kind];
  const program = findProgram(name, env["PATH"] ?? "");
  if (program !== undefined) {
    const create = kind === "github" ? createGhTransport : createGlabTransport;
    return { way: { kind: "program", name }, transport: create({ program, host, env }) };
  }
  const variables = kind === "github" ? tokenVariables(host) : GITLAB_TOKENS;
  for (const variable of variables) {
    const token = env[variable]?.trim() ?? "";
    if (token === "") continue;
    const root = rootIn(kind, host, env);
    const create = kind === "github" ? createTokenTransport : createGitlabTokenTransport;
    const transport = create({ host, token, ...(root === null ? {} : { root }) });
    return { way: { kind: "token", name: variable }, transport };
  }
  const fix = `Install ${name} and run \`${name} auth login --hostname ${host}\`, or set ${variables[0]} to a token.`;
  return { way: null, transport: createNoLoginTransport({ reason: `there is neither ${name} nor a token`, fix }) };
}

const PROGRAMS = { github: "gh", gitlab: "glab" } as const;

/** A CI service says where its own API is. Taken only for its own host, and never in the clear but on this machine. */
function rootIn(kind: DetectedForge["kind"], host: string, env: NodeJS.ProcessEnv): string | null {
  const [server, api] =
    kind === "github" ? ["GITHUB_SERVER_URL", "GITHUB_API_URL"] : ["CI_SERVER_URL", "CI_API_V4_URL"];
  const root = (env[api] ?? "").replace(/\/+$/, "");
  if ((env[server] ?? "").replace(/\/+$/, "") !== `https://${host}`) return null;
  return /^https:\/\/[^/@]+(?:\/|$)|^http:\/\/127\.0\.0\.1(?::\d+)?(?:\/|$)/.test(root) ? root : null;
}
