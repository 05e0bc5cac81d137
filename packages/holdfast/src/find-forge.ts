/** Finds the forge of a repository (GitHub, GitLab or a local one) and the login for it. */
import { pathToFileURL } from "node:url";
import { findAnyWorktree } from "@holdfast/core/adapters";
import type { Forge } from "@holdfast/core/forge";
import type { Asking, Branches } from "@holdfast/core/branch";
import type { Workspaces } from "@holdfast/core/workspace";
import { type DetectedForge, detectForge } from "@holdfast/forges/detect-forge";
import {
  createGhTransport,
  createGithubTokenTransport,
  githubTokenVariables,
  openGithubForge,
} from "@holdfast/forges/github";
import {
  GITLAB_TOKEN_VARIABLES,
  createGitlabTokenTransport,
  createGlabTransport,
  openGitlabForge,
} from "@holdfast/forges/gitlab";
import { parseLocalRemote } from "@holdfast/forges/local-repository";
import { type Transport, createNoLoginTransport } from "@holdfast/forges/transport";
import { createGitBranches } from "@holdfast/git/branches";
import type { Clock } from "@holdfast/platform/clock";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { findProgram, runProcess } from "@holdfast/platform/subprocess";
import type { ObservedForge } from "./diagnosis.ts";

export interface ForgeChoice {
  /** "auto": detected from the remote. */
  readonly kind: "auto" | "local" | "github" | "gitlab" | "none";
  /** Repository of a local forge; null: the remote. */
  readonly path: string | null;
  /** Host of GitHub or GitLab if the remote's URL does not name it; null: the remote's host. */
  readonly host?: string | null;
}

/** null: there is no forge, by choice or because no remote points to one. */
export async function findForge(params: {
  readonly choice: ForgeChoice;
  readonly workspaces: Workspaces | null;
  readonly branches: Branches;
  readonly clock: Clock;
  readonly env?: NodeJS.ProcessEnv;
}): Promise<Forge | null> {
  const { choice, clock, env = process.env } = params;
  const folder = params.workspaces === null ? null : await findAnyWorktree(params.workspaces);
  const asking = folder === null ? null : await params.branches.asking(folder);
  const place = await locateForge({ choice, folder: folder ?? ".", asking, env });
  switch (place.kind) {
    case "none":
      return null;
    case "local": {
      // Loaded on demand: the local forge reads YAML, and the parser would slow down every start.
      const { openLocalForge } = await import("@holdfast/forges/local");
      return openLocalForge({ repository: place.repository, clock });
    }
    case "server":
      return openServer(place.forge, env, clock);
  }
}

type ForgeSite =
  | { readonly kind: "none" }
  | { readonly kind: "local"; readonly repository: string }
  | { readonly kind: "server"; readonly forge: DetectedForge };

/** Locates the forge without sending it a request. */
async function locateForge(params: {
  readonly choice: ForgeChoice;
  /** Base of relative remote paths. */
  readonly folder: string;
  readonly asking: Pick<Asking, "remote" | "pushRemote"> | null;
  readonly env: NodeJS.ProcessEnv;
}): Promise<ForgeSite> {
  const { choice, asking } = params;
  if (choice.kind === "none") return { kind: "none" };
  const mayBeLocal = choice.kind === "auto" || choice.kind === "local";
  if (choice.path !== null && mayBeLocal) return { kind: "local", repository: choice.path };
  const base = (await asking?.remote()) ?? null;
  const path = base === null ? null : parseLocalRemote(base.url, params.folder);
  if (path !== null && mayBeLocal) return { kind: "local", repository: path };
  if (choice.kind === "local")
    throw usageError(
      "The config sets a local forge, but the remote is not a directory on this machine",
      "Name its repository with forge.path in holdfast.config.yaml.",
    );
  const push = (await asking?.pushRemote()) ?? null;
  const forge = detectForge({
    kind: choice.kind,
    host: choice.host ?? null,
    base: base === null ? [] : [base.url, base.written],
    push: push === null ? [] : [push.url, push.written],
    env: params.env,
  });
  if (forge !== null) return { kind: "server", forge };
  if (choice.kind === "auto") return { kind: "none" };
  throw notThere(choice.kind, base?.url ?? null);
}

