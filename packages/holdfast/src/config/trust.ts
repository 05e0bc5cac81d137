/**
 * Stores which settings of which repository the user has consented to: one file per repository, outside every
 * repository, readable and writable by the user alone.
 */
import { chmodSync, readFileSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { asRecord, sha256 } from "@holdfast/core/json";
import { makeDurableDirectory, readRegularFile, removeDurable, writeDurable, xdgHome } from "@holdfast/platform/files";

/** One item that the user has consented to. */
export interface Grant {
  readonly digest: string;
  readonly key: string;
  /** ISO time at which the user consented. */
  readonly at: string;
}

export interface TrustFile {
  /** The git directory that all worktrees of the repository share, or the directory itself outside a repository. */
  readonly repository: string;
  readonly grants: readonly Grant[];
}

type Env = Readonly<Record<string, string | undefined>>;

export function readTrust(env: Env, repository: string): TrustFile {
  return { repository, grants: readGrants(placeOf(env, repository), repository) };
}

/** Adds grants. Earlier grants are kept, so that going back to an older commit does not ask again. */
export function grantTrust(env: Env, repository: string, grants: readonly Grant[]): void {
  const known = readTrust(env, repository).grants.filter(({ digest }) => !grants.some((one) => one.digest === digest));
  const path = placeOf(env, repository);
  makeDurableDirectory(dirname(path));
  // Another program may have created the directory with access for other users.
  chmodSync(dirname(path), 0o700);
  const text = JSON.stringify({ version: 1, repository, grants: [...known, ...grants] }, null, 2);
  writeDurable({ path, data: Buffer.from(`${text}\n`), mode: "replace" });
}

/** Returns how many grants there were. */
export function revokeTrust(env: Env, repository: string): number {
  const path = placeOf(env, repository);
  const { length } = readTrust(env, repository).grants;
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) removeDurable(path);
  return length;
}

export function listTrust(env: Env): readonly TrustFile[] {
  const directory = trustDirectory(env);
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  return readdirSync(directory)
    .filter((name) => name.endsWith(".json"))
    .toSorted()
    .flatMap((name) => {
      const path = join(directory, name);
      const repository = parse(path)["repository"];
      if (typeof repository !== "string" || basename(placeOf(env, repository)) !== name) return [];
      return [{ repository, grants: readGrants(path, repository) }];
    });
}

/** `$XDG_STATE_HOME/holdfast/trust`, else `~/.local/state/holdfast/trust`. */
function trustDirectory(env: Env): string {
  return join(xdgHome(env, "XDG_STATE_HOME"), "holdfast/trust");
}

/** The key of a consent: the git directory that all worktrees share. Reads only files and does not start git. */
export function trustKey(root: string): string {
  const real = realpathSync.native(root);
  const dot = join(real, ".git");
  const stat = statSync(dot, { throwIfNoEntry: false });
  if (stat?.isDirectory() === true) return realpathSync.native(dot);
  if (stat?.isFile() !== true) return real;
  // A worktree's `.git` file points at its git directory. That directory must point back, otherwise the file is not one
  // of its worktrees.
  const named = /^gitdir: (.+)$/m.exec(readFileSync(dot, "utf8"))?.[1];
  if (named === undefined) return real;
  const own = resolve(real, named);
  try {
    if (realpathSync.native(readFileSync(join(own, "gitdir"), "utf8").trim()) !== realpathSync.native(dot)) return real;
    return realpathSync.native(resolve(own, readFileSync(join(own, "commondir"), "utf8").trim()));
  } catch {
    return real;
  }
}

function placeOf(env: Env, repository: string): string {
  return join(trustDirectory(env), `${sha256(repository).slice(0, 32)}.json`);
}

/** A record that other users could have written, or that does not parse, grants nothing. */
function readGrants(path: string, repository: string): readonly Grant[] {
  const document = parse(path);
  if (document["version"] !== 1 || document["repository"] !== repository) return [];
  const grants = Array.isArray(document["grants"]) ? document["grants"] : [];
  return grants
    .map(asRecord)
    .flatMap(({ digest, key, at }) =>
      typeof digest === "string" && typeof key === "string" && typeof at === "string" ? [{ digest, key, at }] : [],
    );
}

function parse(path: string): Readonly<Record<string, unknown>> {
  try {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat === undefined || (stat.mode & 0o022) !== 0) return {};
    if (process.getuid !== undefined && stat.uid !== process.getuid()) return {};
    const file = readRegularFile({ path, maxBytes: 4_000_000 });
    return file.kind === "read" ? asRecord(JSON.parse(file.bytes.toString("utf8"))) : {};
  } catch {
    return {};
  }
}
