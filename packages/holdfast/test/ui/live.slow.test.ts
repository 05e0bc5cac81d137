import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { Inbox, LiveEvent, RunPage, RunRow, RunsPage } from "@holdfast/dashboard/api";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { expect, test } from "vitest";
import { openHoldfast } from "../../src/open.ts";
import { type PageServer, startPage } from "./page-server.ts";

/** A real run in another process, killed and resumed while a page listens. */

const work = workSuite();
const TOPICS = "runs,run:shop/issue-1,log:shop/issue-1";

/** Reads events until one fits. */
async function until(
  events: AsyncGenerator<{ readonly event: string; readonly data: unknown }>,
  fits: (event: LiveEvent) => boolean,
): Promise<readonly LiveEvent[]> {
  const seen: LiveEvent[] = [];
  for (;;) {
    const { value, done } = await events.next();
    if (done === true) throw new Error(`the stream ended after ${JSON.stringify(seen.map(({ event }) => event))}`);
    // The server and this test are checked against the same types.
    const event = value as LiveEvent;
    seen.push(event);
    if (fits(event)) return seen;
  }
}

const isRow = (event: LiveEvent, fits: (row: RunRow) => boolean): boolean => event.event === "run" && fits(event.data);

async function killWhileItRuns(place: WorkPlace, page: PageServer): Promise<void> {
  const slow = await place.agent([{ ...GOOD, delayMs: 600_000 }]);
  const events = page.events(TOPICS);
  await until(events, ({ event }) => event === "ping");
  const running = place.start("run", "1", "--no-review", "--agent", slow);
  // The first command of a repository is listed while it runs.
  await until(events, ({ event }) => event === "resync");
  const { rows } = await page.get<RunsPage>("/api/runs");
  if (rows[0]?.step?.title !== "agent")
    await until(events, (event) => isRow(event, ({ step }) => step?.title === "agent"));
  running.child.kill("SIGKILL");
  await running.ended;
  // No entry says so: the lease of a dead process does.
  const crash = await until(events, (event) => isRow(event, ({ statusWord }) => statusWord === "crashed"));
  expect(crash.at(-1)).toMatchObject({ data: { key: "shop/issue-1", group: "you", statusWord: "crashed" } });
  await events.return(undefined);
}

test("a page sees a run begin, die and continue, and a page that comes back fetches again", async () => {
  const place = await work.begin();
  await using page = await startPage(place.holdfast, { cwd: place.clone });
  await killWhileItRuns(place, page);

  const before = await page.get<RunsPage>("/api/runs");
  expect(before.rows.find(({ key }) => key === "shop/issue-1")).toMatchObject({ statusWord: "crashed", crashes: 0 });
  await place.agent([GOOD]);
  const issue = join(place.remote, "holdfast-forge/issues/1.md");
  await writeFile(issue, (await readFile(issue, "utf8")).replace("What is it?", "What is it, really?"));
  const key = "shop/issue-1";
  // Nothing asks the forge until the user wants to resume.
  const unasked = await page.get<RunPage>(`/api/runs/${key}`);
  expect(unasked).toMatchObject({ issueText: { now: null }, inbox: { kind: "crashed" } });
  expect(unasked.issueText?.before).toContain("What is it?");
  const events = page.events(TOPICS);
  await until(events, ({ event }) => event === "ping");
  const plan = await page.plan({ kind: "resume", run: key, accept: [], from: null });
  expect(plan).toMatchObject({ button: "Accept and resume", action: { accept: ["issue_body_changed"] } });
  await until(events, ({ event }) => event === "resync");
  const asked = await page.get<RunPage>(`/api/runs/${key}`);
  expect(asked.issueText?.now).toContain("What is it, really?");
  const { items } = await page.get<Inbox>("/api/inbox");
  expect(items).toMatchObject([
    { kind: "findings", options: [{ label: "Accept and resume" }, { label: "Abort the run" }] },
  ]);
  expect(items[0]?.evidence[0]?.lines).toContain("+ What is it, really?");
  // The page resumes it: the command runs in a process of its own.
  const result = await page.act({ kind: "resume", run: key, accept: [], from: null });
  expect(result).toMatchObject({ kind: "done" });
  const seen = await until(events, (event) => isRow(event, ({ statusWord }) => statusWord === "done"));
  expect(seen.filter(({ event }) => event === "log").length).toBeGreaterThan(0);
  const numbers = seen.flatMap((event) => (event.event === "entry" ? [event.data.entry] : []));
  expect(numbers.length).toBeGreaterThan(2);
  expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
  const { rows } = await page.get<RunsPage>("/api/runs");
  expect(rows.find((row) => row.key === key)).toMatchObject({ statusWord: "done", crashes: 1 });
  expect((await page.get<Inbox>("/api/inbox")).items).toEqual([]);
  // The journal says who resumed it.
  const { entries } = await place.json("events", "issue-1", "--limit", "all");
  const leases = entries.filter(({ kind }: { kind: string }) => kind === "lease.taken");
  expect(JSON.stringify(leases[0])).not.toContain("(page)");
  expect(JSON.stringify(leases.at(-1))).toMatch(/by \S+ \(page\)/);

  // Another page is connected, so the server watched all the time. A page that comes back fetches what it missed.
  const again = page.events(TOPICS);
  expect((await until(again, () => true)).map(({ event }) => event)).toEqual(["resync"]);
  await again.return(undefined);
  await events.return(undefined);
});

test("thousands of entries at once reach a page that reads, and delay no request", async () => {
  const place = await work.begin();
  // A command enters the repository in the list.
  await place.run("checkpoint", "--run", "saved");
  await using page = await startPage(place.holdfast, { cwd: place.clone });
  await using holdfast = await openHoldfast({ cwd: place.clone });
  const { store } = holdfast;
  const birth = { workflow: "impl", work: { kind: "task", text: "Do it" } } as const;
  const lease = await store.takeLease({ run: "issue-1", birth, label: "test" });
  const { rows } = await page.get<RunsPage>("/api/runs");
  const events = page.events(`run:${rows.find(({ run }) => run.id === "saved")?.repository}/issue-1`);
  await until(events, ({ event }) => event === "ping");
  await store.commit({
    lease,
    entries: Array.from({ length: 8000 }, (_, at) => ({ kind: "note", body: { text: `note ${at}` } })),
    checkpoint: { trigger: "stage", planes: emptyPlanes({ workflow: "impl", stage: "impl" }) },
  });
  const isEntry = (event: LiveEvent, number: number): boolean => event.event === "entry" && event.data.entry >= number;
  const first = await until(events, (event) => isEntry(event, 1000));
  let isSent = false;
  const rest = until(events, (event) => isEntry(event, 8000)).finally(() => (isSent = true));
  await page.get("/api/boot");
  expect(isSent).toBe(false);
  const numbers = [...first, ...(await rest)].flatMap((event) => (event.event === "entry" ? [event.data.entry] : []));
  // The stream of a page that reads is never cut off, so it has each entry once.
  const [begin = 0] = numbers;
  expect(begin).toBeLessThan(4);
  expect(numbers).toEqual(numbers.map((_, at) => begin + at));
  await store.releaseLease(lease);
  await events.return(undefined);
});
