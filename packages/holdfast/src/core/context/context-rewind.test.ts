import fc from "fast-check";
import { expect, test } from "vitest";
import { mergeContext } from "./context-merge.ts";
import { rewindContext } from "./context-rewind.ts";
import {
  addTokens,
  forkContext,
  getValue,
  restoreContext,
  setValue,
  snapshotContext,
  updateValues,
} from "./context-tree.ts";
import type { ContextTree } from "./context-tree.ts";
import type { Json, JsonObject } from "../json.ts";

const fork = (tree: ContextTree, from: string, id: string): ContextTree => forkContext(tree, { from, id });
const root = restoreContext({ values: { a: 1, keep: true }, tokens: { input: 10 } });

test("a root is what was stored, no more and no less", () => {
  const stored = snapshotContext(root);
  const later = addTokens(updateValues(root, "root", { a: 2, more: [1] }), "root", { input: 5, output: 1 });
  expect(snapshotContext(rewindContext(later, "root", stored))).toEqual(stored);
});

test("a fork gets its own values back; what it had from its parent stays the parent's", () => {
  let tree = setValue(fork(root, "root", "child"), "child", "own", 1);
  const stored = snapshotContext(tree, "child");
  tree = setValue(setValue(tree, "child", "own", 2), "child", "a", 9);
  tree = rewindContext(setValue(tree, "root", "keep", false), "child", stored);
  expect(snapshotContext(tree, "child").values).toEqual({ a: 1, keep: false, own: 1 });
  expect(mergeContext(tree, { child: "child" })).toMatchObject({ kind: "merged", conflicts: [] });
});

test("tokens of a fork: those before the fork are not counted as its own again", () => {
  const tree = addTokens(fork(root, "root", "child"), "child", { input: 5 });
  const stored = snapshotContext(tree, "child");
  const back = rewindContext(addTokens(tree, "child", { input: 100, output: 7 }), "child", stored);
  const merged = mergeContext(back, { child: "child" });
  expect(merged.kind === "merged" && snapshotContext(merged.tree).tokens).toEqual({ input: 15 });
  const less = rewindContext(tree, "child", { values: {}, tokens: { input: 3 } });
  expect(snapshotContext(less, "child").tokens).toEqual({ input: 10 });
});

test("a context that is closed is not put back", () => {
  const merged = mergeContext(fork(root, "root", "child"), { child: "child" });
  if (merged.kind !== "merged") throw new Error("conflict");
  expect(() => rewindContext(merged.tree, "child", snapshotContext(root))).toThrow(/already been merged/);
});

test("whatever a fork did since, it stands again where its snapshot was taken, and its parent has not moved", () => {
  const values = fc.dictionary(fc.constantFrom("a", "b", "keep", "__proto__"), fc.jsonValue().map(asJson));
  const tokens = fc.dictionary(fc.constantFrom("input", "output"), fc.nat(1000));
  fc.assert(
    fc.property(values, tokens, values, tokens, (before, spentBefore, after, spentAfter) => {
      let tree = addTokens(updateValues(fork(root, "root", "child"), "child", before), "child", spentBefore);
      const stored = snapshotContext(tree, "child");
      tree = addTokens(updateValues(tree, "child", after), "child", spentAfter);
      const back = rewindContext(tree, "child", stored);
      expect(snapshotContext(back, "child")).toEqual(stored);
      expect(snapshotContext(back)).toEqual(snapshotContext(root));
      expect(getValue(back, "root", "a")).toBe(1);
    }),
  );
});

function asJson(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}
