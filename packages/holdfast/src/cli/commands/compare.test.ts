import fc from "fast-check";
import { expect, test } from "vitest";
import { PAGE } from "@holdfast/test-support/sample-run";
import type { ComparedSide, Comparison } from "../../compare-runs.ts";
import { displayWidth } from "../output/text.ts";
import { choiceText, comparisonText, labelsOf } from "./compare.ts";

function side(run: string, changes: Partial<ComparedSide> = {}): ComparedSide {
  return {
    id: `${run}@7`,
    run,
    sequence: 7,
    workflow: "impl",
    work: { kind: "issue", number: 42 },
    status: { kind: "done", at: "2026-11-15T11:00:00.000Z" },
    stage: "done",
    iteration: 2,
    attempts: {},
    calls: 3,
    failures: 0,
    checks: [{ name: "gate-command", trail: [false, true], last: { pass: true, reason: "" } }],
    score: 90,
    scoreTrail: [60, 90],
    scores: [{ name: "faithful", value: 91 }],
    metrics: [],
    spent: { tokens: 120_000, microUsd: 1_250_000, milliseconds: 60_000 },
    ownSpent: null,
    time: { work: 60_000, wall: 600_000 },
    effects: [{ kind: "pull_request", target: "shop", state: "done", adopted: false, number: 7 }],
    pullRequest: { number: 7, url: "https://example.com/shop/pull/7" },
    lineage: [{ run, sequence: 7 }],
    branch: `holdfast/${run}`,
    worktree: `/work trees/${run}`,
    tree: "ab",
    uncommitted: 0,
    tags: [],
    damage: [],
    base: { kind: "base_commit", name: "1f".repeat(20), tree: "1f".repeat(20) },
    code: { files: 4, added: 30, removed: 3, changed: [] },
    ...changes,
  };
}

const cheap = side("other-way", {
  status: { kind: "waiting", for: "you", reason: "Which of the two?\x1b[31m", until: null, due: false, question: null },
  checks: [{ name: "gate-command", trail: [false], last: { pass: false, reason: "" } }],
  spent: { tokens: 9000, microUsd: 40_000, milliseconds: 5000 },
  score: null,
  scores: [],
  effects: [],
  pullRequest: null,
});
const pair = (a: string, b: string): Comparison["pairs"][number] => ({
  a,
  b,
  code: { files: 2, added: 5, removed: 1, changed: [] },
  values: null,
  diverged: {
    common: { run: "fix-login", sequence: 3 },
    beginning: "checkpoint",
    first: { shared: 2, kind: "length", a: null, b: { run: "x", entry: 1, name: "review", digest: "" } },
  },
});
const two: Comparison = {
  runs: [side("fix-login"), cheap],
  pairs: [pair("fix-login@7", "other-way@7")],
  best: [
    { dimension: "checks", ids: ["fix-login@7"] },
    { dimension: "cost", ids: ["other-way@7"] },
  ],
  diffs: [],
};

test("two runs side by side; an absent value is a dash", () => {
  expect(comparisonText(two, PAGE)).toMatchInlineSnapshot(`
    "              fix-login@7              other-way@7
    status now    done                     waiting for you
    why           -                        Which of the two?\\x1b[31m
    stage         done #2                  done #2
    code          4 files, +30 -3          4 files, +30 -3
    gate-command  passes ✗✓ *              fails
    score         90 (60 90)               -
    faithful      91                       -
    calls         3                        3
    tokens        120k tokens              9000 tokens
    cost          $1.25                    $0.04 *
    at work       60 s                     60 s
    wall clock    10 min                   10 min
    effects       pull_request #7 on shop  -

    base      all began from commit 1f1f1f1f1f1f
    between   2 files, +5 -1 from the first to the second; both come from
              fix-login@3; after 2 steps in common fix-login@7 did nothing more and
              other-way@7 did review
    best *    checks: fix-login@7; cost: other-way@7
    "
  `);
});

test("the end of a stage is named as such", () => {
  const [only] = two.pairs;
  if (only === undefined) throw new TypeError("two runs are a pair");
  const step = (name: string) => ({ run: "x", entry: 1, name, digest: "" });
  const first = { shared: 2, kind: "step", a: step("changed"), b: step("impl (stage)") } as const;
  const text = comparisonText({ ...two, pairs: [{ ...only, diverged: { ...only.diverged, first } }] }, PAGE);
  expect(text.replaceAll(/\s+/g, " ")).toContain("fix-login@7 did changed and other-way@7 did stage impl");
});

test("runs with nothing in common have no divergence", () => {
  const [only] = two.pairs;
  if (only === undefined) throw new TypeError("two runs are a pair");
  const diverged = { ...only.diverged, common: null, beginning: "none" } as const;
  const text = comparisonText({ ...two, pairs: [{ ...only, diverged }] }, PAGE).replaceAll(/\s+/g, " ");
  expect(text).toContain("they have no common beginning, so they differ from the start best");
});

