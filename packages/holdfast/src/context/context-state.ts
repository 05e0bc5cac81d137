/** The values of a context, and the cursor that points a context at its node of the shared tree. */
import type { Context as StoredContext } from "@holdfast/core/checkpoint";
import type { Json, JsonObject } from "@holdfast/core/json";
import { HoldfastError, describeList, usageError } from "@holdfast/platform/error";
import {
  type ContextConflict,
  type ContextTree,
  deleteValue,
  discardContext,
  forkContext,
  getValue,
  mergeContext,
  openNode,
  restoreContext,
  updateValues,
  valuesOf,
} from "./context-tree.ts";

/**
 * The values of a context, by name. Reads look in this context first and then in its parents as they are now. Writes
 * change this context only.
 *
 * Values are copied when set and frozen when read: to change a list, set the new list.
 *
 * @example
 * ```ts
 * context.state.set("files", ["a.ts"]);
 * const child = context.fork("review");
 * child.state.get("files"); // ["a.ts"], from the parent
 * child.state.set("files", [...child.state.get("files", []), "b.ts"]);
 * context.state.get("files"); // still ["a.ts"], until the child is merged
 * ```
 */
export class ContextState implements Iterable<readonly [string, Json]> {
  readonly #cursor: ContextCursor;

  /** @internal */
  constructor(cursor: ContextCursor) {
    this.#cursor = cursor;
  }

  /** The value in this context or in the nearest parent that has it; `undefined` (or `fallback`) if there is none. */
  get(key: string): Json | undefined;
  get<Fallback>(key: string, fallback: Fallback): Json | Fallback;
  get(key: string, fallback?: unknown): unknown {
    const { tree, id } = this.#cursor;
    const found = getValue(tree, id, key);
    return found === undefined ? fallback : found;
  }

  /** Whether this context or a parent has the value. */
  has(key: string): boolean {
    const { tree, id } = this.#cursor;
    return getValue(tree, id, key) !== undefined;
  }

  /**
   * Sets a value in this context.
   *
   * @throws {HoldfastError} `NOT_JSON`, with the path in `data`, for what JSON cannot represent: `undefined`, a
   * function, a `Date`.
   */
  set(key: string, value: Json): this {
    return this.update(Object.fromEntries([[key, value]]));
  }

  /**
   * Sets several values at once: all of them or, if one is rejected, none. From another state it takes the values that
   * were set there, without inherited ones.
   */
  update(source: JsonObject | ContextState): this {
    const values = source instanceof ContextState ? source.local : source;
    if (typeof values !== "object" || values === null || Array.isArray(values)) {
      throw usageError(
        "State is updated from an object with names and values",
        "Give the value a name: state.set(name, value).",
      );
    }
    this.#cursor.change((tree, id) => updateValues(tree, id, values));
    return this;
  }

  /**
   * Removes a value that was set in this context, so that a parent's value is visible again. `false` if there is no
   * such value at all.
   *
   * @throws {HoldfastError} `USAGE` if only a parent has the value: a child cannot remove it. Set it to `null` to hide
   * it.
   */
  delete(key: string): boolean {
    if (!this.has(key)) return false;
    this.#cursor.change((tree, id) => deleteValue(tree, id, key));
    return true;
  }

  /**
   * Removes a value that was set in this context, and returns it. If this context has none, returns `fallback`.
   *
   * @throws {HoldfastError} `USAGE` if this context has no such value and no fallback is given, even if a parent has it.
   */
  pop(key: string): Json;
  pop<Fallback>(key: string, fallback: Fallback): Json | Fallback;
  pop(key: string, ...fallback: readonly unknown[]): unknown {
    const { local } = this;
    if (fallback.length > 0 && !Object.hasOwn(local, key)) return fallback[0];
    this.#cursor.change((tree, id) => deleteValue(tree, id, key));
    return local[key];
  }

  /** Removes all values that were set in this context. The parents' values remain visible. */
  clear(): void {
    for (const key of Object.keys(this.local)) this.delete(key);
  }

