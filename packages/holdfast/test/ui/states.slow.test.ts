import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { NewEntry } from "@holdfast/core/journal";
import type { JsonObject } from "@holdfast/core/json";
import type { Lease } from "@holdfast/core/lease";
import { statusWord } from "@holdfast/core/status";
import type { Store } from "@holdfast/core/store";
import type { Inbox, RunsPage, Timeline } from "@holdfast/dashboard/api";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openHoldfast } from "../../src/open.ts";
import { startPage } from "./page-server.ts";

/** The page and `list --json` can never disagree: every status that a run can have, in one store. */

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
  await journey.begin();
}, 120_000);
afterAll(() => journey?.holdfast.remove());

const PAST = "2020-01-01T00:00:00.000Z";
const FUTURE = "2999-01-01T00:00:00.000Z";

const entry = (kind: NewEntry["kind"], body: JsonObject): NewEntry => ({ kind, body });
const waiting = (what: string, until: string | null = null, more: JsonObject = {}): NewEntry =>
  entry("run.waiting", { for: what, reason: `waits for ${what}`, until, ...more });
const ended = (outcome: string): NewEntry =>
  entry("run.ended", outcome === "done" ? { outcome } : { outcome, reason: `it ${outcome}` });

interface Made {
  readonly entries?: readonly NewEntry[];
  readonly stage?: string | null;
  readonly workflow?: string;
  readonly slot?: { readonly limit: number; readonly wait: boolean };
  /** Keeps the lease: this process is alive. */
  readonly held?: true;
}

const STATES: Readonly<Record<string, Made>> = {
  saved: { workflow: "manual", stage: "none" },
  "saved-held": { workflow: "manual", stage: "none", held: true },
  running: { held: true },
  finishing: { stage: "pr", held: true },
  working: { workflow: "ralph", held: true, slot: { limit: 1, wait: true } },
  queued: { workflow: "ralph", held: true, slot: { limit: 1, wait: true } },
  ...Object.fromEntries(
    ["you", "quota", "provider", "forge", "budget", "ci", "disk", "session"].map((what) => [
      `waits-${what}`,
      { entries: [waiting(what)] },
    ]),
  ),
  "waits-until": { entries: [waiting("quota", FUTURE)] },
  "waits-due": { entries: [waiting("quota", PAST)] },
  asks: {
    entries: [waiting("you", null, { decision: { name: "go", question: "Continue?", options: ["yes", "no"] } })],
  },
  paused: { entries: [entry("run.paused", { reason: "the user paused it" })] },
  "paused-empty": { stage: null },
  stopped: {},
  done: { entries: [ended("done")] },
  failed: { entries: [ended("failed")] },
  "failed-limit": { stage: "limit", entries: [ended("failed")] },
  aborted: { entries: [ended("aborted")] },
  "half-restored": { entries: [entry("restore.started", { target: "half-restored@1", paths: null })] },
};

async function make(store: Store, id: string, made: Made): Promise<Lease> {
  const { workflow = "impl", stage = "impl" } = made;
  const birth = { workflow, work: { kind: "task", text: `Do ${id}` } } as const;
  const lease = await store.takeLease({
    run: id,
    birth,
    label: "test",
    ...(made.slot === undefined ? {} : { slot: made.slot }),
  });
  const checkpoint = { trigger: "stage", planes: emptyPlanes({ workflow, stage: stage ?? "none" }) } as const;
  await store.commit({
    lease,
    entries: made.entries ?? [],
    ...(stage === null ? {} : { checkpoint }),
  });
  return lease;
}

/** A process that acquires the run and dies with its lease. */
const DIES = `
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import { systemClock } from "@holdfast/platform/clock";
const store = await openSqliteStore({ directory: process.argv[1], create: false, readOnly: false, clock: systemClock });
await store.takeLease({ run: process.argv[2], label: "dies" });
process.kill(process.pid, "SIGKILL");
`;

