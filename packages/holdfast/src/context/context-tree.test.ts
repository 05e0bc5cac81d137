import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { withoutProtoKey } from "@holdfast/test-support/core/json-sample";
import { emptyPlanes, parsePlanes } from "@holdfast/core/checkpoint";
import type { Json, JsonObject } from "@holdfast/core/json";
import {
  type ContextTree,
  addTokens,
  deleteValue,
  discardContext,
  forkContext,
  getValue,
  mergeContext,
  restoreContext,
  rewindContext,
  setValue,
  snapshotContext,
  tokensOf,
  updateValues,
  valuesOf,
} from "./context-tree.ts";

describe("context rewind", () => {
  const fork = (tree: ContextTree, from: string, id: string): ContextTree => forkContext(tree, { from, id });
  const root = restoreContext({ values: { a: 1, keep: true }, tokens: { input: 10 } });

  test("a root has exactly the stored values", () => {
    const stored = snapshotContext(root);
    const later = addTokens(updateValues(root, "root", { a: 2, more: [1] }), "root", { input: 5, output: 1 });
    expect(snapshotContext(rewindContext(later, "root", stored))).toEqual(stored);
  });

  test("a fork gets its own values back; inherited values stay the parent's", () => {
    let tree = setValue(fork(root, "root", "child"), "child", "own", 1);
    const stored = snapshotContext(tree, "child");
    tree = setValue(setValue(tree, "child", "own", 2), "child", "a", 9);
    tree = rewindContext(setValue(tree, "root", "keep", false), "child", stored);
    expect(snapshotContext(tree, "child").values).toEqual({ a: 1, keep: false, own: 1 });
    expect(mergeContext(tree, { child: "child" })).toMatchObject({ kind: "merged", conflicts: [] });
  });

  test("tokens of a fork: those before the fork are not counted again as its own", () => {
    const tree = addTokens(fork(root, "root", "child"), "child", { input: 5 });
    const stored = snapshotContext(tree, "child");
    const back = rewindContext(addTokens(tree, "child", { input: 100, output: 7 }), "child", stored);
    const merged = mergeContext(back, { child: "child" });
    expect(merged.kind === "merged" && snapshotContext(merged.tree).tokens).toEqual({ input: 15 });
    const less = rewindContext(tree, "child", { values: {}, tokens: { input: 3 } });
    expect(snapshotContext(less, "child").tokens).toEqual({ input: 10 });
  });

  test("a closed context is not restored", () => {
    const merged = mergeContext(fork(root, "root", "child"), { child: "child" });
    if (merged.kind !== "merged") throw new Error("conflict");
    expect(() => rewindContext(merged.tree, "child", snapshotContext(root))).toThrow(/already been merged/);
  });

  test("after any operations of a fork, a restore gives its snapshot, and its parent is unchanged", () => {
    const values = fc.dictionary(
      fc.constantFrom("a", "b", "keep", "constructor"),
      withoutProtoKey(fc.jsonValue()).map(asJson),
    );
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
});

describe("context tree", () => {
  const empty = restoreContext({ values: {}, tokens: {} });
  const fork = (tree: ContextTree, from: string, id: string): ContextTree => forkContext(tree, { from, id });

  function merged(tree: ContextTree, child: string, onConflict?: "child_wins" | "parent_wins"): ContextTree {
    const result = mergeContext(tree, { child, ...(onConflict === undefined ? {} : { onConflict }) });
    if (result.kind !== "merged") throw new Error(`conflict on ${result.conflicts.map((one) => one.key).join()}`);
    return result.tree;
  }

  describe("values", () => {
    test("a fork sees its parent's current values, and sets only its own", () => {
      let tree = fork(setValue(empty, "root", "a", 1), "root", "child");
      tree = setValue(tree, "root", "late", true);
      tree = setValue(tree, "child", "a", 2);
      expect([getValue(tree, "child", "a"), getValue(tree, "child", "late")]).toEqual([2, true]);
      expect(getValue(tree, "root", "a")).toBe(1);
      expect(getValue(deleteValue(tree, "child", "a"), "child", "a")).toBe(1);
      expect(valuesOf(tree, "child")).toEqual({ a: 2, late: true });
    });

    test("neither a parent's value nor a missing one can be deleted from a fork", () => {
      const tree = fork(setValue(empty, "root", "a", 1), "root", "child");
      expect(() => deleteValue(tree, "child", "a")).toThrow(/no value "a" of its own/);
      expect(() => deleteValue(tree, "root", "b")).toThrow(expect.objectContaining({ code: "USAGE" }));
    });

    test("what is not JSON is refused with its path", () => {
      const bad = { list: [1, Number.NaN] };
      expect(() => updateValues(empty, "root", bad)).toThrow(expect.objectContaining({ code: "NOT_JSON" }));
    });

    test("objects that are not plain are refused, however little of them is new", () => {
      const tree = setValue(empty, "root", "a", 1);
      class Odd {
        a = 1;
      }
      const accessor = Object.defineProperty({}, "b", { get: () => 1, enumerable: true });
      for (const odd of [new Odd(), { a: 1, [Symbol("s")]: 2 }, accessor]) {
        expect(() => updateValues(tree, "root", odd as object as Record<string, Json>)).toThrow(
          expect.objectContaining({ code: "NOT_JSON" }),
        );
      }
    });

    test("a list that grew shares its old elements, so that saving it costs only the growth", () => {
      const messages = Array.from({ length: 100 }, (_, n) => ({ n, text: "word ".repeat(20) }));
      const before = setValue(
        setValue(empty, "root", "other", { deep: ["x".repeat(300)] }),
        "root",
        "messages",
        messages,
      );
      messages.push({ n: 100, text: "new" });
      const after = setValue(before, "root", "messages", messages);
      const [old, now] = [before, after].map((tree) => getValue(tree, "root", "messages") as readonly Json[]);
      expect([old?.length, now?.length]).toEqual([100, 101]);
      expect(now?.[7]).toBe(old?.[7]);
      expect(getValue(after, "root", "other")).toBe(getValue(before, "root", "other"));
      expect(snapshotContext(after).values["messages"]).toBe(now);
    });

    test("names that objects inherit are ordinary names", () => {
      expect(getValue(empty, "root", "constructor")).toBeUndefined();
      const tree = setValue(empty, "root", "constructor", { evil: true });
      expect(getValue(tree, "root", "constructor")).toEqual({ evil: true });
      expect(getValue(tree, "root", "evil")).toBeUndefined();
    });

    test.each(['{"__proto__":{"evil":true}}', '{"a":[{"b":{"__proto__":1}}]}'])("%s is refused", (text) => {
      const values: JsonObject = JSON.parse(text);
      const refused = expect.objectContaining({ code: "USAGE", data: { path: expect.stringMatching(/__proto__$/) } });
      expect(() => updateValues(empty, "root", values)).toThrow(refused);
      expect(() => restoreContext({ values, tokens: {} })).toThrow(refused);
      expect(() => addTokens(empty, "root", JSON.parse('{"__proto__":1}'))).toThrow(refused);
    });

    test("changing a value after it was set or read changes nothing (orbiter shared nested objects)", () => {
      const list = [1];
      const tree = setValue(empty, "root", "list", list);
      const snapshot = snapshotContext(tree);
      list.push(2);
      expect(getValue(tree, "root", "list")).toEqual([1]);
      expect(snapshot.values).toEqual({ list: [1] });
      expect(() => (snapshot.values["list"] as Json[]).push(3)).toThrow(TypeError);
      const stored = { values: { deep: { list: [1] } }, tokens: { input: 1 } };
      const restored = restoreContext(stored);
      stored.values.deep.list.push(2);
      stored.tokens.input = 99;
      expect(snapshotContext(restored)).toEqual({ values: { deep: { list: [1] } }, tokens: { input: 1 } });
    });
  });

  describe("tokens", () => {
    test("a cascade of merges counts everything once: 50, 30 and 20 are 100", () => {
      let tree = fork(addTokens(empty, "root", { input: 50 }), "root", "child");
      tree = fork(addTokens(tree, "child", { input: 30 }), "child", "grandchild");
      tree = addTokens(tree, "grandchild", { input: 20 });
      expect(tokensOf(tree, "grandchild")).toEqual({ input: 100 });
      tree = merged(merged(tree, "grandchild"), "child");
      expect(tokensOf(tree, "root")).toEqual({ input: 100 });
    });

    test("usage of parent and siblings meanwhile is not counted again", () => {
      let tree = fork(fork(addTokens(empty, "root", { input: 10 }), "root", "a"), "root", "b");
      tree = addTokens(addTokens(addTokens(tree, "a", { input: 1 }), "b", { input: 2, output: 5 }), "root", {
        input: 100,
      });
      tree = merged(merged(tree, "a"), "b");
      expect(tokensOf(tree, "root")).toEqual({ input: 113, output: 5 });
    });

    test("a fork that used 5 after 100 shows 105 and brings 5 (orbiter could not distinguish them)", () => {
      const forked = addTokens(fork(addTokens(empty, "root", { input: 100 }), "root", "child"), "child", { input: 5 });
      expect(snapshotContext(forked, "child").tokens).toEqual({ input: 105 });
      expect(tokensOf(forked, "root")).toEqual({ input: 100 });
      expect(tokensOf(merged(forked, "child"), "root")).toEqual({ input: 105 });
    });

    test("zero usage is not an error", () => {
      expect(tokensOf(addTokens(empty, "root", { input: 0 }), "root")).toEqual({ input: 0 });
    });

    test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY])(
      "%d tokens are refused (orbiter took negatives)",
      (amount) => {
        expect(() => addTokens(empty, "root", { input: amount })).toThrow(/whole numbers of 0 or more/);
        expect(() => restoreContext({ values: {}, tokens: { input: amount } })).toThrow(/whole numbers of 0 or more/);
      },
    );
  });

  describe("merging", () => {
    const forked = fork(fork(updateValues(empty, "root", { a: 0, keep: 1 }), "root", "x"), "root", "y");

    test("twice is refused (orbiter counted tokens twice), and a merged fork is closed", () => {
      const tree = merged(addTokens(forked, "x", { input: 5 }), "x");
      expect(() => mergeContext(tree, { child: "x" })).toThrow(/already been merged into root/);
      expect(() => setValue(tree, "x", "a", 1)).toThrow(/already been merged/);
      expect(() => fork(tree, "x", "z")).toThrow(/already been merged/);
      expect(() => fork(tree, "root", "x")).toThrow(/Context x already exists in this tree/);
      expect(tokensOf(tree, "root")).toEqual({ input: 5 });
    });

    test("the root, an unknown context, and one with open forks are refused", () => {
      expect(() => mergeContext(forked, { child: "root" })).toThrow(/not forked from anything/);
      expect(() => mergeContext(forked, { child: "ghost" })).toThrow(/no context "ghost"/);
      expect(() => mergeContext(fork(forked, "x", "z"), { child: "x" })).toThrow(/open fork z/);
      expect(() => fork(forked, "root", "")).toThrow(/needs an id/);
    });

    test("changes on both sides are reported, and nothing is merged without a rule (orbiter: the last one, silently)", () => {
      let tree = setValue(setValue(forked, "x", "a", 1), "y", "a", 2);
      tree = merged(setValue(tree, "y", "only-y", true), "x");
      const conflict = { key: "a", base: 0, parent: 1, child: 2 };
      expect(mergeContext(tree, { child: "y" })).toEqual({ kind: "conflict", conflicts: [conflict] });
      const decided = mergeContext(tree, { child: "y", onConflict: "child_wins" });
      expect(decided).toMatchObject({ kind: "merged", conflicts: [conflict] });
      expect(valuesOf(merged(tree, "y", "child_wins"), "root")).toEqual({ a: 2, keep: 1, "only-y": true });
      expect(valuesOf(merged(tree, "y", "parent_wins"), "root")).toEqual({ a: 1, keep: 1, "only-y": true });
    });

    test("the same change on both sides is not a conflict; nor is a change of the parent that the fork did not touch", () => {
      let tree = setValue(setValue(forked, "x", "a", { b: 1, c: [] }), "root", "a", { c: [], b: 1 });
      tree = setValue(tree, "root", "keep", 2);
      expect(mergeContext(tree, { child: "x" })).toMatchObject({ kind: "merged", conflicts: [] });
      expect(valuesOf(merged(tree, "x"), "root")).toEqual({ a: { b: 1, c: [] }, keep: 2 });
    });

    test("a key that the parent deleted or a grandparent changed is a change too", () => {
      const deleted = deleteValue(setValue(forked, "x", "a", 1), "root", "a");
      expect(mergeContext(deleted, { child: "x" })).toMatchObject({ conflicts: [{ key: "a", base: 0, child: 1 }] });
      const above = setValue(setValue(fork(forked, "x", "z"), "z", "a", 1), "root", "a", 9);
      expect(mergeContext(above, { child: "z" })).toMatchObject({
        kind: "conflict",
        conflicts: [{ base: 0, parent: 9 }],
      });
    });

    test("a discarded fork loses its values, but not its tokens and those of its forks", () => {
      let tree = fork(addTokens(setValue(forked, "x", "a", 7), "x", { input: 3 }), "x", "z");
      tree = discardContext(addTokens(tree, "z", { input: 4 }), "x");
      expect(snapshotContext(tree)).toEqual({ values: { a: 0, keep: 1 }, tokens: { input: 7 } });
      expect(() => getValue(tree, "z", "a")).toThrow(/already been discarded/);
    });
  });

  describe("laws", () => {
    const someKey = fc.constantFrom("a", "b", "constructor");
    const someAct = fc.record({
      kind: fc.constantFrom("set", "set", "delete", "tokens", "fork", "fork", "merge", "discard"),
      on: fc.nat(),
      key: someKey,
      value: withoutProtoKey(fc.jsonValue()).map((value) => JSON.parse(JSON.stringify(value)) as Json),
      amount: fc.nat(100),
    });

    /** Does it if it can be done; what is refused must be refused as usage and change nothing. */
    function act(tree: ContextTree, one: typeof someAct extends fc.Arbitrary<infer T> ? T : never): ContextTree {
      const ids = [...tree.nodes.keys()];
      const id = ids[one.on % ids.length] ?? tree.root;
      try {
        switch (one.kind) {
          case "set":
            return setValue(tree, id, one.key, one.value);
          case "delete":
            return deleteValue(tree, id, one.key);
          case "tokens":
            return addTokens(tree, id, { [one.key]: one.amount });
          case "fork":
            return fork(tree, id, `c${ids.length}`);
          case "merge":
            return merged(tree, id, one.amount % 2 === 0 ? "child_wins" : "parent_wins");
          default:
            return discardContext(tree, id);
        }
      } catch (error) {
        expect(error).toMatchObject({ code: "USAGE" });
        return tree;
      }
    }

    const openIds = (tree: ContextTree): readonly string[] =>
      [...tree.nodes].filter(([, node]) => node.kind === "open").map(([id]) => id);

    test("every token is counted exactly once, for any forks, merges and discards", () => {
      fc.assert(
        fc.property(fc.array(someAct, { maxLength: 40 }), (acts) => {
          let tree = empty;
          const total = new Map<string, number>();
          for (const one of acts) {
            const next = act(tree, one);
            if (one.kind === "tokens" && next !== tree) total.set(one.key, (total.get(one.key) ?? 0) + one.amount);
            tree = next;
          }
          for (const id of openIds(tree))
            if (id !== "root" && openIds(tree).includes(id)) tree = discardContext(tree, id);
          expect(openIds(tree)).toEqual(["root"]);
          expect(Object.entries(tokensOf(tree, "root")).toSorted()).toEqual([...total].toSorted());
        }),
        { numRuns: 300 },
      );
    });

    test("a value set in one context is seen by it and its forks, and by no other", () => {
      fc.assert(
        fc.property(fc.array(someAct, { maxLength: 30 }), someKey, fc.nat(), (acts, key, pick) => {
          const tree = acts.reduce(act, empty);
          const ids = openIds(tree);
          const id = ids[pick % ids.length] ?? "root";
          const changed = setValue(tree, id, key, "mark");
          for (const other of ids) {
            const chain = chainOf(tree, other);
            const below = chain.includes(id);
            const hidden = chain.slice(0, chain.indexOf(id)).some((one) => hasOwnValue(tree, one, key));
            const expected = below && !hidden ? "mark" : getValue(tree, other, key);
            expect(getValue(changed, other, key)).toEqual(expected);
          }
        }),
        { numRuns: 300 },
      );
    });

    test("a snapshot restores to itself, also through JSON, and no later operation changes it", () => {
      fc.assert(
        fc.property(fc.array(someAct, { maxLength: 30 }), fc.array(someAct, { maxLength: 10 }), (acts, later) => {
          const tree = acts.reduce(act, empty);
          for (const id of openIds(tree)) {
            const snapshot = snapshotContext(tree, id);
            const text = JSON.stringify(snapshot);
            const { context } = parsePlanes({ ...emptyPlanes(), context: JSON.parse(text) });
            const restored = restoreContext(context, "again");
            expect(snapshotContext(restored)).toEqual(snapshot);
            later.reduce(act, tree);
            later.reduce(act, restored);
            expect(JSON.stringify(snapshot)).toBe(text);
            expect(snapshotContext(tree, id)).toEqual(snapshot);
          }
        }),
        { numRuns: 100 },
      );
    });

    function chainOf(tree: ContextTree, id: string): readonly string[] {
      const node = tree.nodes.get(id);
      return node?.kind === "open" ? [id, ...(node.parent === null ? [] : chainOf(tree, node.parent))] : [];
    }

    function hasOwnValue(tree: ContextTree, id: string, key: string): boolean {
      const node = tree.nodes.get(id);
      return node?.kind === "open" && Object.hasOwn(node.local, key);
    }
  });
});
