import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createGit } from "../git/git-command.ts";
import { rawFolder, readGitDirHead } from "../capture/head-files.ts";
import type { Checkout } from "../repository.ts";

interface Head {
  /** null in a repository without commits. */
  readonly head: string | null;
  /** Full name; null when detached. */
  readonly branch: string | null;
}

/** Read from the files where refs are files, which saves two processes; git is asked about anything else. */
export async function readHead(checkout: Checkout): Promise<Head> {
  const text = (await readFile(join(checkout.gitDir, "HEAD"), "utf8").catch(() => "")).trim();
  const named = /^ref: (refs\/heads\/.+)$/.exec(text)?.[1];
  const plain = named === undefined ? /^[0-9a-f]{40,64}$/.test(text) : !named.endsWith("/.invalid");
  const head = plain ? readGitDirHead(rawFolder(checkout.gitDir)) : null;
  if (head !== null) return { head, branch: named ?? null };
  const git = createGit({ cwd: checkout.root, gitDir: checkout.gitDir, workTree: checkout.root });
  const ask = async (args: readonly string[]): Promise<string | null> => {
    const result = await git.result({ args });
    return result.code === 0 ? result.stdout.toString("utf8").trim() : null;
  };
  const [commit, branch] = await Promise.all([
    ask(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]),
    ask(["symbolic-ref", "--quiet", "HEAD"]),
  ]);
  return { head: commit, branch };
}