  /** The values that were set in this context, without inherited ones. */
  get local(): JsonObject {
    const { tree, id } = this.#cursor;
    return Object.freeze({ ...openNode(tree, id).local });
  }

  /** Number of all visible values, including inherited ones. */
  get size(): number {
    return Object.keys(this.toJSON()).length;
  }

  /** Names of all visible values, including inherited ones. */
  keys(): readonly string[] {
    return Object.keys(this.toJSON());
  }

  /** Names and values, including inherited ones. */
  [Symbol.iterator](): Iterator<readonly [string, Json]> {
    return Object.entries(this.toJSON()).values();
  }

  /** All visible values as one frozen object; a child's value hides its parent's. */
  toJSON(): JsonObject {
    const { tree, id } = this.#cursor;
    return valuesOf(tree, id);
  }

  /**
   * `ContextState(local=1, inherited=2)`; values that a local one hides are not counted. Never throws, so that a closed
   * fork can be printed.
   */
  toString(): string {
    const { tree, id } = this.#cursor;
    const node = tree.nodes.get(id);
    if (node?.kind !== "open") return "ContextState(closed)";
    const local = Object.keys(node.local).length;
    const inherited = node.parent === null ? "" : `, inherited=${this.size - local}`;
    return `ContextState(local=${local}${inherited})`;
  }

  /** For `console.log`. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }
}

/**
 * Points a context at its node in the tree that it shares with its forks. This is the only mutable part of a context.
 * After a merge or discard the fork keeps its own copy of the tree, and the shared tree drops the fork. Its name is
 * free again, and a program that forks ten thousand times does not leak memory.
 */
export class ContextCursor {
  readonly id: string;
  #trunk: { tree: ContextTree };

  private constructor(id: string, trunk: { tree: ContextTree }) {
    this.id = id;
    this.#trunk = trunk;
  }

  static root(id: string, stored: StoredContext): ContextCursor {
    return new ContextCursor(id, { tree: restoreContext(stored, id) });
  }

  get tree(): ContextTree {
    return this.#trunk.tree;
  }

  change(next: (tree: ContextTree, id: string) => ContextTree): void {
    this.#trunk.tree = next(this.tree, this.id);
  }

  fork(id: string): ContextCursor {
    this.#trunk.tree = forkContext(this.tree, { from: this.id, id });
    return new ContextCursor(id, this.#trunk);
  }

  /** Returns the conflicts and how they were resolved. With "refuse" a conflict throws CONFLICT, and nothing is merged. */
  merge(child: ContextCursor, onConflict: "refuse" | "child_wins" | "parent_wins"): readonly ContextConflict[] {
    openNode(child.tree, child.id);
    const merged = mergeContext(this.tree, { child: child.id, onConflict });
    if (merged.kind === "conflict") throw conflict(this.id, child.id, merged.conflicts);
    this.#detach(merged.tree, [child]);
    return merged.conflicts;
  }

  /** `below`: the cursors of all descendants of the child. */
  discard(child: ContextCursor, below: readonly ContextCursor[]): void {
    openNode(child.tree, child.id);
    this.#detach(discardContext(this.tree, child.id), [child, ...below]);
  }

  #detach(tree: ContextTree, closed: readonly ContextCursor[]): void {
    const trunk = { tree };
    for (const cursor of closed) cursor.#trunk = trunk;
    this.#trunk.tree = { ...tree, nodes: new Map([...tree.nodes].filter(([, node]) => node.kind === "open")) };
  }
}

function conflict(parent: string, child: string, conflicts: readonly ContextConflict[]): HoldfastError {
  const keys = conflicts.map(({ key }) => JSON.stringify(key));
  return new HoldfastError({
    code: "CONFLICT",
    message: `${describeList(keys)} changed in ${parent} and in its fork ${child}; nothing was merged`,
    hint: 'Merge with onConflict "child_wins" or "parent_wins", or set the same value in both first.',
    data: { parent, child, conflicts },
  });
}
