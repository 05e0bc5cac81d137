import * as fc from "fast-check";
import { expect, test } from "vitest";
import { compareIndexes, parseIndexEntry, type IndexEntry } from "./index-memo.ts";
import { formatIndexState, parseIndexState } from "./index-state.ts";

const path = fc.constantFrom("a", "b", "b/c", "b0", "d", "e\xff", "z z");
const id = fc.constantFrom("1".repeat(40), "2".repeat(40));
const entry = fc.record({ path, id, mode: fc.constantFrom("100644", "100755", "160000"), skip: fc.boolean() });
const index = fc
  .uniqueArray(entry, { selector: (each) => each.path })
  .map((list) => list.sort((a, b) => (a.path < b.path ? -1 : 1)));

test("the merge of two sorted lists finds what sets find", () => {
  fc.assert(
    fc.property(index, index, (user, ours) => {
      const { untracked, missing, links, sparse } = compareIndexes(user, ours);
      const theirs = new Map(user.map((each) => [each.path, each]));
      const own = new Map(ours.map((each) => [each.path, each]));
      expect([...untracked].sort()).toEqual([...own.keys()].filter((name) => !theirs.has(name)).sort());
      const files = user.filter(({ mode }) => mode !== "160000");
      const absent = files.filter(({ path: name }) => !own.has(name)).map(({ path: name }) => name);
      expect([...missing].filter(([, each]) => !each.stored).map(([name]) => name)).toEqual(absent);
      expect([...links.keys()]).toEqual(user.filter(({ mode }) => mode === "160000").map(({ path: name }) => name));
      expect(sparse).toBe(user.some(({ skip }) => skip));
    }),
  );
});

test("a path in several merge stages counts once", () => {
  const stage = (name: string): IndexEntry => ({ path: name, mode: "100644", id: "1".repeat(40), skip: false });
  const { missing, untracked } = compareIndexes(
    [stage("a"), stage("a"), stage("a"), stage("b")],
    [stage("b"), stage("c")],
  );
  expect([...missing.keys()]).toEqual(["a"]);
  expect([...untracked]).toEqual(["c"]);
});

test("what stands in for a sparse file is right only while the user's index says the same", () => {
  const sparse = (over: Partial<IndexEntry>): IndexEntry => ({
    path: "a",
    mode: "100644",
    id: "1".repeat(40),
    skip: true,
    ...over,
  });
  expect(compareIndexes([sparse({})], [sparse({})]).missing.size).toBe(0);
  for (const other of [{ skip: false }, { id: "2".repeat(40) }, { mode: "100755" }]) {
    expect(compareIndexes([sparse(other)], [sparse({})]).missing.get("a")).toMatchObject({ stored: true });
  }
});

test("lines of git's listing", () => {
  const line = `s 100755 ${"a".repeat(64)} 2\tdir/na\tme`;
  expect(parseIndexEntry(line)).toEqual({ path: "dir/na\tme", mode: "100755", id: "a".repeat(64), skip: true });
  expect(parseIndexEntry(`h 100644 ${"a".repeat(40)} 0\tx`)).toMatchObject({ path: "x", skip: false });
});

test("what is remembered comes back the same, and anything else is not believed", () => {
  const mark = fc.string();
  const state = fc.record({
    user: index,
    ours: index,
    young: fc.dictionary(path, mark),
    special: fc.array(path),
    key: fc.option(fc.string()),
  });
  fc.assert(
    fc.property(state, ({ user, ours, young, special, key }) => {
      const memo = { ...compareIndexes(user, ours), young: new Map(Object.entries(young)), special: new Set(special) };
      const before = { index: "1:2:3", boot: "b", tree: "t", userIndex: { key, paths: "p", content: "c" }, memo };
      const text = formatIndexState(before);
      expect(parseIndexState(text)).toEqual(before);
      expect(parseIndexState(text.slice(0, -1))).toBeUndefined();
      expect(parseIndexState(text.replace('"format":1', '"format":2'))).toBeUndefined();
    }),
  );
  for (const text of ["", "null", "[]", "{}", '{"format":1}']) expect(parseIndexState(text)).toBeUndefined();
});
