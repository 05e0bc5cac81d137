import { expect, test } from "vitest";
import type { RunRow, RunsPage } from "./api.ts";
import { NO_FILTER, TABS, runRoute } from "./router.ts";
import {
  actWord,
  followRuns,
  holdRows,
  listCommand,
  newestEntries,
  runsPath,
  stuckWord,
  tabCommand,
  todayWord,
  whereOf,
} from "./rows.ts";

const row = (key: string, more: Partial<RunRow> = {}): RunRow => ({
  key,
  repository: "shop",
  run: {
    id: key.slice(5),
    workflow: "impl",
    work: { kind: "none" },
    checkpoints: 1,
    latest: null,
    createdAt: "2026-11-18T07:00:00.000Z",
    forkedFrom: null,
    labels: {},
    entries: 3,
    unfinishedRestore: null,
    status: { kind: "done", at: "2026-11-18T07:00:00.000Z" },
    stage: "impl",
    iteration: 2,
  },
  statusWord: "done",
  group: "finished",
  title: key,
  reason: null,
  step: null,
  scores: [],
  checks: [],
  budget: null,
  branch: null,
  pullRequest: null,
  issue: null,
  crashes: 0,
  said: null,
  ownMicroUsd: 0,
  restored: null,
  continues: null,
  updatedAt: "2026-11-18T07:00:00.000Z",
  damaged: [],
  ...more,
});
const page: RunsPage = {
  asOf: "2026-11-18T07:00:00.000Z",
  counts: { you: 0, running: 0, waiting: 0, finished: 2 },
  rows: [row("shop/a"), row("shop/b")],
  more: false,
  problems: [],
};

test("a row that stays in its group is replaced where it is", () => {
  const changed = row("shop/b", { crashes: 1 });
  expect(followRuns(page, { event: "run", data: changed })).toEqual({ ...page, rows: [row("shop/a"), changed] });
});

test.each([
  ["a row of another group", { event: "run", data: row("shop/a", { group: "you" }) }],
  ["a new row", { event: "run", data: row("shop/c") }],
  ["a removed row", { event: "removed", data: { key: "shop/a" } }],
] as const)("%s needs the server's order", (_, event) => {
  expect(followRuns(page, event)).toBe("again");
});

test("other events change nothing", () => {
  expect(followRuns(page, { event: "ping", data: { asOf: "" } })).toBe(page);
  expect(followRuns(page, { event: "removed", data: { key: "shop/c" } })).toBe(page);
});

test("a filter is part of the request", () => {
  expect(runsPath(NO_FILTER, 50)).toBe("/api/runs?limit=50");
  expect(runsPath({ ...NO_FILTER, q: "a b" }, 50)).toBe("/api/runs?q=a+b&limit=50");
});

test("stage, iteration and step are one phrase", () => {
  expect(whereOf(row("shop/a", { step: { title: "agent", since: "" } }))).toBe("impl #2 · agent");
});

test("rows that are new or in another group wait while the list is used", () => {
  const done = row("shop/a", { group: "you", crashes: 1 });
  const next = { ...page, rows: [row("shop/c"), done, row("shop/b")], counts: { ...page.counts, you: 1 } };
  const held = holdRows(page, next);
  expect(held.waiting).toBe(2);
  expect(held.page.rows).toEqual([{ ...done, group: "finished" }, row("shop/b")]);
  expect(held.page.counts).toEqual(page.counts);
});

test("a removed row goes at once, even while others wait", () => {
  const next = { ...page, rows: [row("shop/c"), row("shop/b")] };
  expect(holdRows(page, next)).toMatchObject({ waiting: 1, page: { rows: [{ key: "shop/b" }] } });
});

test("rows that only changed do not wait", () => {
  const next = { ...page, rows: [row("shop/a", { crashes: 2 }), row("shop/b")] };
  expect(holdRows(page, next)).toEqual({ page: next, waiting: 0 });
});

test("the command of the list has its filter", () => {
  expect(listCommand(NO_FILTER, null)).toBe("holdfast list --all-repositories");
  expect(listCommand({ repo: "shop", status: "failed", workflow: "impl", q: "a; b" }, "holdfast --cwd /shop")).toBe(
    "holdfast --cwd /shop list --status failed --workflow impl | grep -iF -e 'a; b'",
  );
});

test("each tab names the command that shows the same", () => {
  const commands = TABS.map((tab) => [tab, tabCommand(runRoute("shop/a", tab), row("shop/a"))]);
  expect(Object.fromEntries(commands)).toEqual({
    now: "output a",
    team: "output a",
    changes: "format export a --to html",
    conversation: "output a",
    journal: "events a",
    effects: "show a",
    checks: "format export a --to html",
    cost: "format export a --to html",
    graph: "show a --graph",
  });
  expect(tabCommand({ ...runRoute("shop/a", "journal"), entry: 48 }, row("shop/a"))).toBe(
    "events a --after 47 --limit 1 --json",
  );
});

test("a running run whose check keeps failing says so", () => {
  const checks = [
    { name: "gate", trail: [true, false, false] },
    { name: "check-1", trail: [true, false, false, false] },
  ];
  expect(stuckWord(row("shop/a", { group: "running", checks }))).toBe("check-1 fails 3 times in a row");
  expect(stuckWord(row("shop/a", { group: "running", checks: checks.slice(0, 1) }))).toBeNull();
  expect(stuckWord(row("shop/a", { group: "finished", checks }))).toBeNull();
});

test("what changed today is counted, and where nothing is asked nothing is answered", () => {
  const at = Date.parse("2026-11-18T07:00:00.000Z");
  expect(todayWord(page, at)).toBe("today 2 runs");
  // What a fork has from its parent was spent once.
  const rows = [row("shop/a", { ownMicroUsd: 500_000 }), row("shop/fork", { ownMicroUsd: 100_000 })];
  expect(todayWord({ rows, more: false }, at)).toBe("today 2 runs · $0.60");
  // Rows that are not fetched yet may be of today, too, unless an older day has begun.
  expect(todayWord({ rows, more: true }, at)).toBe("today at least 2 runs · $0.60");
  const before = row("shop/old", { updatedAt: "2026-11-15T07:00:00.000Z" });
  expect(todayWord({ rows: [...rows, before], more: true }, at)).toBe("today 2 runs · $0.60");
  expect(todayWord(page, at + 3 * 86_400_000)).toBe("");
  expect(actWord(row("shop/a"))).toBe("See why");
});

test("a journal ends where an entry is missing, so that none is left out unseen", () => {
  const entries = (...numbers: readonly number[]): { readonly entry: number }[] => numbers.map((entry) => ({ entry }));
  expect(newestEntries(entries(1, 2, 3, 7, 8, 8))).toEqual(entries(8, 7));
  expect(newestEntries(entries(1, 2, 3, 4, 5, 6, 7, 8))).toHaveLength(8);
  expect(newestEntries([])).toEqual([]);
});
