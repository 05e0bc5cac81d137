import { join } from "node:path";
import { createGit } from "../git/git-command.ts";
import { joinRecords, type RawPath } from "../raw-path.ts";
import type { Repository } from "../repository.ts";
import type { TreeEntry } from "./tree-diff.ts";

/** A tree with some paths replaced (null: without them). */
export async function buildTree(params: {
  readonly repository: Repository;
  readonly base: string;
  readonly edits: readonly { readonly path: RawPath; readonly entry: TreeEntry | null }[];
  readonly scratch: string;
}): Promise<string> {
  const { repository, base, edits, scratch } = params;
  if (edits.length === 0) return base;
  const git = createGit({
    cwd: scratch,
    gitDir: repository.privateGitDir,
    workTree: scratch,
    objectDirectory: repository.objectDirectory,
    indexFile: join(scratch, "tree-index"),
  });
  await git.output({ args: [...WHOLE_INDEX, "read-tree", base] });
  // Removals first: a folder may become a file, or a file a folder.
  const gone = edits.filter(({ entry }) => entry === null).map(({ path }) => `0 ${repository.zero}\t${path}`);
  const set = edits.flatMap(({ path, entry }) => (entry === null ? [] : [`${entry.mode} ${entry.id}\t${path}`]));
  await git.output({
    args: [...WHOLE_INDEX, "update-index", "-z", "--index-info"],
    input: joinRecords([...gone, ...set]),
  });
  return git.line({ args: [...WHOLE_INDEX, "write-tree"] });
}

// It lives for a moment: nothing is gained by splitting it.
const WHOLE_INDEX = ["-c", "core.splitIndex=false"];
