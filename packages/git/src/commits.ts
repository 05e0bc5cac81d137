import type { GitPath } from "@holdfast/core/checkpoint";
import { HoldfastError } from "@holdfast/platform/error";
import { type Git, gitError, gitIdentity } from "@holdfast/platform/git-command";
import type { BranchContext } from "./branch-refs.ts";
import { quotePath, splitRecords } from "./paths.ts";
import type { Repository } from "./repository.ts";

/** A commit as it is stored, in bytes (one character each), so that a copy keeps its author and message whatever their encoding. */
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

/** Signatures and other headers are left out: they would not be true of a copy. */
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

/** Seconds since the epoch of an author or committer line. */
export function commitTime(person: string): number | null {
  const seconds = /> (\d+) [+-]\d{4}$/.exec(person)?.[1];
  return seconds === undefined ? null : Number(seconds);
}

/** Author and committer as git takes them from the environment: the user of this repository, at a given time. */
export async function commitIdentity(git: Git, at: string): Promise<Readonly<Record<string, string>>> {
  const fallback = snapshotIdentity(parseEpochSeconds(at));
  const [name, mail] = await Promise.all([readSetting(git, "user.name"), readSetting(git, "user.email")]);
  // Half an identity would be completed by git with the name of this machine.
  if (name === "" || mail === "") return fallback;
  return {
    ...fallback,
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: mail,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: mail,
  };
}

/** Seconds since the epoch. */
export function parseEpochSeconds(at: string): number {
  const time = Date.parse(at);
  if (!Number.isNaN(time) && time >= 0) return Math.floor(time / 1000);
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(at)} is not an ISO 8601 time`,
    hint: "Give a time such as 2026-03-01T12:00:00Z.",
  });
}

async function readSetting(git: Git, name: string): Promise<string> {
  const args = ["config", "--get", name];
  const found = await git.result({ args });
  // 1 says that it is not set. Any other failure must not pass for that: the commit would get another author, and so another id.
  if (found.kind !== "exited" || (found.code !== 0 && found.code !== 1)) throw gitError(args, found);
  // What git itself strips from a name: it would end the header early.
  const text = found.stdout.toString("utf8").replaceAll(/[<>\n\0]/g, "");
  return text.trim();
}

/** Who made a snapshot commit, and when. Fixed but for the time, so that the same snapshot has the same id. */
export function snapshotIdentity(epochSeconds: number): Readonly<Record<string, string>> {
  return gitIdentity({ name: "Holdfast", mail: "holdfast@localhost", epochSeconds });
}

interface Merged {
  /** With conflict marks in the files when there are conflicts. */
  readonly tree: string;
  readonly conflicts: readonly GitPath[];
  /** What git says about them, one line each. */
  readonly detail: string;
}

/** The merge of two commits, made in objects alone: no file, no index, nothing under way. */
export async function mergeCommits(
  { git }: Pick<BranchContext, "git">,
  params: { readonly ours: string; readonly theirs: string },
): Promise<Merged> {
  const args = ["merge-tree", "--write-tree", "-z", "--name-only", "--messages", params.ours, params.theirs];
  const result = await git.result({ args });
  if (result.kind !== "exited" || result.code === null || result.code > 1) throw gitError(args, result);
  return parseMerge(result.stdout);
}

/** `<tree> NUL (<path> NUL)* NUL (<count> NUL (<path> NUL)* <kind> NUL <text> NUL)*` */
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
