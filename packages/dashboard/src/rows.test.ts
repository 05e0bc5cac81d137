import { expect, test } from "vitest";
import type { RunRow, RunsPage } from "./api.ts";
import { NO_FILTER } from "./router.ts";
import { followRuns, holdRows, runsPath, whereOf } from "./rows.ts";

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
  updatedAt: "2026-11-18T07:00:00.000Z",
  damaged: [],
  ...more,
});
const page: RunsPage = {
  asOf: "2026-11-18T07:00:00.000Z",
  counts: { you: 0, running: 0, waiting: 0, finished: 2 },
  rows: [row("shop/a"), row("shop/b")],
  next: null,
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
  expect(followRuns(page, { event: "inbox", data: { count: 1 } })).toBe(page);
  expect(followRuns(page, { event: "removed", data: { key: "shop/c" } })).toBe(page);
});

test("a filter is part of the request", () => {
  expect(runsPath(NO_FILTER)).toBe("/api/runs");
  expect(runsPath({ ...NO_FILTER, q: "a b" }, "x")).toBe("/api/runs?q=a+b&before=x");
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

test("rows that only changed do not wait", () => {
  const next = { ...page, rows: [row("shop/a", { crashes: 2 }), row("shop/b")] };
  expect(holdRows(page, next)).toEqual({ page: next, waiting: 0 });
});