test("runs that were saved by hand differ in their values", () => {
  const [only] = two.pairs;
  if (only === undefined) throw new TypeError("two runs are compared");
  const diverged = { common: null, beginning: "alike", first: null } as const;
  const between = (values: NonNullable<typeof only.values>): string => {
    const text = comparisonText({ ...two, pairs: [{ ...only, code: null, values, diverged }] }, PAGE);
    expect(text.split("\n").filter((line) => displayWidth(line) > 80)).toEqual([]);
    return text.slice(text.indexOf("between"), text.indexOf("best *"));
  };
  expect(between([])).toContain("the values are the same");
  expect(
    between([
      { path: "/count", from: 1, to: 2 },
      { path: "/extra", to: "\x1b[2J".repeat(40) },
    ]),
  ).toMatchInlineSnapshot(`
    "between   2 values differ; their files cannot be compared; no common checkpoint
      state /count 1 → 2
      state /extra added "\\u001b[2J\\u001b[2J\\u001b[2J\\…
    "
  `);
  const many = Array.from({ length: 12 }, (_, at) => ({ path: `/${at}`, from: at, to: null }));
  expect(between(many)).toMatch(
    /12 values differ[^]*\/9 9 → null\n  all of them: holdfast diff fix-login@7 other-way@7\n$/,
  );
});

test("a damaged journal is named before the data that was read from it", () => {
  const [first] = two.runs;
  if (first === undefined) throw new TypeError("two runs are compared");
  const runs = [{ ...first, damage: ["fix-login: The chain breaks at entry 3", "fix-login: it is gone"] }, cheap];
  const text = comparisonText({ ...two, runs }, PAGE).replaceAll(/\s+/g, " ");
  expect(text).toContain("damaged The journal of fix-login: The chain breaks at entry 3 (and 1 more).");
  expect(text).toContain("`holdfast verify fix-login`");
});

test("more runs are rows, and a block each; nothing is wider than the page", () => {
  const long = side("a-run-with-a-very-long-name-that-goes-on-and-on-and-on", { effects: [] });
  const three = { ...two, runs: [...two.runs, long] };
  const text = comparisonText(three, PAGE);
  expect(text.split("\n").filter((line) => displayWidth(line) > 80)).toEqual([]);
  expect(text).toMatchInlineSnapshot(`
    "RUN                     STATUS NOW       CODE             CHECKS  SCORE     COST
    fix-login@7             done             4 files, +30 -3  pass *     90    $1.25
    other-way@7             waiting for you  4 files, +30 -3  fail           $0.04 *
    a-run-with-a-…and-on@7  done             4 files, +30 -3  pass       90    $1.25

    fix-login@7
      gate-command passes ✗✓ *
      faithful     91
      calls        3
      wall clock   10 min
      effects      pull_request #7 on shop

    other-way@7
      why          Which of the two?\\x1b[31m
      gate-command fails
      calls        3
      wall clock   10 min

    a-run-with-a-very-long-name-that-goes-on-and-on-and-on@7
      gate-command passes ✗✓
      faithful     91
      calls        3
      wall clock   10 min

    base      all began from commit 1f1f1f1f1f1f
    between   2 files, +5 -1 from the first to the second; both come from
              fix-login@3; after 2 steps in common fix-login@7 did nothing more and
              other-way@7 did review
    best *    checks: fix-login@7; cost: other-way@7
    "
  `);
});

test("the chosen run and the next commands, ready to be copied", () => {
  expect(choiceText(two, { id: "fix-login@7", tag: "chosen", untagged: ["other-way@5"] }, PAGE)).toMatchInlineSnapshot(`
    "Chosen: fix-login@7, tagged chosen, and no longer other-way@5.
    Merge pull request #7:
      https://example.com/shop/pull/7
    Remove the worktree of other-way (its branch stays):
      git worktree remove '/work trees/other-way'
    Take single files of other-way along:
      holdfast cherry-pick other-way@7 PATH --into fix-login
    "
  `);
  const manual = side("fix-login", { status: { kind: "saved", holder: null }, pullRequest: null, uncommitted: 2 });
  expect(choiceText({ runs: [manual] }, { id: "fix-login@7", tag: "chosen", untagged: [] }, PAGE))
    .toMatchInlineSnapshot(`
    "Chosen: fix-login@7, tagged chosen.
    Commit 2 files that no commit has:
      cd '/work trees/fix-login' && git add -A && git commit
    Merge its branch, in your own worktree:
      git merge holdfast/fix-login
    "
  `);
});

test("a metric with the name of one of ours hides nothing", () => {
  const named = side("fix-login", { metrics: [{ name: "tokens", value: 5 }], checks: [] });
  const text = comparisonText({ ...two, runs: [named, named] }, PAGE);
  expect(text).toContain("metric tokens  5 ");
  expect(text).toContain("tokens         120k tokens");
});

test("every label appears once, and the order of each run is kept if they agree", () => {
  const labels = fc.uniqueArray(fc.constantFrom(..."abcdefgh"));
  fc.assert(
    fc.property(labels, labels, (one, other) => {
      const all = labelsOf([one, other]);
      expect(all.toSorted()).toEqual([...new Set([...one, ...other])].toSorted());
      expect(all.filter((label) => one.includes(label))).toEqual(one);
    }),
  );
});
