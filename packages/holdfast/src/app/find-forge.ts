import { HoldfastError } from "../core/error.ts";
import { anyFolder } from "../engine/save/any-folder.ts";
import { detectForge, type DetectedForge } from "../forges/detect-forge.ts";
import { openGithubForge } from "../forges/github/github-forge.ts";
import { openGitlabForge } from "../forges/gitlab/gitlab-forge.ts";
import { localPathOf } from "../forges/local/forge-place.ts";
import type { Asking, Branches } from "../ports/branch.ts";
import type { Clock } from "../ports/clock.ts";
import type { Forge } from "../ports/forge.ts";
import type { Workspaces } from "../ports/workspace.ts";
import { accessForge } from "./forge-access.ts";

export interface ForgeChoice {
  /** "auto": told from the remote. */
  readonly kind: "auto" | "local" | "github" | "gitlab" | "none";
  /** Repository of a local forge; null: the remote. */
  readonly path: string | null;
  /** Of GitHub or GitLab, where the remote's URL does not tell it; null: the remote's. */
  readonly host?: string | null;
}

/** null: there is none, by choice or because no remote tells of one. */
export async function findForge(params: {
  readonly choice: ForgeChoice;
  readonly workspaces: Workspaces | null;
  readonly branches: Branches;
  readonly clock: Clock;
  readonly env?: NodeJS.ProcessEnv;
}): Promise<Forge | null> {
  const { choice, clock, env = process.env } = params;
  const folder = params.workspaces === null ? null : await anyFolder(params.workspaces);
  const asking = folder === null ? null : await params.branches.asking(folder);
  const place = await locateForge({ choice, folder: folder ?? ".", asking, env });
  switch (place.kind) {
    case "none":
      return null;
    case "local": {
      // Not before one is needed: it reads YAML, and the parser would cost every start.
      const { openLocalForge } = await import("../forges/local/local-forge.ts");
      return openLocalForge({ repository: place.repository, clock });
    }
    case "server":
      return openServer(place.forge, env, clock);
  }
}

export type ForgeSite =
  | { readonly kind: "none" }
  | { readonly kind: "local"; readonly repository: string }
  | { readonly kind: "server"; readonly forge: DetectedForge };

/** Where the forge is, without asking it anything. */
export async function locateForge(params: {
  readonly choice: ForgeChoice;
  /** Relative remotes start here. */
  readonly folder: string;
  readonly asking: Pick<Asking, "remote" | "pushRemote"> | null;
  readonly env: NodeJS.ProcessEnv;
}): Promise<ForgeSite> {
  const { choice, asking } = params;
  if (choice.kind === "none") return { kind: "none" };
  const mayBeLocal = choice.kind === "auto" || choice.kind === "local";
  if (choice.path !== null && mayBeLocal) return { kind: "local", repository: choice.path };
  const base = (await asking?.remote()) ?? null;
  const path = base === null ? null : localPathOf(base.url, params.folder);
  if (path !== null && mayBeLocal) return { kind: "local", repository: path };
  if (choice.kind === "local") throw notLocal();
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

function notLocal(): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: "The forge is said to be local, but the remote is no directory of this machine",
    hint: "Name its repository with forge.path in holdfast.config.yaml.",
  });
}

function notThere(kind: DetectedForge["kind"], url: string | null): HoldfastError {
  const what = url === null ? "there is no remote" : `the remote ${url} names no repository`;
  return new HoldfastError({
    code: "USAGE",
    message: `The forge is said to be ${kind}, but ${what}`,
    hint: `Add a remote such as https://${kind}.com/owner/name; forge.host in holdfast.config.yaml is for a host that its URL hides.`,
  });
}
