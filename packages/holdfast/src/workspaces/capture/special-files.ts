import { readdirSync } from "node:fs";
import { createGit } from "../git/git-command.ts";
import { absolutePath, parentOf } from "./inspect-path.ts";
import { joinRecords, splitRecords, type RawPath } from "../raw-path.ts";
import type { Checkout } from "../repository.ts";

/**
 * Pipes, sockets and devices, which git does not even mention, in these folders. They hold nothing that could be lost; they are
 * looked for only so that a snapshot can name all that it leaves out.
 */
export function findSpecialFiles(root: string, folders: ReadonlySet<RawPath>): readonly RawPath[] {
  return [...folders].flatMap((folder) => {
    try {
      const entries = readdirSync(absolutePath(root, folder), { withFileTypes: true, encoding: "buffer" });
      const special = entries.filter((entry) => !entry.isFile() && !entry.isDirectory() && !entry.isSymbolicLink());
      return special.map((entry) => `${folder === "" ? "" : `${folder}/`}${entry.name.toString("latin1")}`);
    } catch {
      return [];
    }
  });
}

/** The folders in which something new or changed was seen, the root, and those of special files that are known. */
export function foldersToSearch(paths: readonly RawPath[], known: ReadonlySet<RawPath>): ReadonlySet<RawPath> {
  return new Set(["", ...paths.map(parentOf), ...Array.from(known, parentOf)]);
}

export async function withoutIgnored(checkout: Checkout, paths: readonly RawPath[]): Promise<readonly RawPath[]> {
  if (paths.length === 0) return paths;
  const git = createGit({ cwd: checkout.root, gitDir: checkout.gitDir, workTree: checkout.root });
  const ignored = await git.result({
    args: ["check-ignore", "-z", "--stdin"],
    input: joinRecords(paths.map((path) => `./${path}`)),
    env: { GIT_LITERAL_PATHSPECS: "0" },
  });
  const names = new Set(splitRecords(ignored.stdout).map((path) => path.slice(2)));
  return paths.filter((path) => !names.has(path));
}
