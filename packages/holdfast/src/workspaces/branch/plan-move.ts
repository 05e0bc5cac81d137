import type { RawPath } from "../raw-path.ts";
import type { TreeChange, TreeEntry } from "../capture/tree-diff.ts";

export type MovePlan =
  | { readonly kind: "move"; readonly changes: readonly TreeChange[] }
  /** Files that hold something of their own, which no commit has. */
  | { readonly kind: "local_changes"; readonly paths: readonly RawPath[] };

/**
 * Which files have still to be moved from one tree to the other. A path may already be as wanted, because an earlier try was killed;
 * anything else that differs from the start is somebody's work. Untracked files that nothing lands on do not matter.
 */
export function planMove(params: {
  /** From the tree of the start to the one that is wanted. */
  readonly wanted: readonly TreeChange[];
  /** From the tree of the start to the files as they are. */
  readonly local: readonly TreeChange[];
}): MovePlan {
  const wanted = new Map(params.wanted.map((change) => [change.path, change]));
  const done = new Set<RawPath>();
  const paths: RawPath[] = [];
  for (const { path, from, to } of params.local) {
    const change = wanted.get(path);
    if (change === undefined && from === null) continue;
    if (change !== undefined && isSame(change.to, to)) done.add(path);
    else paths.push(path);
  }
  if (paths.length > 0) return { kind: "local_changes", paths };
  return { kind: "move", changes: params.wanted.filter(({ path }) => !done.has(path)) };
}

function isSame(a: TreeEntry | null, b: TreeEntry | null): boolean {
  return a?.id === b?.id && a?.mode === b?.mode;
}