test("`list --json` and the page show the same runs, in every status", { timeout: 180_000 }, async () => {
  await using holdfast = await openHoldfast({ cwd: journey.repository() });
  const { store } = holdfast;
  const held: Lease[] = [];
  // On a slow machine, a process without a heartbeat would no longer count as running.
  const beat = async (): Promise<void> => {
    for (const lease of held) await store.renewLease(lease);
  };
  for (const [id, made] of Object.entries(STATES)) {
    const lease = await make(store, id, made);
    if (made.held === true) held.push(lease);
    else await store.releaseLease(lease);
  }
  const dead = await make(store, "crashed", {});
  await store.releaseLease(dead);
  const root = join(import.meta.dirname, "../../../..");
  await promisify(execFile)(process.execPath, ["--input-type=module", "-e", DIES, store.location, "crashed"], {
    cwd: root,
  }).catch(() => undefined);
  const signal = { by: "test", at: PAST, reason: "not needed", now: true };
  await store.releaseLease(await make(store, "abort-asked", {}));
  await store.putSignal({ ...signal, run: "abort-asked", id: "abort", kind: "abort" });
  held.push(await make(store, "pausing", {}));
  await store.putSignal({ ...signal, run: "pausing", id: "pause", kind: "pause" });

  // A command that writes makes the repository known.
  await journey.json("tag", "done@1", "good");
  await using page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
  await beat();
  const listed = await journey.json("list", "--limit", "all");
  const { rows, counts } = await page.get<RunsPage>("/api/runs?limit=200");
  const byId = (one: { readonly id: string }, other: { readonly id: string }): number => (one.id < other.id ? -1 : 1);
  expect(rows.map(({ run }) => run).toSorted(byId)).toEqual(listed.runs.toSorted(byId));
  expect(rows.length).toBe(Object.keys(STATES).length + 3);
  const kinds = new Set(rows.map(({ run }) => run.status.kind));
  expect([...kinds].toSorted()).toEqual(
    ["aborted", "crashed", "done", "failed", "paused", "queued", "running", "saved", "waiting"].toSorted(),
  );

  // The words of the page are those of the table.
  const table = (await journey.run("list", "--limit", "all")).stdout;
  for (const { run, statusWord: word } of rows) {
    const line = table.split("\n").find((text) => text.startsWith(`${run.id} `)) ?? "";
    expect(line, run.id).toContain(word);
    if (run.unfinishedRestore === null) expect(word).toBe(statusWord(run.status));
  }

  // Each status alone, as the page filters.
  for (const kind of kinds) {
    await beat();
    const one = await journey.json("list", "--status", kind, "--limit", "all");
    const { rows: same } = await page.get<RunsPage>(`/api/runs?limit=200&status=${kind}`);
    expect(same.map(({ run }) => run.id).toSorted(), kind).toEqual(
      one.runs.map(({ id }: { id: string }) => id).toSorted(),
    );
  }

  // The groups, their counts and the inbox agree.
  for (const group of ["you", "running", "waiting", "finished"] as const)
    expect(
      rows.filter((row) => row.group === group),
      group,
    ).toHaveLength(counts[group]);
  const { items } = await page.get<Inbox>("/api/inbox");
  expect(items.map(({ row, kind }) => `${row.run.id} ${kind}`).toSorted()).toEqual([
    "asks question",
    "crashed crashed",
    "failed failed",
    "failed-limit failed",
    "half-restored damaged",
    "waits-budget budget",
    "waits-you question",
  ]);
  expect(items.every(({ options }) => options.length > 0)).toBe(true);
  const crashed = await page.get<Timeline>("/api/runs/repo-1/crashed/timeline");
  expect(crashed.marks.map(({ kind }) => kind)).toContain("crash");

  // The same rows for all repositories, by the command.
  const everywhere = await journey.json("list", "--all-repositories", "--limit", "all");
  const here = everywhere.runs.filter(({ repository }: { repository: string }) => repository === "repo-1");
  expect(here.map(({ id }: { id: string }) => id)).toEqual(rows.map(({ run }) => run.id));
});
