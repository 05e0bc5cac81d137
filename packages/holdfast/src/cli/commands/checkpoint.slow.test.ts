import { existsSync } from "node:fs";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test as sequentialTest } from "vitest";
import type { StoredSignal } from "@holdfast/core/signal";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { openHoldfast } from "../../open.ts";

/** Each test has its own directory, and mostly waits for other processes. */
const test = sequentialTest.concurrent;

const work = workSuite();

const HANG = { when: { role: "impl" }, edits: [{ do: "write", path: "half.txt", text: "half\n" }], hang: true };

/** A run whose agent has written half.txt and hangs. */
async function hanging(place: WorkPlace) {
  const started = place.start("run", "1", "--no-review", "--agent", await place.agent([HANG]));
  await started.says("half.txt");
  return started;
}

async function manuals(place: WorkPlace): Promise<readonly (string | null)[]> {
  await using holdfast = await openHoldfast({ cwd: place.clone });
  const all = await (await holdfast.run("issue-1")).list();
  return all.filter(({ trigger }) => trigger === "manual").map(({ name }) => name);
}

async function requestsOf(place: WorkPlace): Promise<readonly StoredSignal[]> {
  await using holdfast = await openHoldfast({ cwd: place.clone, readOnly: true });
  return await holdfast.store.listSignals("issue-1");
}

async function isAsked(place: WorkPlace): Promise<boolean> {
  return (await requestsOf(place)).some(({ state }) => state === "pending");
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(20);
}

describe("a checkpoint of a run that works in another terminal", () => {
  test("is taken by the process that executes the run, in the middle of its agent's work, and the run continues", async () => {
    const place = await work.begin();
    const started = await hanging(place);
    const planned = await place.json("checkpoint", "1", "--dry-run");
    expect(planned).toMatchObject({ run: "issue-1", started: false, asks: { pid: started.child.pid } });
    expect(await manuals(place)).toEqual([]);
    const saved = await place.json("checkpoint", "1", "--name", "so far");
    expect(saved).toMatchObject({
      checkpoint: { run: "issue-1", trigger: "manual", name: "so far", stage: "impl" },
      started: false,
      savedBy: { pid: started.child.pid },
    });
    // The agent's session continues uninterrupted, and the request is gone.
    expect(started.child.exitCode).toBe(null);
    expect(await requestsOf(place)).toEqual([]);
    const named = await place.run("checkpoint", "--run", "issue-1", "-m", "again");
    expect(named, named.stderr).toMatchObject({ status: 0, stdout: expect.stringContaining("Saved by holdfast run") });
    const tree = await place.git("ls-tree", "-r", "--name-only", saved.checkpoint.tree);
    expect(tree).toContain("half.txt");
    started.child.kill("SIGKILL");
    await started.ended;
    const done = await place.run("resume", "1", "--agent", await place.agent([GOOD]));
    expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
    expect(await manuals(place)).toEqual(["again", "so far"]);
  });

  test("is taken here when that process dies meanwhile", async () => {
    const place = await work.begin();
    const started = await hanging(place);
    // The stopped process is alive but does not answer.
    started.child.kill("SIGSTOP");
    const asking = place.start("checkpoint", "1", "--name", "rescued", "--json");
    await until(() => isAsked(place));
    started.child.kill("SIGKILL");
    const saved = await asking.ended;
    expect(saved, saved.stderr).toMatchObject({ status: 0 });
    expect(JSON.parse(saved.stdout)).toMatchObject({
      checkpoint: { trigger: "manual", name: "rescued" },
      savedBy: null,
    });
    expect(await requestsOf(place)).toEqual([]);
    const done = await place.run("resume", "1", "--agent", await place.agent([GOOD]));
    expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
    expect(await manuals(place)).toEqual(["rescued"]);
  });

  test("a process that does not answer in time is named, and no request is left", async () => {
    const place = await work.begin();
    const started = await hanging(place);
    started.child.kill("SIGSTOP");
    const refused = await place.run("checkpoint", "1");
    expect(refused).toMatchObject({ status: 5, stderr: expect.stringContaining(`process ${started.child.pid}`) });
    expect(await requestsOf(place)).toEqual([]);
    started.child.kill("SIGCONT");
    const own = await place.run("checkpoint", "1", "--no-files");
    expect(own).toMatchObject({ status: 5, stderr: expect.stringContaining("Leave --values and --no-files out") });
    expect(await manuals(place)).toEqual([]);
    started.child.kill("SIGKILL");
    await started.ended;
  });

  test("the requester may die: it is taken once; the next process that executes the run removes a request of two dead processes", async () => {
    const place = await work.begin();
    const started = await hanging(place);
    started.child.kill("SIGSTOP");
    const first = place.start("checkpoint", "1", "--name", "asked and gone");
    await until(() => isAsked(place));
    first.child.kill("SIGKILL");
    await first.ended;
    started.child.kill("SIGCONT");
    // The holder removes the request after its checkpoint is saved.
    await until(async () => (await requestsOf(place)).length === 0);
    expect(await manuals(place)).toEqual(["asked and gone"]);
    started.child.kill("SIGSTOP");
    const second = place.start("checkpoint", "1", "--name", "unanswered");
    await until(() => isAsked(place));
    second.child.kill("SIGKILL");
    started.child.kill("SIGKILL");
    await Promise.all([second.ended, started.ended]);
    expect(await requestsOf(place)).toHaveLength(1);
    const done = await place.run("resume", "1", "--agent", await place.agent([GOOD]));
    expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
    expect(await requestsOf(place)).toEqual([]);
    expect(await manuals(place)).toEqual(["asked and gone"]);
  });

  test("a run without a process is saved as usual, and RUN must exist", async () => {
    const place = await work.begin();
    expect(await place.run("checkpoint", "1")).toMatchObject({ status: 3 });
    expect(existsSync(join(place.clone, ".git/holdfast"))).toBe(false);
    expect(await place.run("checkpoint", "--run", "mine")).toMatchObject({ status: 0 });
    expect(await place.json("checkpoint", "mine")).toMatchObject({ checkpoint: { id: "mine@2" }, savedBy: null });
    expect(await place.run("checkpoint", "mine", "--run", "mine")).toMatchObject({ status: 2 });
  });
});

