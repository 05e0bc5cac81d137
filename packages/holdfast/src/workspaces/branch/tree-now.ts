import { join } from "node:path";
import type { GitPath } from "../../core/checkpoint/checkpoint.ts";
import { captureTree, DEFAULT_CAPTURE, type CapturePlace } from "../capture/capture.ts";
import { createGit } from "../git/git-command.ts";
import { healing } from "../objects/heal-objects.ts";
import { LINK_MODE } from "../indexes/index-memo.ts";
import { createInspector } from "../capture/inspect-path.ts";
import { inScope, parseScope } from "../path-scope.ts";
import { openScratch } from "../indexes/private-index.ts";
import { joinRecords, parsePath } from "../raw-path.ts";
import { diffTrees } from "../capture/tree-diff.ts";

/**
 * The files as they are now, as git would commit them on top of `base`. The capture says which files differ by their bytes; only
 * those are read again with line ends, encodings and filters (LFS) applied, so that nothing goes out raw that must not, and a
 * file which nobody touched is never converted a second time. What is excluded stays as `base` has it.
 */
export function treeNow(
  place: CapturePlace,
  params: { readonly base: string; readonly exclude: readonly GitPath[] },
): Promise<string> {
  const excluded = parseScope(params.exclude);
  return healing(place, async () => {
    const captured = await captureTree(place, DEFAULT_CAPTURE);
    const differing = await diffTrees(place.repository.objects, params.base, captured.tree);
    const changes = differing.filter(({ path }) => !inScope(path, excluded));
    const large = captured.skipped
      .filter(({ reason }) => reason === "too_large")
      .flatMap(({ path }) => parsePath(path) ?? []);
    const found = createInspector(place.root);
    const files = changes.filter(({ to }) => to !== null && to.mode !== LINK_MODE).map(({ path }) => path);
    const add = [
      // In the capture and yet not on disk: a sparse checkout leaves it out, so there is nothing to say about it.
      ...files.filter((path) => found(path).kind !== "absent"),
      ...large.filter((path) => !inScope(path, excluded)),
    ];
    const set = changes.flatMap(({ path, to }) => {
      if (to === null) return [`0 ${place.repository.zero}\t${path}`];
      return to.mode === LINK_MODE ? [`${to.mode} ${to.id}\t${path}`] : [];
    });
    if (set.length === 0 && add.length === 0) return params.base;
    return writeTree({ place, base: params.base, set, add });
  });
}

async function writeTree(params: {
  readonly place: CapturePlace;
  readonly base: string;
  readonly set: readonly string[];
  readonly add: readonly string[];
}): Promise<string> {
  const { root, gitDir, home } = params.place;
  const scratch = await openScratch(home);
  try {
    const git = createGit({ cwd: root, gitDir, workTree: root, indexFile: join(scratch.folder, "index") });
    await git.output({ args: [...PLAIN, "read-tree", params.base] });
    if (params.set.length > 0)
      await git.output({ args: [...PLAIN, "update-index", "-z", "--index-info"], input: joinRecords(params.set) });
    if (params.add.length > 0) {
      // --remove: a file may vanish between our look and git's.
      const args = [...PLAIN, "update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
      await git.output({ args, input: joinRecords(params.add) });
    }
    return await git.line({ args: [...PLAIN, "write-tree"] });
  } finally {
    await scratch.release();
  }
}

const PLAIN = ["-c", "core.splitIndex=false", "-c", "core.safecrlf=false"];
