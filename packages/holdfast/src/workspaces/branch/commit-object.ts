import type { Repository } from "../repository.ts";

/** A commit as it is stored, in bytes (one character each), so that a copy keeps its author and message whatever their encoding. */
export interface CommitObject {
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
export function timeOf(person: string): number | null {
  const seconds = /> (\d+) [+-]\d{4}$/.exec(person)?.[1];
  return seconds === undefined ? null : Number(seconds);
}
