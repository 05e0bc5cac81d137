import { openNode, sumTokens, usage, valuesOf, withNode } from "./context-tree.ts";
import type { ContextTree, OpenContext } from "./context-tree.ts";
import type { Json, JsonObject } from "../json.ts";
import { canonicalJson } from "../values/index.ts";

/** One key that both sides have changed since the fork, to different values. undefined: not there. */
export interface ContextConflict {
  readonly key: string;
  readonly base: Json | undefined;
  readonly parent: Json | undefined;
  readonly child: Json;
}

export type ContextMerge =
  | { readonly kind: "merged"; readonly tree: ContextTree; readonly conflicts: readonly ContextConflict[] }
  /** Nothing was merged. */
  | { readonly kind: "conflict"; readonly conflicts: readonly ContextConflict[] };

/**
 * Brings what a fork set and the tokens it used into its parent, once: afterwards the fork is closed. A key that the parent
 * has changed too since the fork is a conflict, and unless told who wins, nothing is merged.
 */
export function mergeContext(
  tree: ContextTree,
  params: { readonly child: string; readonly onConflict?: "refuse" | "child_wins" | "parent_wins" },
): ContextMerge {
  const { child: id, onConflict = "refuse" } = params;
  const { child, parent, parentId } = ends(tree, id);
  const fork = forksOf(tree, id)[0];
  if (fork !== undefined) {
    throw usage(`Context ${id} still has an open fork ${fork}`, "Merge or discard a context's forks before itself.");
  }
  const conflicts = findConflicts(child, valuesOf(tree, parentId));
  if (conflicts.length > 0 && onConflict === "refuse") return { kind: "conflict", conflicts };
  const lost = new Set(onConflict === "parent_wins" ? conflicts.map((one) => one.key) : []);
  const brought = Object.fromEntries(Object.entries(child.local).filter(([key]) => !lost.has(key)));
  const merged: OpenContext = {
    ...parent,
    local: { ...parent.local, ...brought },
    used: sumTokens(parent.used, child.used),
  };
  const closed = withNode(withNode(tree, parentId, merged), id, { kind: "closed", how: "merged", into: parentId });
  return { kind: "merged", tree: closed, conflicts };
}

/** Lets a fork go, its own forks too. What it set is forgotten; what it used was used, so the tokens go to the parent. */
export function discardContext(tree: ContextTree, id: string): ContextTree {
  let rest = tree;
  for (const fork of forksOf(tree, id)) rest = discardContext(rest, fork);
  const { child, parent, parentId } = ends(rest, id);
  const paid = withNode(rest, parentId, { ...parent, used: sumTokens(parent.used, child.used) });
  return withNode(paid, id, { kind: "closed", how: "discarded", into: parentId });
}

function ends(tree: ContextTree, id: string) {
  const child = openNode(tree, id);
  if (child.parent === null) throw usage(`Context ${id} was not forked from anything`);
  return { child, parent: openNode(tree, child.parent), parentId: child.parent };
}

function forksOf(tree: ContextTree, id: string): readonly string[] {
  return [...tree.nodes].filter(([, node]) => node.kind === "open" && node.parent === id).map(([name]) => name);
}

function findConflicts(child: OpenContext, parentNow: JsonObject): readonly ContextConflict[] {
  return Object.entries(child.local).flatMap(([key, mine]): readonly ContextConflict[] => {
    const [base, theirs] = [own(child.base, key), own(parentNow, key)];
    return equal(base, theirs) || equal(mine, theirs) ? [] : [{ key, base, parent: theirs, child: mine }];
  });
}

export function own(values: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(values, key) ? values[key] : undefined;
}

export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a === b || canonicalJson(a) === canonicalJson(b);
}
