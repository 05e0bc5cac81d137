import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { Action, ApplyResult, Inbox, RunPage, RunsPage } from "@holdfast/dashboard/api";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { openHoldfast } from "../../src/open.ts";
import { startPage } from "./page-server.ts";

/** Every action of the page runs the real command in a real repository. */

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
}, 120_000);
afterAll(() => journey?.holdfast.remove());
beforeEach(() => journey.begin());

const key = (): string => `${journey.repository().split("/").at(-1)}/work`;

async function saveTwo(): Promise<void> {
  await journey.json("checkpoint", "--run", "work", "--name", "one");
  await journey.write("src/a.txt", "two\n");
  await journey.write("src/new.txt", "new\n");
  await journey.json("checkpoint", "work", "--name", "two");
}

test("a restore shows its plan, happens once, names who did it, and its undo walks back", async () => {
  await saveTwo();
  await using page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
  const restore: Action = { kind: "restore", run: key(), sequence: 1, paths: null };
  const plan = await page.plan(restore);
  expect(plan).toMatchObject({ title: "Restore work to @1" });
  expect(plan.command).toMatch(/^holdfast --cwd \S+ restore work@1 --yes$/);
  expect(plan.lines.find(({ title }) => title === "Files")?.texts).toEqual([
    "1 file written, 1 removed",
    "~ src/a.txt",
    "− src/new.txt",
  ]);
  expect(await journey.read("src/a.txt")).toBe("two\n");

  // The world moves after the plan: nothing happens, and the new plan comes back.
  await journey.write("src/a.txt", "three\n");
  const apply = (digest: string, key = "first-key"): ReturnType<typeof page.send> =>
    page.send({
      method: "POST",
      path: `/api/plans/${plan.id}/apply`,
      headers: { authorization: `Bearer ${page.token}`, "content-type": "application/json" },
      body: JSON.stringify({ digest, key }),
    });
  const refused = await apply(plan.digest);
  expect(refused.status).toBe(409);
  const changed = JSON.parse(refused.text) as Extract<ApplyResult, { kind: "changed" }>;
  const unsaved = ["src/a.txt has changes that no checkpoint has; they are saved first."];
  expect(plan.lines.find(({ title }) => title === "Not saved yet")).toBeUndefined();
  expect(changed.plan.lines.find(({ title }) => title === "Not saved yet")?.texts).toEqual(unsaved);
  expect(changed.plan.digest).not.toBe(plan.digest);
  expect(await journey.read("src/a.txt")).toBe("three\n");

  const [one, two] = await Promise.all([apply(changed.plan.digest), apply(changed.plan.digest)]);
  expect(one.text).toBe(two.text);
  expect((await apply(changed.plan.digest, "another-key")).status).toBe(400);
  const result = JSON.parse(one.text) as Extract<ApplyResult, { kind: "done" }>;
  expect(result.text).toBe("Restored to @1: 1 file written, 1 removed. Saved before as @3.");
  expect(await journey.read("src/a.txt")).toBe("one\n");
  const { entries } = await journey.json("events", "work", "--limit", "all");
  const restores = entries.filter(({ kind }: { kind: string }) => kind === "restore.finished");
  expect(restores).toHaveLength(1);
  expect(JSON.stringify(entries)).toMatch(/"label":"holdfast work, by \S+ \(page\)"/);

  const { undo } = await page.get<RunPage>(`/api/runs/${key()}`);
  expect(undo).toEqual({ text: "Restored to @1; saved before as @3", action: result.undo });
  expect((await page.act(undo?.action ?? restore)).kind).toBe("done");
  expect(await journey.read("src/a.txt")).toBe("three\n");
  expect(await readFile(join(journey.repository(), "src/new.txt"), "utf8")).toBe("new\n");
  // The undo is not offered as something to undo.
  expect((await page.get<RunPage>(`/api/runs/${key()}`)).undo).toBeNull();

  // The report as a file looks like that of the page: its style sheet is not escaped.
  const { document } = await journey.json("format", "export", "work", "--to", "html");
  const [, css = ""] = /<style>([^<]*)<\/style>/.exec(document) ?? [];
  expect(css).toMatch(/--mono:[^;]*"/);
  expect(css).not.toMatch(/&(?:quot|amp|lt|gt);/);
  expect(document).not.toContain("<script");
});

test("a file whose name is masked is named where a restore would change what no checkpoint has", async () => {
  // Made up, and of the form that a forge gives.
  const path = `src/ghp_${"a1B2".repeat(9)}.txt`;
  await journey.write(path, "one\n");
  await saveTwo();
  await journey.write(path, "two\n");
  await using page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
  const { lines } = await page.plan({ kind: "restore", run: key(), sequence: 1, paths: null });
  expect(lines.find(({ title }) => title === "Not saved yet")?.texts).toEqual([
    "src/***.txt has changes that no checkpoint has; they are saved first.",
  ]);
});

test("tags, forks, checkpoints and removals are the commands that the plan prints", async () => {
  await saveTwo();
  await using page = await startPage(journey.holdfast, { cwd: journey.repository() });
  const run = key();
  expect(await page.act({ kind: "tag", run, sequence: 1, name: "good" })).toMatchObject({
    kind: "done",
    undo: { kind: "untag", run, sequence: 1, name: "good" },
  });
  const { undo } = await page.get<RunPage>(`/api/runs/${run}`);
  expect(undo).toMatchObject({ text: "Tagged @1 as good", action: { kind: "untag", name: "good" } });
  expect(await page.act({ kind: "untag", run, sequence: 1, name: "good" })).toMatchObject({ kind: "done" });
  // What the plan of a fork calls its undo is possible, as long as nothing was added to the fork.
  const twin = run.replace("/work", "/twin");
  expect(await page.act({ kind: "fork", run, sequence: 2, as: "twin" })).toMatchObject({ kind: "done" });
  const { worktree } = await page.get<RunPage>(`/api/runs/${twin}`);
  const mine = join(worktree ?? "", "mine.txt");
  await writeFile(mine, "mine\n");
  await expect(page.plan({ kind: "remove", run: twin })).rejects.toThrow(/uncommitted file.* \(.*mine\.txt/);
  await rm(mine);
  expect(await page.act({ kind: "remove", run: twin })).toMatchObject({ kind: "done" });
  const other = run.replace("/work", "/other-way");
  expect(await page.act({ kind: "fork", run, sequence: 2, as: "other-way" })).toMatchObject({
    kind: "done",
    text: "Forked as other-way. Resume it to start.",
    run: other,
  });
  expect(
    await page.act({ kind: "cherry_pick", from: run, sequence: 1, into: other, paths: ["src/a.txt"] }),
  ).toMatchObject({ kind: "done" });
  expect(await page.act({ kind: "choose", run, others: [other] })).toMatchObject({
    kind: "done",
    undo: { kind: "untag", run, sequence: 2, name: "chosen" },
  });
  expect(await page.get(`/api/compare?runs=${run},${other}`)).toMatchObject({ chosen: [run] });
  // The journal says who did it.
  const { entries } = await journey.json("events", "work", "--limit", "all");
  const tags = entries.filter(({ kind }: { kind: string }) => kind.startsWith("tag."));
  expect(tags.map(({ kind }: { kind: string }) => kind)).toEqual(["tag.added", "tag.removed", "tag.added"]);
  for (const { body } of tags) expect(body.by).toMatch(/^\S+ \(page\)$/);
  await writeFile(join(journey.repository(), "src/a.txt"), "four\n");
  expect(await page.act({ kind: "checkpoint", run })).toMatchObject({ kind: "done", text: "Saved work@3." });
  // The fork has commits or files that nothing else has, or was forked from it: the CLI's refusal is the page's.
  await expect(page.plan({ kind: "remove", run })).rejects.toThrow(/NEEDS_DECISION: work is not removed/);
  const { rows, counts } = await page.get<RunsPage>(`/api/runs?repo=${run.split("/")[0]}`);
  expect(rows.map(({ run: { id } }) => id).toSorted()).toEqual(["other-way", "work"]);
  expect(counts).toEqual({ you: 0, running: 0, waiting: 0, finished: 2 });
});

test("an action of another repository, an unknown run and a wrong action are refused", async () => {
  await saveTwo();
  await using page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
  for (const [action, why] of [
    [{ kind: "restore", run: "nowhere/work", sequence: 1, paths: null }, /404/],
    [{ kind: "restore", run: key().replace("work", "no-run"), sequence: 1, paths: null }, /404/],
    [{ kind: "restore", run: key(), sequence: 99, paths: null }, /404/],
    [{ kind: "restore", run: key(), sequence: 1, paths: ["../../etc/passwd"] }, /400/],
    [{ kind: "restore", run: key(), sequence: 1, paths: ["/etc/passwd"] }, /400/],
    [{ kind: "fork", run: key(), sequence: 1, as: "--help" }, /400/],
    [{ kind: "tag", run: key(), sequence: 1, name: "--delete" }, /400/],
    [{ kind: "answer", run: key(), question: "q", answer: "--by=x", note: null, resume: false }, /400/],
    [{ kind: "resume", run: key(), accept: ["--yolo"] }, /400/],
    [{ kind: "fork", run: key(), sequence: 1, as: "work" }, /409 RUN_EXISTS/],
    [{ kind: "answer", run: key(), question: "q", answer: "yes", note: null, resume: false }, /404 NOTHING_TO_RESUME/],
    [{ kind: "shell", run: key(), command: "id" }, /400/],
  ] as const)
    await expect(page.post("/api/plans", action), JSON.stringify(action)).rejects.toThrow(why);

  // A store that is damaged and then repaired can be read again, and the same click does what it did not do.
  const { id, digest } = await page.plan({ kind: "tag", run: key(), sequence: 1, name: "kept" });
  const apply = () => page.post<ApplyResult>(`/api/plans/${id}/apply`, { digest, key: "same-click" });
  const database = join(journey.repository(), ".git/holdfast/store.db");
  const whole = await readFile(database);
  await writeFile(database, Buffer.concat([Buffer.from("garbage!".repeat(512)), whole.subarray(4096)]));
  const damaged = await page.get<RunsPage>("/api/runs");
  expect(damaged).toMatchObject({ rows: [], problems: [{ problem: { code: "STORE_CORRUPT" } }] });
  await expect(apply()).rejects.toThrow(/STORE_CORRUPT/);
  // The page starts in a repository whose store is damaged, too.
  await using other = await startPage(journey.holdfast, { cwd: journey.repository() });
  expect((await other.get<RunsPage>("/api/runs")).problems).toMatchObject([{ problem: { code: "STORE_CORRUPT" } }]);
  await writeFile(database, whole);
  expect(await page.get<RunsPage>("/api/runs")).toMatchObject({ rows: [{ key: key() }], problems: [] });
  expect(await apply()).toMatchObject({ kind: "done" });
});

/** A run whose process asks and ends. Its workflow is none that this version has. */
async function askUser(): Promise<void> {
  await using holdfast = await openHoldfast({ cwd: journey.repository() });
  const { store } = holdfast;
  const birth = { workflow: "impl", work: { kind: "task", text: "Do it" } } as const;
  const lease = await store.takeLease({ run: "asks", birth, label: "test" });
  const decision = { name: "go", question: "Continue?", options: ["yes", "no"] };
  const body = { for: "you", reason: "asks", until: null, decision };
  const checkpoint = { trigger: "stage", planes: emptyPlanes({ workflow: "impl", stage: "impl" }) } as const;
  await store.commit({ lease, entries: [{ kind: "run.waiting", body }], checkpoint });
  await store.releaseLease(lease);
}

test("a plan for a question is not applied when the run asks the same again", async () => {
  await askUser();
  await using page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
  const run = key().replace("/work", "/asks");
  const answer: Action = { kind: "answer", run, question: "go", answer: "yes", note: null, resume: false };
  const plans = [await page.plan(answer), await page.plan({ kind: "abort", run })];
  // Another tab or the terminal answers, and the run continues until it asks again.
  await journey.json("approve", "asks", "yes");
  await askUser();
  for (const { id, digest } of plans)
    await expect(page.post(`/api/plans/${id}/apply`, { digest, key: `old-${id}` }), id).rejects.toThrow(/^409/);
  const { row } = await page.get<RunPage>(`/api/runs/${run}`);
  expect(row).toMatchObject({ group: "you", run: { status: { kind: "waiting" } } });
  expect(await page.act(answer)).toMatchObject({ kind: "done" });
});

test("an answer never says that the run continues if it asks something else", async () => {
  await askUser();
  const run = key().replace("/work", "/asks");
  await using page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
  const answer: Action = { kind: "answer", run, question: "go", answer: "yes", note: null, resume: true };
  expect(await page.act(answer)).toEqual({
    kind: "done",
    text: "Answered. The run does not continue yet: what changed since it stopped needs you.",
    undo: null,
    run,
  });
  const { items } = await page.get<Inbox>("/api/inbox");
  expect(items).toMatchObject([{ row: { key: run }, kind: "findings" }]);
  // The command says so as well.
  const resumed = await journey.run("resume", "asks", "--detach");
  expect(resumed.status).toBe(4);
  expect(resumed.stdout).toContain("holdfast resume asks --accept workflow_changed");
});

/** Milliseconds after which the server dies: before, in and after the command. */
const MOMENTS = [["0"], ["200"], ["400"], ["600"], ["900"], ["1300"]] as const;

test.each(sampleBySeed(MOMENTS, 1))(
  "an action whose server is killed after %s ms is done once or not at all",
  async (moment) => {
    await saveTwo();
    const page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
    await using _page = page;
    const restore: Action = { kind: "restore", run: key(), sequence: 1, paths: null };
    const plan = await page.plan(restore);
    const applying = page
      .post(`/api/plans/${plan.id}/apply`, { digest: plan.digest, key: "killed-key" })
      .catch(() => null);
    await Promise.race([applying, sleep(Number(moment))]);
    page.child.kill("SIGKILL");
    await applying;

    await using next = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
    // The command may end after its server.
    let { row } = await next.get<RunPage>(`/api/runs/${key()}`);
    for (; row.run.status.kind === "saved" && row.run.status.holder !== null; await sleep(100))
      ({ row } = await next.get<RunPage>(`/api/runs/${key()}`));
    const finished = async (): Promise<number> => {
      const { entries } = await journey.json("events", "work", "--limit", "all");
      return entries.filter(({ kind }: { kind: string }) => kind === "restore.finished").length;
    };
    const done = await finished();
    expect(done).toBeLessThanOrEqual(1);
    if (row.run.unfinishedRestore === null)
      expect(await journey.read("src/a.txt")).toBe(done === 1 ? "one\n" : "two\n");
    else expect(row).toMatchObject({ group: "you", statusWord: "half restored" });
    // The same action completes it: no lease and no lock is in the way.
    expect(await next.act(restore)).toMatchObject({ kind: "done" });
    expect(await journey.read("src/a.txt")).toBe("one\n");
    expect((await next.get<RunPage>(`/api/runs/${key()}`)).row.statusWord).toBe("saved");
  },
);

test("with --read-only there are no actions", async () => {
  await saveTwo();
  await using page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here", "--read-only"] });
  await expect(page.plan({ kind: "checkpoint", run: key() })).rejects.toThrow(/404/);
  expect(await page.get("/api/boot")).toMatchObject({ readOnly: true });
  // Nothing is offered that the server refuses.
  await journey.json("tag", "work@1", "good");
  await journey.json("fork", "work@1", "--as", "other");
  expect(await page.get(`/api/runs/${key()}`)).toMatchObject({ actions: [], undo: null });
  expect(await page.get(`/api/runs/${key()}/checkpoints/1`)).toMatchObject({ actions: [] });
  const other = key().replace("/work", "/other");
  expect(await page.get(`/api/compare?runs=${key()},${other}`)).toMatchObject({ choose: [] });
});
