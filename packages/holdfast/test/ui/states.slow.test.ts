import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { NewEntry } from "@holdfast/core/journal";
import type { JsonObject } from "@holdfast/core/json";
import type { Lease } from "@holdfast/core/lease";
import { submissionKey } from "@holdfast/core/dispatch";
import { statusWord } from "@holdfast/core/status";
import type { Store } from "@holdfast/core/store";
import type { Inbox, RunPage, RunsPage, Timeline } from "@holdfast/dashboard/api";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import { afterAll, beforeAll, expect, test } from "vitest";
import { announceWait } from "../../src/continuation.ts";
import { openHoldfast } from "../../src/open.ts";
import { axeEverywhere, launch, noBrowser, open, visit } from "./browser.ts";
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
  /** Entries in a stage after `stage`, with a checkpoint of its own. */
  readonly later?: { readonly stage: string; readonly entries: readonly NewEntry[] };
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
  "failed-later": { later: { stage: "fatal", entries: [ended("failed")] } },
  "done-later": { later: { stage: "done", entries: [ended("done")] } },
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
  if (made.later !== undefined)
    await store.commit({
      lease,
      entries: [
        entry("stage.entered", { stage: made.later.stage, iteration: 0, stageAttempt: 2 }),
        ...made.later.entries,
      ],
      checkpoint: { trigger: "stage", planes: emptyPlanes({ workflow, stage: made.later.stage }) },
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

const without = noBrowser === null ? "" : ` (without a browser: ${noBrowser})`;
test(`\`list --json\` and the page show the same runs, in every status${without}`, async () => {
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
  const { id: parentId, digest } = (await store.latest("failed")) ?? { id: "failed@1", digest: "" };
  const parent = { id: parentId, digest } as const;
  const planes = emptyPlanes({ workflow: "impl", stage: "impl" });
  const first = { entries: [ended("failed")], checkpoint: { sequence: 1, trigger: "fork", planes, parent } } as const;
  const birth = { workflow: "impl", work: { kind: "none" }, forkedFrom: parent, first } as const;
  await store.releaseLease(await store.takeLease({ run: "failed-orphan-2", label: "test", birth }));
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
  expect(rows.length).toBe(Object.keys(STATES).length + 4);
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

  // So are those that a browser shows: in the list, on the page of each run, and in the inbox.
  if (noBrowser === null) {
    await using browser = await launch();
    const { page: tab, surprises } = await visit(browser, page, { policy: false });
    await beat();
    await open(tab, `${page.origin}/runs`);
    const shown = await tab.evaluate<readonly string[]>(
      `[...document.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row.closest("section").id,
        row.querySelector(".chip").textContent.trim(), row.querySelector(".row-now .num").textContent].join(" | "))`,
    );
    const stages = new Map(rows.map(({ key, run }) => [key, run.stage ?? ""]));
    const words = rows.map(({ key, group, statusWord: word }) => `${key} | ${group} | ${word} | ${stages.get(key)}`);
    expect(shown.map((text) => text.replace(/ · .*$/, "")).toSorted()).toEqual(words.toSorted());
    const found: string[] = await axeEverywhere(tab);
    for (const run of listed.runs) {
      await beat();
      await open(tab, `${page.origin}/r/repo-1/${run.id}`);
      const chip = (await tab.locator(".facts .chip").first().innerText()).replace(/ until .*$/, "");
      const word = run.unfinishedRestore === null ? statusWord(run.status) : "half restored";
      expect([chip, await tab.innerText(`dt:text-is("Checkpoints") + dd`)], run.id).toEqual([
        word,
        String(run.checkpoints),
      ]);
    }
    await open(tab, `${page.origin}/inbox`);
    const { items } = await page.get<Inbox>("/api/inbox");
    const asked = await tab
      .locator(".inbox-list a")
      .evaluateAll((links) => links.map((link) => link.getAttribute("href")));
    expect(asked).toEqual(items.map(({ row }) => `/inbox/${row.key}`));
    found.push(...(await axeEverywhere(tab)));
    expect([...found, ...surprises]).toEqual([]);
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
    "failed-later failed",
    "failed-limit failed",
    "failed-orphan-2 orphan",
    "half-restored damaged",
    "waits-budget budget",
    "waits-due due",
    "waits-you question",
  ]);
  expect(items.filter(({ options }) => options.length === 0).map(({ row }) => row.run.id)).toEqual([]);
  const optionsOf = (id: string) => items.find(({ row }) => row.run.id === id)?.options.map(({ label }) => label);
  // Without a question the cause is the title. An answer that stops the run stands for its abort.
  expect(items.find(({ row }) => row.run.id === "waits-you")?.title).toBe("waits for you");
  expect(optionsOf("waits-you")).toEqual(["Resume", "Abort the run"]);
  expect(optionsOf("asks")).toEqual(["yes", "no"]);
  expect(optionsOf("failed-orphan-2")).toEqual(["Fork", "Remove"]);
  expect(items.find(({ row }) => row.run.id === "failed-orphan-2")).toMatchObject({
    title: "Orphaned work of failed",
    compare: ["repo-1/failed", "repo-1/failed-orphan-2"],
  });
  const half = items.find(({ row }) => row.run.id === "half-restored");
  expect(half?.options.map(({ label }) => label)).toEqual(["Resume", "Restore @1"]);
  const crashed = await page.get<Timeline>("/api/runs/repo-1/crashed/timeline");
  expect(crashed.marks.map(({ kind }) => kind)).toContain("crash");

  const rowNow = async (id: string) => (await page.get<RunPage>(`/api/runs/repo-1/${id}`)).row;
  // A failed run offers the checkpoint that `restore --smart` picks, not the one that has failed.
  const { rollback } = await journey.json("restore", "failed-later", "--smart", "--dry-run");
  expect(rollback.chosen).toBe(1);
  expect(optionsOf("failed-later")).toEqual(["Try again from @1", "Restore @1"]);
  const failed = await page.get<RunPage>("/api/runs/repo-1/failed-later");
  expect(failed.actions.filter(({ why }) => why === null).map(({ label }) => label)).toContain("Try again from @1");
  expect(failed.reasonCard?.commands.at(-1)).toMatch(/ resume failed-later@1 --force$/);
  expect((await journey.run("status", "failed-later")).stderr).toContain("holdfast resume failed-later@1 --force");

  // Its time is over: the user continues it, unless a process waits for it.
  expect(optionsOf("waits-due")).toEqual(["Resume", "Abort the run"]);
  expect((await journey.run("status", "waits-until")).stdout).toMatch(/nothing\s+continues\s+it\s+then/);
  {
    using _waits = announceWait(store.location, "waits-due");
    expect(await rowNow("waits-due")).toMatchObject({ group: "waiting", continues: "process" });
    expect((await journey.json("status", "waits-due")).run.continues).toBe("process");
  }
  expect(await rowNow("waits-due")).toMatchObject({ group: "you", continues: null });
  await store.setMeta(submissionKey("waits-due"), "{}");
  expect(await rowNow("waits-due")).toMatchObject({ group: "waiting", continues: "worker" });
  expect((await journey.json("status", "waits-due")).run.continues).toBe("worker");
  await store.setMeta(submissionKey("waits-due"), "");

  // The time of a long call counts, for the page and for `status`.
  await beat();
  const { budget } = await rowNow("running");
  expect(budget?.countsSince).not.toBeNull();
  expect((await journey.json("status", "running")).run.budget.spent.milliseconds).toBeGreaterThan(0);

  // A done run that is restored stays done, at the place of its checkpoint, until the user continues it from there.
  const planned = await page.plan({ kind: "restore", run: "repo-1/done-later", sequence: 1, paths: null });
  expect(planned.lines.at(-1)?.texts).toEqual([
    expect.stringMatching(/^The run stays done\. To continue from there: .* resume done-later@latest --force$/),
  ]);
  await journey.json("restore", "done-later@1", "--yes");
  const back = await page.get<RunPage>("/api/runs/repo-1/done-later");
  expect(back.row).toMatchObject({ statusWord: "done", restored: 1, group: "finished", run: { stage: "impl" } });
  expect(back.reasonCard).toMatchObject({
    cause: "Restored to @1 since; nothing continues it.",
    commands: [expect.stringMatching(/ resume done-later@4 --force$/)],
  });
  expect(back.actions.find(({ action }) => action.kind === "resume")).toMatchObject({
    label: "Continue from @4",
    action: { from: 4 },
    why: null,
  });
  // What changed last comes first.
  const { rows: finished } = await page.get<RunsPage>("/api/runs?limit=200&status=done");
  expect(finished.map(({ run }) => run.id)).toEqual(["done-later", "done"]);
  expect((await journey.json("status", "done-later")).run).toMatchObject({
    status: { kind: "done" },
    stage: "impl",
    restored: 1,
    restart: 4,
  });
  const resumed = await journey.run("resume", "done-later");
  expect([resumed.status, resumed.stdout]).toEqual([
    0,
    expect.stringContaining("holdfast resume done-later@4 --force"),
  ]);
  await journey.json("restore", "done-later@3", "--yes");
  expect(await rowNow("done-later")).toMatchObject({ restored: null, run: { stage: "done" } });

  // The same rows for all repositories, by the command.
  await beat();
  const { rows: last } = await page.get<RunsPage>("/api/runs?limit=200");
  const everywhere = await journey.json("list", "--all-repositories", "--limit", "all");
  const here = everywhere.runs.filter(({ repository }: { repository: string }) => repository === "repo-1");
  expect(here.map(({ id }: { id: string }) => id)).toEqual(last.map(({ run }) => run.id));
});
