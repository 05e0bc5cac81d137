import { equal, own } from "./context-merge.ts";
import { openNode, restoreContext, tokenCount, withNode } from "./context-tree.ts";
import type { ContextTree } from "./context-tree.ts";
import type { Context } from "./context.ts";

/**
 * Puts one context back to what was stored of it, in place: its parent and its forks stay. What was stored holds the parents'
 * values too; those that a fork began with are not its own, so they stay the parent's, as they are now. Tokens come out as
 * stored, unless the fork began with more.
 */
export function rewindContext(tree: ContextTree, id: string, stored: Context): ContextTree {
  const node = openNode(tree, id);
  const { local, used } = openNode(restoreContext(stored, id), id);
  return withNode(tree, id, {
    ...node,
    local: Object.fromEntries(Object.entries(local).filter(([key, value]) => !equal(value, own(node.base, key)))),
    used: Object.fromEntries(
      Object.entries(used).map(([name, amount]) => [name, Math.max(0, amount - tokenCount(node.inherited, name))]),
    ),
  });
}
