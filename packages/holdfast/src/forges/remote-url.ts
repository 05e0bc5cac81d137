/** Where a remote's URL leads: a host and the path of a repository on it. null: to no other machine, or nowhere. */
export function parseRemote(url: string): RemotePlace | null {
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

export interface RemotePlace {
  readonly host: string;
  /** With all the groups that it is in: `team/tools`. */
  readonly owner: string;
  readonly name: string;
}

/** What forges allow in names; nothing that could lead a request elsewhere. */
const SEGMENT = /^[\w.~-]+$/;
