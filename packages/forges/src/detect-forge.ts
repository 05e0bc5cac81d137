// Detects the forge and the repository that a remote URL points to.

/** A forge with a server that a remote points to, and the repositories there. */
export interface DetectedForge extends RemoteLocation {
  readonly kind: "github" | "gitlab";
  /** The repository that receives branches: a fork or the same one. */
  readonly head: { readonly owner: string; readonly name: string };
}

/**
 * Returns null if no remote points to a known forge. `kind` and `host` are user settings. Without them, the host name
 * and the variables of gh and glab decide. A remote is checked both as git resolves it and as it is configured, because
 * either may be rewritten.
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
  const isHostIn = (...names: readonly string[]): boolean => names.some((name) => hostOf(env[name] ?? "") === host);
  if (host === "github.com" || host.endsWith(".ghe.com") || isHostIn("GH_HOST", "GITHUB_SERVER_URL")) return "github";
  if (host === "gitlab.com" || isHostIn("GITLAB_HOST", "GL_HOST", "GITLAB_URI", "CI_SERVER_URL")) return "gitlab";
  return host.startsWith("gitlab.") ? "gitlab" : null;
}

/** A fork must be on the same host. */
function headOf(urls: readonly string[], base: RemoteLocation): DetectedForge["head"] | null {
  for (const url of urls) {
    const parsed = parseRemoteUrl(url);
    if (parsed !== null && webHost(parsed.host) === webHost(base.host))
      return { owner: parsed.owner, name: parsed.name };
  }
  return null;
}

/** SSH over the HTTPS port uses other host names. */
function webHost(host: string): string {
  if (host === "ssh.github.com" || host === "www.github.com") return "github.com";
  return host === "altssh.gitlab.com" ? "gitlab.com" : host;
}

/** Some of the variables contain a host, others a URL. */
function hostOf(value: string): string {
  return value
    .replace(/^[a-z]+:\/\//i, "")
    .replace(/[/:].*$/, "")
    .toLowerCase();
}

/** The host and the repository path of a remote URL; null if the URL is local or invalid. */
export function parseRemoteUrl(url: string): RemoteLocation | null {
  const full = /^(?:https?|ssh|git|git\+ssh):\/\/(?:[^/@]*@)?([^/:]+)(?::\d+)?\/(.+)$/i.exec(url);
  // As in git: a colon before any slash means host:path. A single letter is a Windows drive.
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

interface RemoteLocation {
  readonly host: string;
  /** Includes all parent groups, such as `team/tools`. */
  readonly owner: string;
  readonly name: string;
}

/** The characters that forges allow in names. None of them can redirect a request. */
const SEGMENT = /^[\w.~-]+$/;
