/** A forge with a server that a remote leads to, and the repositories there. */
export interface DetectedForge extends RemotePlace {
  readonly kind: "github" | "gitlab";
  /** Where branches are pushed to: a fork, or the same repository. */
  readonly head: { readonly owner: string; readonly name: string };
}

/**
 * null: no remote leads to a forge that is known. `kind` and `host` are what the user says; where they say nothing, the host's name and
 * the variables of the forges' own programs tell. A remote is looked at both as git uses it and as it is written: either may be the
 * rewritten one.
 */
export function detectForge(params: {
  readonly kind: "auto" | "github" | "gitlab";
  readonly host: string | null;
  readonly base: readonly string[];
  readonly push: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}): DetectedForge | null {
  for (const url of params.base) {
    const parsed = parseRemoteUrl(url);
    if (parsed === null) continue;
    const host = params.host ?? webHost(parsed.host);
    const kind = params.kind === "auto" ? kindOf(host, params.env) : params.kind;
    if (kind === null || (kind === "github" && parsed.owner.includes("/"))) continue;
    const { owner, name } = parsed;
    return { kind, host, owner, name, head: headOf(params.push, parsed) ?? { owner, name } };
  }
  return null;
}

function kindOf(host: string, env: Readonly<Record<string, string | undefined>>): DetectedForge["kind"] | null {
  const said = (...names: readonly string[]): boolean => names.some((name) => hostOf(env[name] ?? "") === host);
  if (host === "github.com" || host.endsWith(".ghe.com") || said("GH_HOST", "GITHUB_SERVER_URL")) return "github";
  if (host === "gitlab.com" || said("GITLAB_HOST", "GL_HOST", "GITLAB_URI", "CI_SERVER_URL")) return "gitlab";
  return host.startsWith("gitlab.") ? "gitlab" : null;
}

/** Only on the same host can it be a fork. */
function headOf(urls: readonly string[], base: RemotePlace): DetectedForge["head"] | null {
  for (const url of urls) {
    const parsed = parseRemoteUrl(url);
    if (parsed !== null && webHost(parsed.host) === webHost(base.host))
      return { owner: parsed.owner, name: parsed.name };
  }
  return null;
}

/** SSH over the port of HTTPS has names of its own. */
function webHost(host: string): string {
  if (host === "ssh.github.com" || host === "www.github.com") return "github.com";
  return host === "altssh.gitlab.com" ? "gitlab.com" : host;
}

/** Some of the variables hold a host, some a URL. */
function hostOf(value: string): string {
  return value
    .replace(/^[a-z]+:\/\//i, "")
    .replace(/[/:].*$/, "")
    .toLowerCase();
}

/** Where a remote's URL leads: a host and the path of a repository on it. null: to no other machine, or nowhere. */
export function parseRemoteUrl(url: string): RemotePlace | null {
  const full = /^(?:https?|ssh|git|git\+ssh):\/\/(?:[^/@]*@)?([^/:]+)(?::\d+)?\/(.+)$/i.exec(url);
  // As git decides: a colon before any slash is host:path. One letter is a drive of Windows.
  const short = full === null ? /^(?:[^/@:]+@)?([^/@:]{2,}):(?!\/\/)\/?(.+)$/.exec(url) : null;
  const [, host, path] = full ?? short ?? [];
  if (host === undefined || path === undefined) return null;
  const parts = path
    .replace(/[?#].*$/, "")
    .replace(/\/+$/, "")
    .replace(/\.git$/i, "")
    .split("/")
    .filter((part) => part !== "");
  const name = parts.at(-1);
  if (name === undefined || parts.length < 2 || parts.some((part) => !SEGMENT.test(part) || /^\.+$/.test(part)))
    return null;
  return { host: host.toLowerCase(), owner: parts.slice(0, -1).join("/"), name };
}

interface RemotePlace {
  readonly host: string;
  /** With all the groups that it is in: `team/tools`. */
  readonly owner: string;
  readonly name: string;
}

/** What forges allow in names; nothing that could lead a request elsewhere. */
const SEGMENT = /^[\w.~-]+$/;
