import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import type { RunPage, RunsPage } from "@holdfast/dashboard/api";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { openHoldfast } from "../src/open.ts";
import { startPage } from "./ui/page-server.ts";

/* The command with a store in PostgreSQL: HOLDFAST_STORE is all that is set. */

const missing = postgresMissing();
beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

const work = workSuite();
const HANG = { when: { role: "impl" }, edits: [{ do: "write", path: "half.txt", text: "half\n" }], hang: true };
/** Short: it is masked by its place in the URL, not by its length. */
const PASSWORD = "pw7q";

async function begin(): Promise<{
  readonly place: WorkPlace;
  readonly home: string;
  readonly env: Record<string, string>;
  readonly url: string;
  run(...args: readonly string[]): ReturnType<WorkPlace["run"]>;
}> {
  const place = await work.begin();
  const home = `${place.clone}.home`;
  await mkdir(home);
  const url = (await sharedPostgres()).url().replace("//holdfast@", `//holdfast:${PASSWORD}@`);
  const env = { HOME: home, HOLDFAST_STORE: url };
  return { place, home, env, url, run: (...args) => place.holdfast.run(args, { cwd: place.clone, env }) };
}

function filesBelow(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

test("a run that is killed is resumed and finished, and no file or output has the password", async () => {
  const { place, home, env, url, run } = await begin();
  const absent = await run("list");
  expect(absent).toMatchObject({
    status: 3,
    stderr: expect.stringMatching(/which HOLDFAST_STORE names[^]*Check the URL/) as string,
  });
  const agent = await place.agent([HANG]);
  const child = place.holdfast.start(["run", "1", "--no-review", "--agent", agent], { cwd: place.clone, env });
  onTestFinished(() => void child.kill("SIGKILL"));
  while (!existsSync(`${place.clone}-worktrees/issue-1/half.txt`)) {
    expect(child.exitCode).toBeNull();
    await sleep(50);
  }
  expect((await run("status", "issue-1")).stdout).toContain("running");
  const held = await run("resume", "issue-1");
  expect(held.stderr).toContain("LEASE_HELD");
  expect((await run("store", "copy", url, join(home, "copy"), "issue-1")).stderr).toContain("LEASE_HELD");
  const left = await run("store", "copy", url, join(home, "copy"));
  expect(left).toMatchObject({ status: 5, stdout: expect.stringMatching(/^Not copied: issue-1\. /) });
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("close", resolve));
  expect((await run("status", "issue-1")).stdout).toContain("crashed");
  await place.agent([GOOD]);
  const resumed = await run("resume", "issue-1");
  expect(resumed.status, resumed.stderr).toBe(0);
  expect((await place.git("--git-dir", place.remote, "branch", "--list")).trim().split("\n")).toHaveLength(2);
  const results = [absent, held, resumed];
  for (const words of [
    "show issue-1",
    "config",
    "doctor",
    "verify",
    "events issue-1",
    "gc --dry-run",
    "run 1 --dry-run",
  ])
    results.push(await run(...words.split(" ")));
  // The list of repositories has the URL without the password; this server asks for none.
  const everywhere = await place.holdfast.run(["list", "--all-repositories"], { cwd: home, env: { HOME: home } });
  expect(everywhere.stdout, everywhere.stderr).toContain("issue-1");
  results.push(everywhere);
  await expectPage(place, home);
  const flag = await place.holdfast.run(["--store", url, "resume", "issue-9"], {
    cwd: place.clone,
    env: { HOME: home },
  });
  const service = await run("service", "install", "--dry-run");
  expect(service.stderr).toContain("The URL of the store has a password");
  for (const { stdout, stderr } of [...results, flag, service]) expect(stdout + stderr).not.toContain(PASSWORD);
  expect(filesBelow(home).filter((path) => readFileSync(path).includes(PASSWORD))).toEqual([]);
  expect(filesBelow(join(place.clone, ".git")).filter((path) => readFileSync(path).includes(PASSWORD))).toEqual([]);
  expect(existsSync(join(place.clone, ".git/holdfast/store.db"))).toBe(false);
});

