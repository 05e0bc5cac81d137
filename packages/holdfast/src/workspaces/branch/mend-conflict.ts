import { readFile, readlink } from "node:fs/promises";
import type { GitPath } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Branch, CommitParams } from "../../ports/branch.ts";
import { absolutePath, createInspector } from "../capture/inspect-path.ts";
import { parsePath, type RawPath } from "../raw-path.ts";
import { isSafePath } from "../safe-path.ts";
import { requireCommit, requireQuiet, requireTip, requireTree, type BranchPlace } from "./branch-place.ts";
import { cleanMessage, isCommitOf, makeCommit, settle } from "./commit-files.ts";
import { readCommit } from "./commit-object.ts";
import { hasMarks } from "./conflict-marks.ts";
import { mergeCommits } from "./merge-commits.ts";
import { moveFiles } from "./move-files.ts";
import { treeNow } from "./tree-now.ts";

/** Branch and index stay as they are: whoever gives up has only to put the files back. */
export async function placeConflict(
  at: BranchPlace,
  params: { readonly onto: string },
): ReturnType<Branch["placeConflict"]> {
  await requireQuiet(at);
  const [onto, tip] = await Promise.all([requireCommit(at, params.onto), requireTip(at)]);
  const merged = await mergeCommits(at, { ours: onto, theirs: tip });
  await moveFiles(at.place, { from: await requireTree(at, tip), to: merged.tree });
  return { files: merged.conflicts };
}

/** One commit on top of `onto`. The branch's earlier commits stay in the run's snapshots. */
export async function commitResolved(
  at: BranchPlace,
  params: CommitParams & { readonly onto: string; readonly files: readonly GitPath[] },
): ReturnType<Branch["commitResolved"]> {
  const message = cleanMessage(params.message);
  await requireQuiet(at);
  const [onto, tip] = await Promise.all([requireCommit(at, params.onto), requireTip(at)]);
  const tree = await treeNow(at.place, { base: await requireTree(at, onto), exclude: params.exclude });
  if (await isMade(at, { tip, onto, tree, message, at: params.at })) {
    await settle(at, { from: tip, to: tip });
    return { kind: "committed", commit: tip };
  }
  const unresolved: GitPath[] = [];
  for (const file of params.files) if (await isMarked(at, file, [onto, tip])) unresolved.push(file);
  if (unresolved.length > 0) return { kind: "unresolved", files: unresolved };
  const commit = await makeCommit(at, { tree, parent: onto, message, at: params.at });
  await settle(at, { from: tip, to: commit });
  return { kind: "committed", commit };
}

async function isMade(
  at: BranchPlace,
  params: {
    readonly tip: string;
    readonly onto: string;
    readonly tree: string;
    readonly message: string;
    readonly at: string;
  },
): Promise<boolean> {
  const made = await readCommit(at.place.repository, params.tip);
  const fits = made.tree === params.tree && made.parents.length === 1 && made.parents[0] === params.onto;
  return fits && (await isCommitOf(at, params.tip, params));
}

async function isMarked(at: BranchPlace, file: GitPath, sides: readonly string[]): Promise<boolean> {
  const path = parsePath(file);
  if (path === undefined || !isSafePath(path)) {
    throw new HoldfastError({
      code: "USAGE",
      message: `${file} is not a path inside the worktree`,
      hint: "Give the paths as placeConflict returned them.",
    });
  }
  const text = await readNow(at.place.root, path);
  if (text === undefined || !hasMarks(text, [])) return false;
  return hasMarks(text, await Promise.all(sides.map((commit) => readThen(at, commit, path))));
}

/** undefined: removed, or no file any more, which is one way to settle a conflict. */
async function readNow(root: string, path: RawPath): Promise<string | undefined> {
  const place = absolutePath(root, path);
  const { kind } = createInspector(root)(path);
  if (kind === "file") return readFile(place, "latin1");
  return kind === "symlink" ? readlink(place) : undefined;
}

async function readThen(at: BranchPlace, commit: string, path: RawPath): Promise<string> {
  // By the id from the tree's listing: an argument cannot carry every byte of a name.
  const listed = await at.place.repository.objects.output({ args: ["ls-tree", "-r", "-z", "--full-tree", commit] });
  const record = listed
    .toString("latin1")
    .split("\0")
    .find((line) => line.slice(line.indexOf("\t") + 1) === path);
  const id = record === undefined ? undefined : /^\d+ blob ([0-9a-f]+)\t/.exec(record)?.[1];
  if (id === undefined) return "";
  return (await at.place.repository.objects.output({ args: ["cat-file", "blob", id] })).toString("latin1");
}
