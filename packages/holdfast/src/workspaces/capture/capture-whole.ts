import { HoldfastError } from "../../core/error.ts";
import { captureTree, type CaptureOptions, type Captured, type CapturePlace } from "./capture.ts";
import { gitFailure } from "../git/git-command.ts";
import { objectsNamedBy } from "../objects/heal-objects.ts";
import { isDamaged } from "../objects/loose-object.ts";
import { forgetIndexes } from "../indexes/private-index.ts";
import { storeUserIndex, type StoredIndex } from "../indexes/store-user-index.ts";
import { findDamaged } from "../objects/torn-objects.ts";
import { diffTrees, type TreeChange } from "./tree-diff.ts";

interface WholeCapture {
  readonly captured: Captured;
  readonly index: StoredIndex | null;
  /** Against HEAD. */
  readonly changes: readonly TreeChange[];
  /** Not pinned yet. */
  readonly commit: string;
}

/**
 * A captured tree as a commit, all of whose objects are there. Our index may remember objects that a gc has taken meanwhile,
 * and a power cut can leave an object of another git empty: then the files are read again, once.
 */
export async function captureWhole(params: {
  readonly place: CapturePlace;
  readonly options: CaptureOptions;
  readonly text: { readonly message: string; readonly identity: Readonly<Record<string, string>> };
  readonly head: Promise<string | null>;
}): Promise<WholeCapture> {
  const { place, options, text } = params;
  for (let attempt = 1; ; attempt++) {
    let storing: Promise<StoredIndex | null> = Promise.resolve(null);
    const captured = await captureTree(place, options, (index) => {
      storing = storeUserIndex(place, index);
      // Its failure is met where it is awaited; until then it must not count as unhandled.
      storing.catch(() => undefined);
    });
    const [head, index] = await Promise.all([params.head, storing]);
    // git makes no commit on one that it cannot read; the snapshot names it all the same.
    const parent = head !== null && (await isDamaged(place.repository, head)) ? null : head;
    const argsOn = (...ids: readonly (string | null | undefined)[]): readonly string[] => {
      const parents = ids.flatMap((id) => (id === undefined || id === null ? [] : ["-p", id]));
      return ["commit-tree", captured.tree, ...parents, "-F", "-"];
    };
    const input = Buffer.from(text.message);
    const args = argsOn(parent, index?.commit);
    const [check, first] = await Promise.all([
      checkTree({
        place,
        head,
        tree: captured.tree,
        also: index === null ? [] : [index.blob, index.tree, index.commit],
      }),
      place.repository.objects.result({ args, input, env: text.identity }),
    ]);
    if (check.kind === "whole") {
      // The user's last commit may be gone altogether: git does not sync what it writes, and a power cut came.
      const isGone = first.code !== 0 && parent !== null && !(await isThere(place, parent));
      const committed = isGone
        ? await place.repository.objects.result({ args: argsOn(index?.commit), input, env: text.identity })
        : first;
      if (committed.code !== 0) throw gitFailure(args, committed);
      const commit = committed.stdout.toString("utf8").trim();
      if (await isDamaged(place.repository, commit)) throw damaged(place, [commit]);
      return { captured, index, changes: check.changes, commit };
    }
    if (attempt > 1) throw damaged(place, check.missing);
    await forgetIndexes(place.home);
  }
}

type TreeCheck =
  | { readonly kind: "whole"; readonly changes: readonly TreeChange[] }
  | { readonly kind: "damaged"; readonly missing: readonly string[] };

/** Every object that the snapshot names, those that it shares with HEAD too: git syncs nothing that the user commits. */
async function checkTree(params: {
  readonly place: CapturePlace;
  readonly head: string | null;
  readonly tree: string;
  readonly also: readonly string[];
}): Promise<TreeCheck> {
  const { place, head, tree, also } = params;
  const { repository } = place;
  const diff = (from: string): Promise<readonly TreeChange[]> => diffTrees(repository.objects, from, tree);
  let changes: readonly TreeChange[];
  let ids: readonly string[];
  try {
    // A HEAD whose trees are damaged is no reason to refuse: then nothing is promised, and all counts as changed.
    [changes, ids] = await Promise.all([
      diff(head ?? repository.emptyTree).catch(() => diff(repository.emptyTree)),
      objectsOf(place, tree),
    ]);
  } catch (error) {
    return { kind: "damaged", missing: [tree, ...objectsNamedBy(error)] };
  }
  const damaged = await findDamaged(place, [...new Set([tree, ...ids, ...also])]);
  return damaged.length === 0 ? { kind: "whole", changes } : { kind: "damaged", missing: damaged };
}

async function objectsOf({ repository }: CapturePlace, tree: string): Promise<readonly string[]> {
  const args = ["ls-tree", "-r", "-t", "-z", "--full-tree", tree];
  const records = (await repository.objects.output({ args })).toString("latin1").split("\0");
  return records.flatMap((record) => (/^\d+ (?:blob|tree) ([0-9a-f]+)\t/.exec(record) ?? []).slice(1));
}

function damaged(place: CapturePlace, missing: readonly string[]): HoldfastError {
  return new HoldfastError({
    code: "GIT_FAILED",
    message: `objects of the snapshot of ${place.root} are damaged in the repository: ${missing.slice(0, 3).join(", ")}`,
    hint: "Run `git fsck`. An empty object file left by a power cut can be removed: the content is still in the worktree.",
    data: { missing },
  });
}

async function isThere(place: CapturePlace, id: string): Promise<boolean> {
  return (await place.repository.objects.result({ args: ["cat-file", "-e", id] })).code === 0;
}
