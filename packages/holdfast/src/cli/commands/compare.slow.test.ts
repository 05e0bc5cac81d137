import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { type Journey, startJourney, workflowSource } from "@holdfast/test-support/cli-repositories";
import type { Holdfast } from "../../holdfast.ts";
import { openHoldfast } from "../../open.ts";
import { displayWidth } from "../output/text.ts";

let journey: Journey;
// Each test starts a dozen processes, and the machine may be busy.
vi.setConfig({ testTimeout: 600_000 });

/** Writes, optionally asks the user, tests, and reports the result. */
const WORKFLOW = `
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineWorkflow } from "holdfast";
const { WORD = "a", ASKS } = process.env;
export default defineWorkflow({
  name: "duel",
  initial: "work",
  transitions: { work: { worked: "check" }, check: { test_failed: "work", enough: "done" } },
  ends: { done: "done" },
  initialState: () => ({ round: 0 }),
  stages: {
    work: async ({ state, step, decide, workspace }) => {
      await step("plan", () => "the same for all");
      await step("edit", () => { writeFileSync(join(workspace.root, "app.txt"), WORD + state.round + "\\n"); return WORD; }, { changesFiles: true });
      if (ASKS && state.round === 0) await decide({ name: "go", question: "Continue?", options: ["yes"] });
      return { event: "worked", reason: "did it", state: { round: state.round + 1 } };
    },
    check: async ({ state, step, effect, workspace }) => {
      const text = readFileSync(join(workspace.root, "src/a.txt"), "utf8");
      const { code } = await step("test", () => ({ kind: "exited", code: state.round < 2 ? 1 : 0, output: text }));
      if (code !== 0) return { event: "test_failed", reason: "It failed", score: 40 };
      await effect({ purpose: "open", kind: "pull_request", target: "shop", payload: 1,
        lookUp: async () => ({ kind: "absent" }), act: async () => ({ kind: "done", receipt: { number: WORD === "a" ? 7 : 8 } }) });
      const scores = { style: WORD === "a" ? 80 : 90 };
      return { event: "enough", reason: "fine", score: 90, state: { ...state, scores, metrics: { tests: { passed: 3, failed: 0 } }, saw: text } };
    },
  },
});
`;

beforeAll(async () => {
  journey = await startJourney();
}, 60_000);
afterAll(() => journey.holdfast.remove());

beforeEach(async () => {
  await journey.begin();
  await journey.write("duel.mjs", workflowSource(WORKFLOW));
});

async function duel(id: string, env: Readonly<Record<string, string>>): Promise<string> {
  const args = ["run", "--task", `Duel ${id}`, "--workflow", "duel.mjs", "--json"];
  const finished = await journey.runIn(".", args, { env });
  const { run } = JSON.parse(finished.stdout.trim().split("\n").at(-1) ?? "{}");
  expect(run, finished.stderr).toBeDefined();
  return String(run.id);
}

const at80 = (...args: readonly string[]) => journey.runIn(".", args, { env: { COLUMNS: "80" } });
const rootOf = async (run: string): Promise<string> => (await journey.json("status", run)).run.worktree;

