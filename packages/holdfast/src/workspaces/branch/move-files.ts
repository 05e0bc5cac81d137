import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { blankFilters } from "../git/blank-filters.ts";
import type { CapturePlace } from "../capture/capture.ts";
import { syncFileSystem } from "../objects/durable.ts";
import { createGit } from "../git/git-command.ts";
import { LINK_MODE } from "../indexes/index-memo.ts";
import { createRestoreLooks } from "../restore/look-restore.ts";
import { placeFiles, signatures, type Placement } from "../restore/place-files.ts";
import { findObstacles } from "../restore/plan-restore.ts";
import { openScratch } from "../indexes/private-index.ts";
import { joinRecords, pathBytes, quotePath, type RawPath } from "../raw-path.ts";
import { isSafePath } from "../safe-path.ts";
import { diffTrees, type TreeChange } from "../capture/tree-diff.ts";
import { planMove } from "./plan-move.ts";
import { treeNow } from "./tree-now.ts";

/**
 * Moves the files from one tree to another. All content is written aside first, then each file is replaced whole: killed half-way,
 * the same call goes on. WORKSPACE_BUSY, and nothing changed, when files hold changes of their own.
 */
export async function moveFiles(
  place: CapturePlace,
  trees: { readonly from: string; readonly to: string },
): Promise<void> {
  const { objects } = place.repository;
  const now = await treeNow(place, { base: trees.from, exclude: [] });
  const [wanted, local] = await Promise.all([
    diffTrees(objects, trees.from, trees.to),
    diffTrees(objects, trees.from, now),
  ]);
  const plan = planMove({ wanted, local });
  if (plan.kind === "local_changes") throw busy(place, plan.paths);
  const looks = createRestoreLooks(place);
  // Submodules are named, never entered; a file that a sparse checkout keeps off the disk stays off it.
  const changes = plan.changes.filter(
    ({ path, from, to }) =>
      from?.mode !== LINK_MODE && to?.mode !== LINK_MODE && (from === null || looks.found(path).kind !== "absent"),
  );
  const unsafe = changes.filter(({ path }) => !isSafePath(path)).map(({ path }) => path);
  if (unsafe.length > 0) throw busy(place, unsafe);
  const obstacles = findObstacles({ changes: changes.map(describe), skipped: new Set() }, looks);
  if (obstacles.length > 0) throw busy(place, obstacles);
  if (changes.length === 0) return;
  const seen = signatures(
    place.root,
    changes.map(({ path }) => path),
  );
  const scratch = await openScratch(place.home);
  try {
    const placements = await stage(place, { tree: trees.to, changes, folder: scratch.folder });
    placeFiles(place.root, placements, seen);
    await syncFileSystem(place.root);
  } finally {
    await scratch.release();
  }
}

function describe({ path, from, to }: TreeChange): Parameters<typeof findObstacles>[0]["changes"][number] {
  const name = quotePath(path);
  if (to === null) return { kind: "remove", path: name };
  return { kind: from === null ? "create" : "write", path: name, mode: to.mode };
}

/** By git itself, so that line ends and encodings arrive as the user's git would have put them. */
async function stage(
  place: CapturePlace,
  params: { readonly tree: string; readonly changes: readonly TreeChange[]; readonly folder: string },
): Promise<readonly Placement[]> {
  const { root, gitDir } = place;
  const files = join(params.folder, "files");
  await mkdir(files);
  const git = createGit({ cwd: root, gitDir, workTree: root, indexFile: join(params.folder, "index") });
  const paths = params.changes.filter(({ to }) => to !== null).map(({ path }) => path);
  if (paths.length > 0) {
    await git.output({ args: ["-c", "core.splitIndex=false", "read-tree", params.tree] });
    const args = ["checkout-index", "-f", `--prefix=${files}/`, "-z", "--stdin"];
    await git.output({ args, input: joinRecords(paths), env: await blankFilters(place.repository) });
    await syncFileSystem(params.folder);
  }
  const prefix = Buffer.from(`${files}/`);
  return params.changes.map(({ path, to }) =>
    to === null ? { kind: "remove", path } : { kind: "place", path, staged: Buffer.concat([prefix, pathBytes(path)]) },
  );
}

function busy(place: CapturePlace, paths: readonly RawPath[]): HoldfastError {
  const names = paths.map(quotePath);
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `${place.root} holds changes that are not committed, first ${names[0]}`,
    hint: "Commit them or move them away; nothing was changed.",
    data: { files: names.slice(0, 100) },
  });
}
