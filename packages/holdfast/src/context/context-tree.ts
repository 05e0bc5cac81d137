/** The immutable tree of a context and its forks: values, tokens, fork, merge, discard and rewind. */
import type { Context } from "@holdfast/core/checkpoint";
import type { Json, JsonObject } from "@holdfast/core/json";
import { PROTO_KEY, canonicalJson, capture, findProtoKey, isPlainObject } from "@holdfast/core/values";
import { HoldfastError, describeValue, usageError } from "@holdfast/platform/error";

/**
 * A context and its forks as one immutable value: every operation returns a new tree and leaves the old one unchanged.
 * Input is copied and frozen, so later changes by the caller do not affect it.
 */
export interface ContextTree {
  readonly root: string;
  readonly nodes: ReadonlyMap<string, ContextNode>;
}

type ContextNode =
  | OpenContext
  | { readonly kind: "closed"; readonly how: "merged" | "discarded"; readonly into: string };

interface OpenContext {
  readonly kind: "open";
  readonly parent: string | null;
  /** Values that were set in this node; all others come from the parent as it is now. */
  readonly local: JsonObject;
  /** The values that were visible at the fork. A merge uses them to find out which side changed a value. */
  readonly base: JsonObject;
  /**
   * Tokens used in this node since the fork. Kept apart from `inherited`, so that a merge cannot count the parent's
   * tokens twice.
   */
  readonly used: Tokens;
  readonly inherited: Tokens;
}

type Tokens = Context["tokens"];

/** A tree with one context that holds the stored values. */
export function restoreContext(stored: Context, id = "root"): ContextTree {
  const local = copyValues(stored.values);
  const root: OpenContext = {
    kind: "open",
    parent: null,
    local,
    base: {},
    used: checkTokens(stored.tokens),
    inherited: {},
  };
  return { root: checkId(id), nodes: new Map([[id, root]]) };
}

/**
 * All values visible from this node, including inherited ones, and all tokens including those before the fork. A run
 * restored from it continues to count from there.
 */
export function snapshotContext(tree: ContextTree, id = tree.root): Context {
  return { values: valuesOf(tree, id), tokens: tokensOf(tree, id) };
}

/** undefined: neither this node nor any parent has it. */
export function getValue(tree: ContextTree, id: string, key: string): Json | undefined {
  for (let at: string | null = id; at !== null;) {
    const node: OpenContext = openNode(tree, at);
    if (Object.hasOwn(node.local, key)) return node.local[key];
    at = node.parent;
  }
  return undefined;
}

export function valuesOf(tree: ContextTree, id: string): JsonObject {
  const chain: JsonObject[] = [];
  for (let at: string | null = id; at !== null;) {
    const node: OpenContext = openNode(tree, at);
    chain.push(node.local);
    at = node.parent;
  }
  const [only, ...more] = chain;
  if (only !== undefined && more.length === 0) return copyValues(only);
  return copyValues(Object.fromEntries(chain.toReversed().flatMap((local) => Object.entries(local))));
}

/** Sets values in this node only; parents and siblings do not see them. */
export function updateValues(tree: ContextTree, id: string, values: JsonObject): ContextTree {
  const node = openNode(tree, id);
  return withNode(tree, id, { ...node, local: copyValues(laidOver(node.local, values), node.local) });
}

export function setValue(tree: ContextTree, id: string, key: string, value: Json): ContextTree {
  return updateValues(tree, id, Object.fromEntries([[key, value]]));
}

/**
 * Removes a value that was set in this node, so that a parent's value is visible again. A parent's value cannot be
 * removed from here.
 */
export function deleteValue(tree: ContextTree, id: string, key: string): ContextTree {
  const node = openNode(tree, id);
  if (!Object.hasOwn(node.local, key)) {
    throw usageError(
      `Context ${id} has no value ${JSON.stringify(key)} of its own to delete`,
      "Only what was set in a context can be deleted from it; set it to null to hide a parent's value.",
    );
  }
  const local = Object.fromEntries(Object.entries(node.local).filter(([name]) => name !== key));
  return withNode(tree, id, { ...node, local });
}

export function addTokens(tree: ContextTree, id: string, tokens: Tokens): ContextTree {
  const node = openNode(tree, id);
  return withNode(tree, id, { ...node, used: sumTokens(node.used, checkTokens(tokens)) });
}

/** All tokens up to this node: those that the parent had used at the fork, and those used since. */
export function tokensOf(tree: ContextTree, id: string): Tokens {
  const node = openNode(tree, id);
  return sumTokens(node.inherited, node.used);
}

export function forkContext(tree: ContextTree, params: { readonly from: string; readonly id: string }): ContextTree {
  if (tree.nodes.has(checkId(params.id))) throw usageError(`Context ${params.id} already exists in this tree`);
  return withNode(tree, params.id, {
    kind: "open",
    parent: params.from,
    local: {},
    base: valuesOf(tree, params.from),
    used: {},
    inherited: tokensOf(tree, params.from),
  });
}

export function openNode(tree: ContextTree, id: string): OpenContext {
  const node = tree.nodes.get(id);
  if (node?.kind === "open") return node;
  throw node === undefined
    ? usageError(`There is no context ${JSON.stringify(id)} in this tree`)
    : usageError(`Context ${id} has already been ${node.how} into ${node.into}`, "Fork again to continue.");
}