test("two runs side by side within 80 columns, as data, as a patch that applies, and one chosen", async () => {
  const [a, b] = [await duel("one", { WORD: "a" }), await duel("two", { WORD: "b" })];
  const shown = await at80("compare", a, b);
  expect(shown).toMatchObject({ status: 0, stderr: "" });
  expect(shown.stdout.split("\n").filter((line) => displayWidth(line) > 80)).toEqual([]);
  const lines = shown.stdout.replaceAll(a, "A").replaceAll(b, "B").replaceAll(/ +/g, " ");
  expect(lines).toContain("\nstatus now done done\n");
  expect(lines).toContain("\ncode 1 file, +1 -0 1 file, +1 -0\n");
  expect(lines).toContain("\ntest passes ✗✓ passes ✗✓\n");
  expect(lines).toContain("\nstyle 80 90 *\n");
  expect(lines).toContain("\neffects pull_request #7 on shop pull_request #8 on shop\n");
  expect(lines.replaceAll(/\n /g, " ")).toContain("after 1 step in common edit gave different results");
  expect(lines).toContain("score style: B@");

  const compared = await journey.json("compare", a, b, "--patch");
  expect(Object.keys(compared)).toEqual(["runs", "pairs", "best", "diffs", "choice"]);
  expect(compared.runs[0]).toMatchObject({
    run: a,
    workflow: "duel",
    status: { kind: "done" },
    checks: [{ name: "test", trail: [false, true], last: { pass: true } }],
    score: 90,
    scoreTrail: [40, 90],
    scores: [{ name: "style", value: 80 }],
    metrics: [
      { name: "tests.failed", value: 0 },
      { name: "tests.passed", value: 3 },
    ],
    effects: [{ kind: "pull_request", target: "shop", state: "done", adopted: false, number: 7 }],
    code: { files: 1, added: 1, removed: 0, changed: [{ path: "app.txt", status: "added" }] },
  });
  expect(compared.pairs).toMatchObject([
    {
      code: { files: 1, added: 1, removed: 1 },
      diverged: { common: null, beginning: "alike", first: { shared: 1, kind: "result" } },
    },
  ]);
  const turned = await journey.json("compare", b, a);
  expect([turned.runs[1].code, turned.best]).toEqual([compared.runs[0].code, compared.best]);

  await journey.write("between.patch", (await journey.run("compare", a, b, "--patch")).stdout);
  await journey.git("-C", await rootOf(a), "apply", "--check", join(journey.repository(), "between.patch"));

  const first = await at80("compare", a, b, "--choose", b);
  expect(first.stdout).toContain(`Chosen: ${b}@`);
  expect(first.stdout).toContain(`git merge holdfast/${b}\n`);
  expect(first.stdout).toContain(`git worktree remove ${await rootOf(a)}\n`);
  const { entries } = (await journey.json("list", b)).run;
  const again = await journey.json("compare", a, b, "--choose", b);
  expect(again.choice).toMatchObject({ tag: "chosen", untagged: [] });
  expect((await journey.json("list", b)).run.entries).toBe(entries);
  const changed = await journey.json("compare", a, b, "--choose", a);
  expect(changed.choice.untagged).toEqual([first.stdout.match(/Chosen: (\S+),/)?.[1]]);
  expect((await journey.json("tag", b)).tags).toEqual([]);
});

test("forks, checkpoints, a running run and one without checkpoints can all be compared", async () => {
  const a = await duel("one", { WORD: "a", ASKS: "1" });
  await journey.json("fork", `${a}@latest`, "--as", "other");
  await resumeFork("other");
  const holdfast = await openHoldfast({ cwd: journey.repository() });
  const lease = await holdfast.store.takeLease({ run: a, label: "another" });
  await holdfast.createRun({ id: "empty" });
  const compared = await journey.json("compare", a, "other", "empty", `${a}@1`);
  expect(compared.runs.map((run: { readonly status: { readonly kind: string } }) => run.status.kind)).toEqual([
    "running",
    "done",
    "saved",
    "running",
  ]);
  expect(compared.pairs).toHaveLength(6);
  expect(compared.pairs[0]).toMatchObject({ a: compared.runs[0].id, b: compared.runs[1].id });
  expect(compared.pairs[0].diverged.common).toMatchObject({ run: a });
  expect(compared.runs[2]).toMatchObject({ id: "empty", sequence: null, code: null, base: null });
  const shown = await at80("compare", a, "other", "empty", `${a}@1`, "--stat");
  expect(shown).toMatchObject({ status: 0, stderr: "" });
  expect(shown.stdout.split("\n").filter((line) => displayWidth(line) > 80)).toEqual([]);

  const self = await journey.json("compare", "other", "other");
  expect(self.pairs[0]).toMatchObject({ code: { files: 0 }, diverged: { first: null } });
  expect(self.best).toEqual([]);
  await holdfast.store.releaseLease(lease);
  await holdfast.close();

  expect(await journey.fails(2, "compare", a)).toContain("`holdfast compare` needs");
  expect(await journey.fails(2, "compare", a, "other", "--choose", "empty")).toContain("none of the compared");
  expect(await journey.fails(2, "compare", a, "other", "--patch", "--stat")).toContain("two different things");
  expect(await journey.fails(2, "compare", ...Array.from({ length: 9 }, () => a))).toContain("8 at most");
});

/** A run that waits for the user, and a fork of it with a changed file. */
async function parkedAndForked(): Promise<{ readonly a: string; readonly holdfast: Holdfast }> {
  const a = await duel("one", { WORD: "a", ASKS: "1" });
  const holdfast = await openHoldfast({ cwd: journey.repository() });
  onTestFinished(() => holdfast.close());
  await using handle = await holdfast.run(a);
  await using other = await handle.fork({ sequence: (await handle.latest())?.sequence ?? 0, id: "other" });
  await writeFile(join((await other.workspace())?.root ?? "", "src/a.txt"), "from other\n");
  await other.save();
  return { a, holdfast };
}

