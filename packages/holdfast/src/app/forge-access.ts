import type { DetectedForge } from "../forges/detect-forge.ts";
import {
  createGhTransport,
  createTokenTransport,
  tokenFor,
  tokenVariables,
} from "../forges/github/github-transport.ts";
import { createNoLoginTransport } from "../forges/no-login-transport.ts";
import type { Transport } from "../forges/transport.ts";
import { findProgram } from "../system/probe.ts";

export interface ForgeAccess {
  /** The program that holds the login; or a token of the environment; or neither. */
  readonly way: "program" | "token" | "none";
  readonly transport: Transport;
}

/** `gh` where it is there: it knows the user's login, proxy and certificates. Else a token from the environment. */
export function accessForge(forge: Pick<DetectedForge, "host">, env: NodeJS.ProcessEnv): ForgeAccess {
  const { host } = forge;
  const program = findProgram("gh", env["PATH"] ?? "");
  if (program !== undefined) return { way: "program", transport: createGhTransport({ program, host, env }) };
  const token = tokenFor(host, env);
  if (token === null) {
    const variable = tokenVariables(host)[0];
    const fix = `Install gh and run \`gh auth login --hostname ${host}\`, or set ${variable} to a token.`;
    return { way: "none", transport: createNoLoginTransport({ reason: "there is neither gh nor a token", fix }) };
  }
  const root = actionsRoot(host, env);
  return { way: "token", transport: createTokenTransport({ host, token, ...(root === null ? {} : { root }) }) };
}

/** GitHub Actions says where its API is. Taken only for its own host, and never in the clear but on this machine. */
function actionsRoot(host: string, env: NodeJS.ProcessEnv): string | null {
  const [server, root] = [env["GITHUB_SERVER_URL"] ?? "", (env["GITHUB_API_URL"] ?? "").replace(/\/+$/, "")];
  if (server !== `https://${host}`) return null;
  return /^https:\/\/[^/@]+(?:\/|$)|^http:\/\/127\.0\.0\.1(?::\d+)?(?:\/|$)/.test(root) ? root : null;
}
