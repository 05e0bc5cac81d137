import { discardContext, mergeContext } from "../core/context/context-merge.ts";
import type { ContextConflict } from "../core/context/context-merge.ts";
import { forkContext, openNode, restoreContext } from "../core/context/context-tree.ts";
import type { ContextTree } from "../core/context/context-tree.ts";
import type { Context as StoredContext } from "../core/context/context.ts";
import { HoldfastError } from "../core/error.ts";

/**
 * Where a context stands in the tree that it shares with its forks: the one thing about contexts that changes. A fork that was
 * merged or discarded keeps the tree that says so for itself, and the others forget it: its name is free again, and a program
 * that forks ten thousand times does not grow.
 */
export class Place {
  readonly id: string;
  #trunk: { tree: ContextTree };

  private constructor(id: string, trunk: { tree: ContextTree }) {
    this.id = id;
    this.#trunk = trunk;
  }

  static root(id: string, stored: StoredContext): Place {
    return new Place(id, { tree: restoreContext(stored, id) });
  }

  get tree(): ContextTree {
    return this.#trunk.tree;
  }

  change(next: (tree: ContextTree, id: string) => ContextTree): void {
    this.#trunk.tree = next(this.tree, this.id);
  }

  fork(id: string): Place {
    this.#trunk.tree = forkContext(this.tree, { from: this.id, id });
    return new Place(id, this.#trunk);
  }

  /** What was decided where both had changed a value. CONFLICT, and nothing is merged, when nobody may decide. */
  merge(child: Place, onConflict: "refuse" | "child_wins" | "parent_wins"): readonly ContextConflict[] {
    openNode(child.tree, child.id);
    const merged = mergeContext(this.tree, { child: child.id, onConflict });
    if (merged.kind === "conflict") throw conflict(this.id, child.id, merged.conflicts);
    this.#part(merged.tree, [child]);
    return merged.conflicts;
  }

  /** `below`: all places that hang on the child. */
  discard(child: Place, below: readonly Place[]): void {
    openNode(child.tree, child.id);
    this.#part(discardContext(this.tree, child.id), [child, ...below]);
  }

  #part(tree: ContextTree, closed: readonly Place[]): void {
    const trunk = { tree };
    for (const place of closed) place.#trunk = trunk;
    this.#trunk.tree = { ...tree, nodes: new Map([...tree.nodes].filter(([, node]) => node.kind === "open")) };
  }
}

function conflict(parent: string, child: string, conflicts: readonly ContextConflict[]): HoldfastError {
  const keys = conflicts.map(({ key }) => JSON.stringify(key));
  return new HoldfastError({
    code: "CONFLICT",
    message: `${keys.slice(0, 5).join(", ")}${keys.length > 5 ? ` and ${keys.length - 5} more` : ""} changed in ${parent} and in its fork ${child}; nothing was merged`,
    hint: 'Merge with onConflict "child_wins" or "parent_wins", or set what shall hold in both of them first.',
    data: { parent, child, conflicts },
  });
}
