import { h } from "preact";
import { renderToString } from "preact-render-to-string";
import { expect, test } from "vitest";
import type { ChangedFile, Report, RunRow } from "./api.ts";
import { ReportBody } from "./report-body.tsx";

const at = "2026-11-18T07:00:00.000Z";
const row: RunRow = {
  key: "shop/a",
  repository: "shop",
  run: {
    id: "a",
    workflow: "impl",
    work: { kind: "none" },
    checkpoints: 1,
    latest: null,
    createdAt: at,
    forkedFrom: null,
    labels: {},
    entries: 3,
    unfinishedRestore: null,
    status: { kind: "done", at },
    stage: "impl",
    iteration: 2,
  },
  statusWord: "done",
  group: "finished",
  title: "a",
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
  updatedAt: at,
  damaged: [],
};
const file = (path: string): ChangedFile => ({ path, from: null, status: "added", added: 1, removed: 0 });
const report = (patches: readonly string[]): Report => ({
  page: {
    asOf: at,
    row,
    worktree: null,
    reasonCard: null,
    inbox: null,
    undo: null,
    actions: [],
    graph: null,
    team: null,
    notes: [],
    issueText: null,
    command: "holdfast status a",
  },
  timeline: { from: at, to: at, spans: [], omitted: 0, marks: [], gaps: [], curves: { spent: [], scores: [] } },
  checkpoints: [],
  effects: [],
  files: ["a.ts", "b.ts", "c.ts"].map(file),
  patches: patches.map((path) => ({ path, patch: "", truncated: false })),
});

test("a report says how many files have changes that it leaves out", () => {
  const text = (patches: readonly string[]): string => renderToString(h(ReportBody, { report: report(patches) }));
  expect(text(["a.ts"])).toContain("The changes of 2 more files are left out");
  expect(text(["a.ts", "b.ts", "c.ts"])).not.toContain("left out");
});
