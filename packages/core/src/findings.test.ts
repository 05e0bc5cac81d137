import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ExecutionConfig, type InputsPlane, type IssueSnapshot, emptyPlanes } from "./checkpoint.ts";
import {
  FINDING_KINDS,
  type Finding,
  type FindingKind,
  type FindingPolicy,
  type LineEdit,
  VERDICTS,
  type Verdict,
  compareInputs,
  compareSettings,
  defaultFindingPolicy,
  describeTextChange,
  diffLines,
  worstOf,
} from "./findings.ts";

describe("finding", () => {
  const worst = (findings: readonly Finding[], policy: FindingPolicy): Verdict =>
    worstOf(findings.map(({ kind }) => policy[kind]));
  const issue: IssueSnapshot = {
    number: 42,
    title: "Refresh tokens",
    body: "Do it.",
    labels: ["state:enrich", "type:feature"],
    state: "open",
    updatedAt: "2026-01-01T00:00:00Z",
  };
  const inputs = (change: Partial<IssueSnapshot> = {}, base: string | null = "c0"): InputsPlane => ({
    issue: { ...issue, ...change },
    task: null,
    base,
    plan: null,
  });
  const kindsOf = (findings: readonly Finding[]): readonly FindingKind[] => findings.map((finding) => finding.kind);
  const compare = (current: InputsPlane): readonly FindingKind[] =>
    kindsOf(compareInputs({ saved: inputs(), current }));

  test("a changed label does not hide a changed body and a moved base (crunch returned at the first difference)", () => {
    const changed = inputs({ labels: ["state:ready"], body: "Do something else.", title: "T", state: "closed" }, "c1");
    expect(compare(changed)).toEqual([
      "issue_title_changed",
      "issue_body_changed",
      "issue_labels_changed",
      "issue_closed",
      "base_moved",
    ]);
    const findings = compareInputs({ saved: inputs(), current: changed });
    expect(worst(findings, defaultFindingPolicy)).toBe("ask");
  });

  test("new, edited and removed comments are a change, with author and text; unread comments are not", () => {
    const ann = { author: "ann", body: "One.\nTwo.", at: null };
    const bob = { author: "bob\nann", body: "ann:\n> Three.", at: "2026-01-01T00:00:00Z" };
    const saved = inputs({ comments: [ann] });
    expect(compareInputs({ saved, current: inputs({ comments: [ann, bob] }) })).toMatchObject([
      {
        kind: "issue_comments_changed",
        summary: "The comments on Issue 42 have changed",
        actual: [ann, bob],
        diff: expect.stringContaining("+ bob ann, 2026-01-01T00:00:00Z:\n+ > ann:\n+ > > Three."),
      },
    ]);
    expect(compareInputs({ saved, current: inputs({ comments: [] }) })).toHaveLength(1);
    expect(compareInputs({ saved, current: inputs({ comments: [{ ...ann, body: "One.\r\nTwo.\n" }] }) })).toEqual([]);
    expect(compareInputs({ saved, current: inputs() })).toEqual([]);
    expect(compareInputs({ saved: inputs(), current: saved })).toEqual([]);
  });

  test("labels are sets: order and duplicates are not a change (crunch compared lists)", () => {
    expect(compare(inputs({ labels: ["type:feature", "state:enrich", "type:feature"] }))).toEqual([]);
    expect(compareInputs({ saved: inputs(), current: inputs({ labels: ["type:feature", "new"] }) })).toMatchObject([
      { summary: "Labels of Issue 42 have changed: -state:enrich, +new" },
    ]);
  });

  test("a changed body comes with its diff", () => {
    const findings = compareInputs({ saved: inputs({ body: "a\nb\nc" }), current: inputs({ body: "a\nB\nc" }) });
    expect(findings).toMatchObject([{ kind: "issue_body_changed", diff: "  a\n- b\n+ B\n  c" }]);
  });

  test("sets are reported in a fixed order", () => {
    const current = inputs({ labels: ["z", "type:feature", "b", "state:enrich"] });
    expect(compareInputs({ saved: inputs(), current })).toMatchObject([
      { summary: expect.stringContaining(": +b, +z"), actual: ["b", "state:enrich", "type:feature", "z"] },
    ]);
  });

  test("line ends, a trailing newline and the time of the last update are not a change", () => {
    expect(compare(inputs({ updatedAt: "2027-01-01T00:00:00Z" }))).toEqual([]);
    const windows = inputs({ body: "a\r\nb" });
    expect(compareInputs({ saved: windows, current: inputs({ body: "a\nb" }) })).toEqual([]);
    const ended = inputs({ title: "A title ", body: "a\r\nb\r\n\n" });
    expect(compareInputs({ saved: ended, current: inputs({ title: "A title", body: "a\nb" }) })).toEqual([]);
    const indented = inputs({ body: "a\n  b" });
    expect(kindsOf(compareInputs({ saved: indented, current: inputs({ body: "a\nb" }) }))).toEqual([
      "issue_body_changed",
    ]);
  });

  test("a missing issue, or another one under its number, does not count as unchanged", () => {
    expect(compare({ ...inputs(), issue: null })).toEqual(["issue_missing"]);
    expect(compare(inputs({ number: 43 }))).toEqual(["issue_missing"]);
    expect(kindsOf(compareInputs({ saved: inputs({ state: "closed" }), current: inputs() }))).toEqual([
      "issue_reopened",
    ]);
    expect(kindsOf(compareInputs({ saved: { ...inputs(), issue: null }, current: inputs() }))).toEqual([]);
  });

  test("workflow, model and tools", () => {
    const config: ExecutionConfig = { ...emptyPlanes().config, model: "m", tools: ["read", "write"] };
    const saved = { definition: "d", config };
    expect(
      compareSettings({ saved, current: { definition: "d", config: { ...config, tools: ["write", "read"] } } }),
    ).toEqual([]);
    const other = { definition: null, config: { ...config, temperature: 1, tools: ["read"] } };
    expect(kindsOf(compareSettings({ saved, current: other }))).toEqual([
      "workflow_changed",
      "model_changed",
      "tools_changed",
    ]);
  });

  test("the policy: body asks, labels warn, missing parts that Holdfast restores warn; changed files never block", () => {
    expect(defaultFindingPolicy).toMatchObject({
      issue_body_changed: "ask",
      issue_labels_changed: "warn",
      branch_missing: "warn",
      worktree_missing: "warn",
      forge_unreachable: "ask",
      files_changed: "warn",
      tree_missing: "refuse",
    });
    expect(Object.keys(defaultFindingPolicy).toSorted()).toEqual([...FINDING_KINDS].toSorted());
  });

  const finding = fc
    .constantFrom(...FINDING_KINDS)
    .map((kind): Finding => ({ kind, summary: kind, expected: null, actual: null }));
  const policy = fc.record(
    Object.fromEntries(FINDING_KINDS.map((kind) => [kind, fc.constantFrom(...VERDICTS)])) as Record<
      FindingKind,
      fc.Arbitrary<(typeof VERDICTS)[number]>
    >,
  );

  test("the worst finding decides, in any order, and more findings never improve the verdict", () => {
    fc.assert(
      fc.property(fc.array(finding), fc.array(finding), policy, (a, b, some) => {
        const rank = (findings: readonly Finding[]): number => VERDICTS.indexOf(worst(findings, some));
        expect(rank([...a, ...b])).toBe(Math.max(rank(a), rank(b)));
        expect(rank(a.toReversed())).toBe(rank(a));
        expect(worst([], some)).toBe("resume");
        for (const one of a) expect(rank(a)).toBeGreaterThanOrEqual(VERDICTS.indexOf(some[one.kind]));
      }),
    );
  });
});

