import { expect, test } from "vitest";
import type { RunDetails } from "../run-status.ts";
import { outcomeText } from "./execute-run.ts";

const PAGE = { width: 80, color: false, terminal: true, now: 0, offset: () => 0, program: "holdfast" };
const STATUS: RunDetails = {
  run: {
    id: "issue-42",
    createdAt: "2026-11-15T11:40:00.000Z",
    workflow: "crunch",
    work: { kind: "issue", number: 42 },
    forkedFrom: null,
    labels: {},
    state: { kind: "active" },
    unfinishedRestore: null,
    checkpoints: 0,
    latest: null,
    entries: 9,
  },
  status: { kind: "paused", reason: null, started: true },
  resumable: true,
  priority: 0,
  submitted: false,
  stage: "implementing",
  iteration: 1,
  since: null,
  scores: [],
  best: null,
  budget: null,
  graph: null,
  loop: null,
  step: null,
  last: null,
  worktree: null,
  branch: null,
  issue: null,
  pullRequest: null,
  denied: [],
  damaged: [],
  unpushed: null,
  raise: null,
  continues: null,
  restored: null,
  restart: null,
};

test("no line is wider than the page, including the first, and an address stays whole", () => {
  const reason = "All of batch 1 failed: implement-dev-python (no). Try it again, continue without it, or stop?";
  const waiting = outcomeText({ kind: "waiting", for: "you", reason, until: null }, STATUS, PAGE);
  expect(waiting.split("\n").filter((line) => line.length > 80)).toEqual([]);
  const address = `https://forge.example.org/${"long/".repeat(18)}pull/2`;
  const done = outcomeText({ kind: "done", reason: `Pull request #2 is open: ${address}` }, STATUS, PAGE);
  expect(done).toContain(address);
  const coloured = outcomeText({ kind: "waiting", for: "you", reason, until: null }, STATUS, { ...PAGE, color: true });
  // eslint-disable-next-line no-control-regex
  expect(coloured.replaceAll(/\x1b\[\d+m/g, "")).toBe(waiting);
});