describe("--max-time", () => {
  test("stops the agent, saves with trigger session_end and waits; the next session continues with its own time", async () => {
    const place = await work.begin();
    const over = await place.run("run", "1", "--no-review", "--max-time", "3s", "--agent", await place.agent([HANG]));
    expect(over, over.stdout + over.stderr).toMatchObject({ status: 7 });
    expect(over.stdout).toMatch(/Session time limit reached issue-1: The session's time is over: 3 s/);
    expect(over.stdout).toContain("resume issue-1");
    await using holdfast = await openHoldfast({ cwd: place.clone });
    const [newest] = await (await holdfast.run("issue-1")).list({ limit: 1 });
    expect(newest).toMatchObject({ trigger: "session_end" });
    expect(await place.json("status", "1")).toMatchObject({
      run: { status: { kind: "waiting", for: "session" }, budget: { limit: { milliseconds: null } } },
    });
    const again = await place.run("resume", "1", "--max-time", "3s");
    expect(again, again.stdout + again.stderr).toMatchObject({ status: 7 });
    const done = await place.run("resume", "1", "--agent", await place.agent([GOOD]));
    expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
  });
});

describe("a crunch run in another terminal", () => {
  test("is saved on request, killed and ended by the timer, and crunch's directory shows each state", async () => {
    const place = await work.begin();
    await writeFile(join(place.clone, "holdfast.config.yaml"), "layout: seed\n");
    const directory = join(place.clone, ".claude/crunch/1/checkpoints");
    const newest = join(directory, "latest");
    const latest = async (): Promise<string> => (existsSync(newest) ? await readFile(newest, "utf8") : "");
    const agent = await place.agent([{ reply: "{}", hang: true }]);
    const started = place.start("run", "1", "--workflow", "crunch", "--agent", agent);
    await started.says("brief start");
    const saved = await place.json("checkpoint", "1", "--name", "so far");
    expect(saved).toMatchObject({
      checkpoint: { trigger: "manual", stage: "enrich" },
      savedBy: { pid: started.child.pid },
    });
    await until(async () => (await latest()).includes("trigger: manual"));
    expect(await latest()).toContain("current_phase: enrich");
    const before = await readdir(directory);
    started.child.kill("SIGKILL");
    await started.ended;
    expect(await readdir(directory)).toEqual(before);
    const over = await place.run("resume", "1", "--max-time", "4s");
    expect(over, over.stdout + over.stderr).toMatchObject({ status: 7 });
    expect(await latest()).toMatch(/trigger: session_end/);
    expect(await latest()).toMatch(/can_resume: true/);
    expect((await place.git("status", "--porcelain")).trim()).toBe("?? holdfast.config.yaml");
    const listed = await readFile(join(directory, "index.yaml"), "utf8");
    expect(listed).toContain("trigger: manual");
    expect(await manuals(place)).toEqual(["so far"]);
  });
});