describe("text diff", () => {
  const side = (edits: readonly LineEdit[], left: "removed" | "added"): string =>
    edits
      .filter((edit) => edit.kind === "same" || edit.kind === left)
      .map((edit) => edit.line)
      .join("\n");
  const changes = (edits: readonly LineEdit[]): number => edits.filter((edit) => edit.kind !== "same").length;
  const lines = fc
    .array(fc.constantFrom("a", "b", "c", "", "long line"), { maxLength: 30 })
    .map((all) => all.join("\n"));

  test("both texts can be read back from the edits, whatever they are", () => {
    fc.assert(
      fc.property(fc.oneof(lines, fc.string()), fc.oneof(lines, fc.string()), (before, after) => {
        const edits = diffLines({ before, after });
        expect(side(edits, "removed")).toBe(before.replaceAll("\r\n", "\n"));
        expect(side(edits, "added")).toBe(after.replaceAll("\r\n", "\n"));
      }),
    );
  });

  test("as few edits as the longest common run of lines allows", () => {
    fc.assert(
      fc.property(lines, lines, (before, after) => {
        const [a, b] = [before.split("\n"), after.split("\n")];
        expect(changes(diffLines({ before, after }))).toBe(a.length + b.length - 2 * longestCommon(a, b));
      }),
    );
  });

  test("beyond the bound the middle is reported as replaced, and is complete", () => {
    const before = ["head", ...Array.from({ length: 2000 }, (_, i) => `old ${i}`), "tail"].join("\n");
    const after = ["head", ...Array.from({ length: 2000 }, (_, i) => `new ${i}`), "tail"].join("\n");
    const edits = diffLines({ before, after });
    expect(side(edits, "added")).toBe(after);
    expect(changes(edits)).toBe(4000);
    expect(describeTextChange({ before, after })).toMatch(/\n… and \d+ more lines$/);
  });

  test("the shown diff has the change, two lines around it, and a mark for omitted lines", () => {
    const before = "1\n2\n3\n4\n5\n6\n7\n8\n9";
    expect(describeTextChange({ before, after: before.replace("5", "five") })).toBe(
      "…\n  3\n  4\n- 5\n+ five\n  6\n  7\n…",
    );
    expect(describeTextChange({ before: "a\r\nb", after: "a\nb\nc" })).toBe("  a\n  b\n+ c");
  });

  function longestCommon(a: readonly string[], b: readonly string[]): number {
    const table = Array.from({ length: a.length + 1 }, () => Array.from({ length: b.length + 1 }, () => 0));
    const get = (i: number, j: number): number => table[i]?.[j] ?? 0;
    for (const [i, x] of a.entries())
      for (const [j, y] of b.entries()) {
        const row = table[i + 1];
        if (row !== undefined) row[j + 1] = x === y ? get(i, j) + 1 : Math.max(get(i, j + 1), get(i + 1, j));
      }
    return get(a.length, b.length);
  }
});
