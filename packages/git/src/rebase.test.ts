import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseCommit, parseMerge } from "./commits.ts";
import { hasConflictMarkers, parseRebase, planMove } from "./rebase.ts";
import type { TreeChange, TreeEntry } from "./tree-diff.ts";

const entry = fc.option(fc.record({ mode: fc.constant("100644"), id: fc.constantFrom("1", "2", "3") }), { nil: null });
const tree = fc.dictionary(fc.constantFrom("a", "b", "c", "d"), entry);

function diff(from: Record<string, TreeEntry | null>, to: Record<string, TreeEntry | null>): TreeChange[] {
  const paths = [...new Set([...Object.keys(from), ...Object.keys(to)])].sort();
  return paths
    .map((path) => ({ path, from: from[path] ?? null, to: to[path] ?? null }))
    .filter((change) => change.from?.id !== change.to?.id);
}

describe("planMove", () => {
  test("a mixture of both sides is finished; no file of a user is touched", () => {
    fc.assert(
      fc.property(tree, tree, tree, (from, to, now) => {
        const plan = planMove({ wanted: diff(from, to), local: diff(from, now) });
        const foreign = diff(from, now).filter(({ path, from: was, to: is }) => {
          const target = to[path] ?? null;
          const isMoved = target?.id === is?.id && was?.id !== target?.id;
          const isLoose = was === null && target === null;
          return !isMoved && !isLoose;
        });
        if (foreign.length > 0) {
          expect(plan).toEqual({ kind: "local_changes", paths: foreign.map(({ path }) => path) });
          return;
        }
        expect(plan.kind).toBe("move");
        if (plan.kind !== "move") return;
        const after = { ...now, ...Object.fromEntries(plan.changes.map((change) => [change.path, change.to])) };
        for (const path of Object.keys({ ...from, ...to })) {
          const isLoose = (from[path] ?? null) === null && (to[path] ?? null) === null;
          if (!isLoose) expect((after[path] ?? null)?.id).toBe((to[path] ?? null)?.id);
        }
      }),
      { numRuns: 500 },
    );
  });
});

test("parses the output of merge-tree: tree, paths of any bytes, and only messages about conflicts", () => {
  const output = Buffer.from(
    "8e27\0f\0odd\xff\0f\0\x001\0f\0Auto-merging\0Auto-merging f\n\x002\0f\0g\0CONFLICT (rename)\0CONFLICT (rename): f\n\0",
    "latin1",
  );
  expect(parseMerge(output)).toEqual({ tree: "8e27", conflicts: ["f", '"odd\\377"'], detail: "CONFLICT (rename): f" });
  expect(parseMerge(Buffer.from("8e27\0\0"))).toEqual({ tree: "8e27", conflicts: [], detail: "" });
  expect(parseMerge(Buffer.from("8e27\0"))).toEqual({ tree: "8e27", conflicts: [], detail: "" });
});

test.each([
  ["<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n", true],
  ["x\r\n<<<<<<< a\r\n", true],
  [">>>>>>> b", true],
  ["||||||| base\n", true],
  ["=======\nA heading\n=======\n", false],
  [" <<<<<<< indented\n<<<<<<<<< nine\n", false],
])("%j has markers: %s", (text, expected) => {
  expect(hasConflictMarkers(text, [])).toBe(expected);
  expect(hasConflictMarkers(text, ["before\n", text])).toBe(false);
});

test("a commit's headers, without its signature", () => {
  const text =
    "tree t\nparent p\nparent q\nauthor A <a> 1 +0000\ncommitter B <b> 2 +0000\nencoding latin1\ngpgsig x\n author fake\n\nauthor of the text\n\nend\n";
  expect(parseCommit(text)).toEqual({
    tree: "t",
    parents: ["p", "q"],
    author: "A <a> 1 +0000",
    committer: "B <b> 2 +0000",
    encoding: "latin1",
    message: "author of the text\n\nend\n",
  });
});

test.each(["", "{", "null", "[]", '{"version":"2"}', '{"version":"2","branch":1}'])(
  "%j is not a record of a rebase",
  (text) => {
    expect(parseRebase(text)).toBeUndefined();
  },
);
