import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Action, ApplyResult, RunPage, RunsPage } from "@holdfast/dashboard/api";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
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

test(
  "a restore shows its plan, happens once, names who did it, and its undo walks back",
  { timeout: 120_000 },
  async () => {
    await saveTwo();
    await using page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here"] });
    const restore: Action = { kind: "restore", run: key(), sequence: 1, paths: null };
    const plan = await page.plan(restore);
    expect(plan).toMatchObject({ title: "Restore work to @1", command: "holdfast restore work@1 --yes" });
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
  },
);

test("tags, forks, checkpoints and removals are the commands that the plan prints", { timeout: 120_000 }, async () => {
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
  expect(await page.act({ kind: "fork", run, sequence: 2, as: "other-way" })).toMatchObject({
    kind: "done",
    text: "Forked as other-way.",
  });
  const other = run.replace("/work", "/other-way");
  expect(
    await page.act({ kind: "cherry_pick", from: run, sequence: 1, into: other, paths: ["src/a.txt"] }),
  ).toMatchObject({ kind: "done" });
  expect(await page.act({ kind: "choose", run, others: [other] })).toMatchObject({ kind: "done" });
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

test(
  "an action of another repository, an unknown run and a wrong action are refused",
  { timeout: 120_000 },
  async () => {
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
      [{ kind: "shell", run: key(), command: "id" }, /400/],
    ] as const)
      await expect(page.post("/api/plans", action), JSON.stringify(action)).rejects.toThrow(why);
  },
);

test("with --read-only there are no actions", { timeout: 120_000 }, async () => {
  await saveTwo();
  await using page = await startPage(journey.holdfast, { cwd: journey.repository(), args: ["--here", "--read-only"] });
  await expect(page.plan({ kind: "checkpoint", run: key() })).rejects.toThrow(/404/);
  expect(await page.get("/api/boot")).toMatchObject({ readOnly: true });
});