function openServer(forge: DetectedForge, env: NodeJS.ProcessEnv, clock: Clock): Forge {
  const { host, owner, name, head } = forge;
  const { transport } = accessForge(forge, env);
  const options = { transport, host, owner, name, head, clock };
  switch (forge.kind) {
    case "github":
      return openGithubForge(options);
    case "gitlab":
      return openGitlabForge(options);
  }
}

function notThere(kind: DetectedForge["kind"], url: string | null): HoldfastError {
  const what = url === null ? "there is no remote" : `the remote ${url} names no repository`;
  return usageError(
    `The config sets the forge ${kind}, but ${what}`,
    `Add a remote such as https://${kind}.com/owner/name; set forge.host in holdfast.config.yaml if the URL does not contain the host.`,
  );
}

interface ForgeAccess {
  /** The program that holds the login, or the variable that holds a token; null: neither exists. */
  readonly way: { readonly kind: "program" | "token"; readonly name: string } | null;
  readonly transport: Transport;
}

/**
 * Prefers the forge's own program because it has the user's login, proxy and certificates. Otherwise uses a token from
 * the environment.
 */
function accessForge(forge: Pick<DetectedForge, "kind" | "host">, env: NodeJS.ProcessEnv): ForgeAccess {
  const { kind, host } = forge;
  const name = PROGRAMS[kind];
  const program = findProgram(name, env["PATH"] ?? "");
  if (program !== undefined) {
    const create = kind === "github" ? createGhTransport : createGlabTransport;
    return { way: { kind: "program", name }, transport: create({ program, host, env }) };
  }
  const variables = kind === "github" ? githubTokenVariables(host) : GITLAB_TOKEN_VARIABLES;
  for (const variable of variables) {
    const token = env[variable]?.trim() ?? "";
    if (token === "") continue;
    const root = rootIn(kind, host, env);
    const create = kind === "github" ? createGithubTokenTransport : createGitlabTokenTransport;
    const transport = create({ host, token, ...(root === null ? {} : { root }) });
    return { way: { kind: "token", name: variable }, transport };
  }
  const fix = `Install ${name} and run \`${name} auth login --hostname ${host}\`, or set ${variables[0]} to a token.`;
  return { way: null, transport: createNoLoginTransport({ reason: `neither ${name} nor a token was found`, fix }) };
}

const PROGRAMS = { github: "gh", gitlab: "glab" } as const;

/**
 * The API root that a CI service announces in the environment. Used only for the service's own host, and without TLS
 * only on this machine.
 */
function rootIn(kind: DetectedForge["kind"], host: string, env: NodeJS.ProcessEnv): string | null {
  const [server, api] =
    kind === "github" ? ["GITHUB_SERVER_URL", "GITHUB_API_URL"] : ["CI_SERVER_URL", "CI_API_V4_URL"];
  const root = (env[api] ?? "").replace(/\/+$/, "");
  if ((env[server] ?? "").replace(/\/+$/, "") !== `https://${host}`) return null;
  return /^https:\/\/[^/@]+(?:\/|$)|^http:\/\/127\.0\.0\.1(?::\d+)?(?:\/|$)/.test(root) ? root : null;
}

export type { ObservedForge };

/** Reports the forge that runs here would use and whether a login for it exists. Sends nothing over the network. */
export async function observeForgeLogin(params: {
  readonly choice: ForgeChoice;
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
}): Promise<ObservedForge | null> {
  const { folder, env } = params;
  try {
    const site = await locateForge({ ...params, asking: await createGitBranches().asking(folder) });
    switch (site.kind) {
      case "none":
        return null;
      case "local":
        return { name: "local", location: pathToFileURL(site.repository).href, login: null, fix: null };
      case "server": {
        const { kind, host, owner, name } = site.forge;
        const at = { name: kind, location: `https://${host}/${owner}/${name}` };
        const { way, transport } = accessForge(site.forge, env);
        const isIn = way !== null && (way.kind === "token" || (await isLoggedIn(way.name, host, env)));
        return { ...at, login: way?.name ?? null, fix: isIn ? null : transport.fix };
      }
    }
  } catch (error) {
    // Not a repository, or an invalid config: other checks report that.
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

/** The programs know this without the network. Their output is ignored because it may contain the token. */
async function isLoggedIn(program: string, host: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  const args = program === "gh" ? ["auth", "token", "--hostname", host] : ["config", "get", "token", "--host", host];
  const { code, stdout } = await runProcess({ command: program, args, env, timeoutMs: 10_000 });
  return code === 0 && stdout.toString("utf8").trim() !== "";
}