/** The page shows the run and acts on it. When the server is gone, it says so, and shows what else there is. */
async function expectPage(place: WorkPlace, home: string): Promise<void> {
  const env = { HOME: home };
  await using page = await startPage(place.holdfast, { cwd: home, env });
  const { rows, problems } = await page.get<RunsPage>("/api/runs");
  expect([rows.map(({ run }) => run.id), problems]).toEqual([["issue-1"], []]);
  const run = rows[0]?.key ?? "";
  expect((await page.get<RunPage>(`/api/runs/${run}`)).row.run.status.kind).toBe("done");
  const seen = { live: false };
  const listening = (async () => {
    for await (const { event } of page.events(`run:${run}`)) if (event === "entry") return void (seen.live = true);
  })();
  // The first of them may be written before the page listens.
  for (let n = 0; !seen.live; n++)
    expect((await page.act({ kind: n % 2 === 0 ? "tag" : "untag", run, sequence: 1, name: "first" })).kind).toBe(
      "done",
    );
  await listening;
  const folder = join(home, ".local/state/holdfast/repositories");
  const file = join(folder, readdirSync(folder)[0] ?? "");
  const record = readFileSync(file, "utf8");
  writeFileSync(file, record.replace(/@[^/]+\//, "@%2Fgone/"));
  const gone = JSON.parse(
    (await place.holdfast.run(["list", "--all-repositories", "--json"], { cwd: home, env })).stdout,
  );
  expect(gone).toMatchObject({ runs: [], problems: [{ problem: { code: "IO_FAILED" } }] });
  writeFileSync(file, record);
}

test("runs are copied to PostgreSQL and back, through a kill in the middle, and continue there", async () => {
  const { place, env, url, run } = await begin();
  const local = join(place.clone, ".git/holdfast");
  const names = Array.from({ length: 6 }, (_, i) => `r-${i}`);
  for (const name of names) expect((await place.run("checkpoint", "--run", name)).status).toBe(0);
  const child = place.holdfast.start(["store", "copy", local, url], { cwd: place.clone, env });
  onTestFinished(() => void child.kill("SIGKILL"));
  await new Promise<void>((resolve) => {
    let said = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (said.includes("2 of 6")) resolve();
    });
  });
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("close", resolve));
  const copied = JSON.parse((await run("--json", "store", "copy", local, url)).stdout);
  const results = copied.runs.map(({ result }: { readonly result: string }) => result);
  expect(results.slice(0, 2)).toEqual(["same", "same"]);
  expect(results).toHaveLength(6);
  expect(new Set(results)).toEqual(new Set(["same", "copied"]));
  expect((await run("verify")).stdout).toContain("Intact: 6 runs");

  expect((await run("checkpoint", "--run", "r-4", "--name", "later")).status).toBe(0);
  const back = JSON.parse((await run("--json", "store", "copy", url, local, "r-4", "r-5")).stdout);
  expect(back.runs).toMatchObject([
    { run: "r-4", result: "extended", checkpoints: 2 },
    { run: "r-5", result: "same", checkpoints: 1 },
  ]);
  expect((await place.run("list", "--json")).stdout).toContain('"r-4"');
  expect((await place.run("verify")).stdout).toContain("Intact: 6 runs");
  for (const one of [place.run, run]) await one("checkpoint", "--run", "r-4");
  expect((await run("store", "copy", url, local, "r-4")).stderr).toContain("went another way");
});

test("`queue` shows when a run is due by the clock of the database, on a machine with a wrong clock too", async () => {
  const { place, env, run } = await begin();
  // In the middle of a unit, so that both commands round alike.
  const at = new Date(Date.now() + 60 * 3_600_000).toISOString();
  const agent = await place.agent([]);
  expect(await run("submit", "--task", "Later", "--at", at, "--no-review", "--agent", agent)).toMatchObject({
    status: 0,
  });
  const monthAhead = "const now = Date.now; Date.now = () => now() + 30 * 86_400_000;";
  const node = ["--import", `data:text/javascript,${encodeURIComponent(monthAhead)}`];
  const [plain, wrong] = await Promise.all(
    [[], node].map((more) => place.holdfast.run(["queue"], { cwd: place.clone, env, node: more })),
  );
  expect(plain?.stdout).toMatch(/ in [23] d$/m);
  expect(wrong?.stdout).toBe(plain?.stdout);
});

test("the end of a wait counts by the clock of the database, whatever the clock of the machine that waits", async () => {
  const { place, url } = await begin();
  const limited = { when: { role: "impl" }, fail: { cause: "rate_limit", untilMs: 3_600_000 } };
  const agent = await place.agent([limited]);
  const before = Date.now();
  vi.useFakeTimers({ now: before + 24 * 3_600_000, toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  await using holdfast = await openHoldfast({ cwd: place.clone, store: url });
  const { outcome } = await holdfast.start({ work: { kind: "issue", number: 1 }, agent, options: { review: false } });
  const until = outcome.kind === "waiting" ? Date.parse(outcome.until ?? "") : Number.NaN;
  expect(until).toBeGreaterThanOrEqual(before + 3_600_000);
  // A day, as the machine believes, is longer than the test may take.
  expect(until).toBeLessThan(before + 12 * 3_600_000);
});
