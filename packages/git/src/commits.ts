// Reads, writes and merges commit objects, and determines author and committer.

import type { GitPath } from "@holdfast/core/checkpoint";
import { usageError } from "@holdfast/platform/error";
import { gitError, gitIdentity } from "@holdfast/platform/git-command";
import type { BranchContext } from "./branch-refs.ts";
import { quotePath, splitRecords } from "./paths.ts";
import type { Repository } from "./repository.ts";
import { readSettings, settingOf } from "./settings.ts";

/** A stored commit, in bytes (one character each), so that a copy keeps author and message in any encoding. */
interface CommitObject {
  readonly tree: string;
  readonly parents: readonly string[];
  readonly author: string;
  readonly committer: string;
  readonly encoding: string | null;
  readonly message: string;
}

export async function readCommit(repository: Repository, id: string): Promise<CommitObject> {
  return parseCommit((await repository.objects.output({ args: ["cat-file", "commit", id] })).toString("latin1"));
}

/** Omits signatures and other headers, because they would be invalid for a copy. */
export async function writeCommit(repository: Repository, commit: CommitObject): Promise<string> {
  const lines = [
    `tree ${commit.tree}`,
    ...commit.parents.map((parent) => `parent ${parent}`),
    `author ${commit.author}`,
    `committer ${commit.committer}`,
    ...(commit.encoding === null ? [] : [`encoding ${commit.encoding}`]),
  ];
  const input = Buffer.from(`${lines.join("\n")}\n\n${commit.message}`, "latin1");
  return repository.objects.line({ args: ["hash-object", "-t", "commit", "-w", "--stdin"], input });
}

export function parseCommit(text: string): CommitObject {
  const end = text.indexOf("\n\n");
  const headers = (end === -1 ? text : text.slice(0, end)).split("\n");
  const all = (name: string): readonly string[] =>
    headers.filter((line) => line.startsWith(`${name} `)).map((line) => line.slice(name.length + 1));
  return {
    tree: all("tree")[0] ?? "",
    parents: all("parent"),
    author: all("author")[0] ?? "",
    committer: all("committer")[0] ?? "",
    encoding: all("encoding")[0] ?? null,
    message: end === -1 ? "" : text.slice(end + 2),
  };
}

/** Seconds since the epoch from an author or committer line; null if the line has none. */
export function commitTime(line: string): number | null {
  const seconds = /> (\d+) [+-]\d{4}$/.exec(line)?.[1];
  return seconds === undefined ? null : Number(seconds);
}

/** Environment variables for git that set the user of this repository as author and committer at a given time. */
export async function commitIdentity(
  { worktree }: Pick<BranchContext, "worktree">,
  at: string,
): Promise<Readonly<Record<string, string>>> {
  const fallback = snapshotIdentity(parseEpochSeconds(at));
  const user = await readUser(worktree.repository, worktree.gitDir);
  if (user === null) return fallback;
  const { name, mail } = user;
  return {
    ...fallback,
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: mail,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: mail,
  };
}

/** The user of this repository. null: name or email is not set; git would complete the other with the name of this machine. */
export async function readUser(
  repository: Parameters<typeof readSettings>[0],
  gitDir: string,
): Promise<{ readonly name: string; readonly mail: string } | null> {
  const settings = await readSettings(repository, gitDir);
  const [name, mail] = ["user.name", "user.email"].map((key) => cleanIdentity(settingOf(settings, key) ?? ""));
  return name && mail ? { name, mail } : null;
}

/** Seconds since the epoch of an ISO 8601 time. */
export function parseEpochSeconds(at: string): number {
  const time = Date.parse(at);
  if (!Number.isNaN(time) && time >= 0) return Math.floor(time / 1000);
  throw usageError(`${JSON.stringify(at)} is not an ISO 8601 time`, "Give a time such as 2026-03-01T12:00:00Z.");
}

/** Git strips these characters from a name too, because they would end the header early. */
function cleanIdentity(text: string): string {
  return text.replaceAll(/[<>\n\0]/g, "").trim();
}

/** The tagger of a snapshot. */
export const SNAPSHOT_AUTHOR = "Holdfast <holdfast@localhost>";

/** Author and committer of a commit that Holdfast makes for itself. Only the time varies, so that the same snapshot has the same id. */
export function snapshotIdentity(epochSeconds: number): Readonly<Record<string, string>> {
  return gitIdentity({ name: "Holdfast", mail: "holdfast@localhost", epochSeconds });
}

interface Merged {
  /** Contains conflict markers in the files if there are conflicts. */
  readonly tree: string;
  readonly conflicts: readonly GitPath[];
  /** Git's messages about the conflicts, one per line. */
  readonly detail: string;
}

/** Merges two commits in the object database only: it changes no file and no index, and starts no merge operation. */
export async function mergeCommits(
  { git }: Pick<BranchContext, "git">,
  params: { readonly ours: string; readonly theirs: string },
): Promise<Merged> {
  const args = ["merge-tree", "--write-tree", "-z", "--name-only", "--messages", params.ours, params.theirs];
  const result = await git.result({ args });
  if (result.kind !== "exited" || result.code === null || result.code > 1) throw gitError(args, result);
  return parseMerge(result.stdout);
}

/**
 * Merges two trees that come from a third one. Each is wrapped in a commit: the oldest supported git merges only commits and finds their base
 * itself. `sides`: the commits, which git's messages name.
 */
export async function mergeTrees(
  { git, objects }: Pick<Repository, "git" | "objects">,
  { base, ours, theirs, message }: { readonly [K in "base" | "ours" | "theirs" | "message"]: string },
): Promise<Merged & { readonly sides: readonly [ours: string, theirs: string] }> {
  const wrap = (tree: string, ...parents: readonly string[]): Promise<string> => {
    const args = ["commit-tree", tree, ...parents.flatMap((parent) => ["-p", parent]), "-m", message];
    return objects.line({ args, env: snapshotIdentity(0) });
  };
  const before = await wrap(base);
  const sides = await Promise.all([wrap(ours, before), wrap(theirs, before)]);
  return { ...(await mergeCommits({ git }, { ours: sides[0], theirs: sides[1] })), sides };
}

/** Format: `<tree> NUL (<path> NUL)* NUL (<count> NUL (<path> NUL)* <kind> NUL <text> NUL)*` */
export function parseMerge(output: Buffer): Merged {
  const [tree = "", ...rest] = splitRecords(output);
  const end = rest.indexOf("");
  const paths = end === -1 ? rest : rest.slice(0, end);
  const notes: string[] = [];
  for (let at = end === -1 ? rest.length : end + 1; at < rest.length;) {
    const count = Number(rest[at]);
    const kind = rest[at + count + 1] ?? "";
    const text = Buffer.from(rest[at + count + 2] ?? "", "latin1").toString("utf8");
    if (kind.startsWith("CONFLICT")) notes.push(text.trim());
    at += Number.isNaN(count) ? rest.length : count + 3;
  }
  return { tree, conflicts: [...new Set(paths.map(quotePath))], detail: notes.join("\n") };
}