function withNode(tree: ContextTree, id: string, node: ContextNode): ContextTree {
  return { ...tree, nodes: new Map(tree.nodes).set(id, node) };
}

function sumTokens(a: Tokens, b: Tokens): Tokens {
  const names = [...Object.keys(a), ...Object.keys(b)];
  return Object.fromEntries(
    names.map((name) => [name, Math.min(Number.MAX_SAFE_INTEGER, tokenCount(a, name) + tokenCount(b, name))]),
  );
}

function tokenCount(tokens: Tokens, name: string): number {
  return Object.hasOwn(tokens, name) ? (tokens[name] ?? 0) : 0;
}

/**
 * Throws NOT_JSON, with the path, for what JSON cannot represent. Parts equal to `previous` are shared with it, so the
 * cost of a list that grew is its growth.
 */
function copyValues(values: JsonObject, previous?: JsonObject): JsonObject {
  // The capture of a plain object is a plain object.
  const copy = capture(values, previous) as JsonObject;
  const proto = findProtoKey(copy);
  if (proto !== null) throw protoKeyError("USAGE", proto);
  return copy;
}

/** A value with such a key could be saved, but no document of it could be read. */
export function protoKeyError(code: "USAGE" | "FORMAT_INVALID", path: string): HoldfastError {
  return new HoldfastError({
    code,
    message: `A checkpoint cannot have the key __proto__, at ${path}: programs take it for the prototype of the object`,
    hint: "Give the value another name.",
    data: { path },
  });
}

/**
 * Merges property descriptors, so that a getter is not called and the capture can reject it. Other unusual objects are
 * rejected here.
 */
function laidOver(local: JsonObject, values: JsonObject): JsonObject {
  const isOdd = !isPlainObject(values) || Object.getOwnPropertySymbols(values).length > 0;
  const plain = isOdd ? copyValues(values) : values;
  return Object.create(Object.prototype, {
    ...Object.getOwnPropertyDescriptors(local),
    ...Object.getOwnPropertyDescriptors(plain),
  }) as JsonObject;
}

function checkTokens(tokens: Tokens): Tokens {
  for (const [name, amount] of Object.entries(tokens)) {
    if (name === PROTO_KEY) throw protoKeyError("USAGE", `/${name}`);
    if (!Number.isSafeInteger(amount) || amount < 0) {
      throw usageError(
        `Token counts are whole numbers of 0 or more; ${JSON.stringify(name)} is ${describeValue(amount)}`,
        "Give names and amounts: addTokens({ input_tokens: 100 }).",
      );
    }
  }
  return { ...tokens };
}

function checkId(id: string): string {
  if (typeof id !== "string" || id === "")
    throw usageError(`A context needs an id, not ${describeValue(id)}`, 'Give it a name, such as "task-1".');
  return id;
}

/** A key that both sides have changed since the fork, to different values. undefined: the side does not have the key. */
export interface ContextConflict {
  readonly key: string;
  readonly base: Json | undefined;
  readonly parent: Json | undefined;
  readonly child: Json;
}

type ContextMerge =
  | { readonly kind: "merged"; readonly tree: ContextTree; readonly conflicts: readonly ContextConflict[] }
  /** Nothing was merged. */
  | { readonly kind: "conflict"; readonly conflicts: readonly ContextConflict[] };

/**
 * Merges the values and tokens of a fork into its parent, once: afterwards the fork is closed. A key that the parent
 * has changed too since the fork is a conflict. Unless `onConflict` names the winner, nothing is merged.
 */
export function mergeContext(
  tree: ContextTree,
  params: { readonly child: string; readonly onConflict?: "refuse" | "child_wins" | "parent_wins" },
): ContextMerge {
  const { child: id, onConflict = "refuse" } = params;
  const { child, parent, parentId } = ends(tree, id);
  const fork = forksOf(tree, id)[0];
  if (fork !== undefined) {
    throw usageError(
      `Context ${id} still has an open fork ${fork}`,
      "Merge or discard a context's forks before itself.",
    );
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

/** Closes a fork and its own forks. Its values are dropped; its tokens were used, so they are added to the parent. */
export function discardContext(tree: ContextTree, id: string): ContextTree {
  let rest = tree;
  for (const fork of forksOf(tree, id)) rest = discardContext(rest, fork);
  const { child, parent, parentId } = ends(rest, id);
  const paid = withNode(rest, parentId, { ...parent, used: sumTokens(parent.used, child.used) });
  return withNode(paid, id, { kind: "closed", how: "discarded", into: parentId });
}

function ends(tree: ContextTree, id: string) {
  const child = openNode(tree, id);
  if (child.parent === null) throw usageError(`Context ${id} was not forked from anything`);
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

function own(values: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(values, key) ? values[key] : undefined;
}

function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a === b || canonicalJson(a) === canonicalJson(b);
}

/**
 * Resets one context to a stored state in place; its parent and its forks remain. The stored state includes the
 * parents' values. Values that a fork began with are not its own, so they come from the parent as it is now. Tokens
 * become the stored ones, unless the fork began with more.
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