const sawOf = async (holdfast: Holdfast, run: string) =>
  (await holdfast.store.latest(run))?.planes.context.values["saw"];

test("a cherry-pick into a waiting run is kept when it continues", async () => {
  const { a, holdfast } = await parkedAndForked();
  const looked = await at80("cherry-pick", "other", "src/*.txt", "--into", a, "--dry-run");
  expect(looked.stdout).toContain("    M src/a.txt\n");
  const taken = await at80("cherry-pick", "other", "src/*.txt", "--into", a);
  expect(taken, taken.stderr).toMatchObject({ status: 0, stderr: "" });
  expect(taken.stdout).toContain(`To undo: holdfast restore ${a}@`);
  expect((await journey.json("cherry-pick", "other", "src/a.txt", "--into", a)).report).toBeNull();
  await journey.json("approve", a, "yes");
  const done = await journey.runIn(".", ["resume", a], { env: { WORD: "a", ASKS: "1" } });
  expect(done.status, done.stderr + done.stdout).toBe(0);
  expect(await sawOf(holdfast, a)).toBe("from other\n");
});

test("a run whose cherry-pick did not finish is restored to before it when it is resumed", async () => {
  const { a, holdfast } = await parkedAndForked();
  const { store } = holdfast;
  const newest = await store.latest("other");
  if (newest === undefined) throw new Error("nothing was saved");
  const lease = await store.takeLease({ run: "other", label: "cherry-pick" });
  const target = `other@${newest.sequence + 1}`;
  await store.commit({
    lease,
    entries: [{ kind: "restore.started", body: { target, paths: ["src"], cherryPick: `${a}@1` } }],
    checkpoint: { trigger: "before_risky", planes: newest.planes },
  });
  await store.releaseLease(lease);
  const root = (await (await holdfast.run("other")).workspace())?.root ?? "";
  await writeFile(join(root, "src/a.txt"), "half\n");
  expect(await journey.fails(4, "cherry-pick", `${a}@2`, "src", "--into", "other")).toContain(
    "Another cherry-pick into other",
  );
  await resumeFork("other");
  expect(await sawOf(holdfast, "other")).toBe("from other\n");
});

test("an impossible cherry-pick is reported with the remedy", async () => {
  const a = await duel("one", { WORD: "a", ASKS: "1" });
  await journey.json("fork", `${a}@latest`, "--as", "other");
  expect(await journey.fails(2, "cherry-pick", "other", "app.txt", "--into", "other")).toContain(
    "holdfast restore other@1 -- app.txt",
  );
  expect(await journey.fails(2, "cherry-pick", "other", "nope.txt", "--into", a)).toContain(`nor in other@1`);
  expect(await journey.fails(2, "cherry-pick", "other", "../../x", "--into", a)).toContain("is not in the worktree");
  expect(await journey.fails(2, "cherry-pick", "other@1", "app.txt", "--from", "1", "--into", a)).toContain(
    "and so does other@1",
  );
  expect(await journey.fails(2, "cherry-pick", "other", "app.txt", "--into", `${a}@1`)).toContain("Name the run alone");
  const holdfast = await openHoldfast({ cwd: journey.repository() });
  const lease = await holdfast.store.takeLease({ run: a, label: "another" });
  expect(await journey.fails(5, "cherry-pick", "other", "src", "--into", a)).toContain(`holdfast stop ${a}`);
  await holdfast.store.releaseLease(lease);
  await holdfast.close();
});

test("runs that began with other files have no common beginning, and no divergence is printed", async () => {
  const a = await duel("one", { WORD: "a" });
  await journey.write("later.txt", "new\n");
  await journey.git("add", "later.txt");
  await journey.git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "later");
  const b = await duel("two", { WORD: "a" });
  const shown = await at80("compare", a, b);
  expect(shown.stdout.replaceAll(/\s+/g, " ")).toContain(
    "they have no common beginning, so they differ from the start",
  );
  expect((await journey.json("compare", a, b)).pairs[0].diverged).toMatchObject({ common: null, beginning: "none" });
});

/** A fork asks before it publishes; the answer lets it finish. */
async function resumeFork(run: string): Promise<void> {
  const env = { WORD: "b" };
  expect(await journey.runIn(".", ["resume", run], { env })).toMatchObject({ status: 4 });
  await journey.json("approve", run, "publish");
  const resumed = await journey.runIn(".", ["resume", run], { env });
  expect(resumed.status, resumed.stderr + resumed.stdout).toBe(0);
}
