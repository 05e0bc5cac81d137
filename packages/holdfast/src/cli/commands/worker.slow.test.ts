import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { chmod, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import type { RunStatus } from "@holdfast/core/status";
import { findProgram } from "@holdfast/platform/subprocess";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { openHoldfast } from "../../open.ts";
import type { RunDetails } from "../../run-status.ts";

const work = workSuite();
const HANG = { when: { role: "impl" }, edits: [{ do: "write", path: "half.txt", text: "half\n" }], hang: true };

/** A user of its own: the worker's files and the unit are below this directory. */
async function homeOf(place: WorkPlace): Promise<Record<string, string>> {
  const home = `${place.clone}.home`;
  await mkdir(home);
  return { HOME: home };
}

const unitOf = ({ HOME = "" }: Record<string, string>): string => join(HOME, ".config/systemd/user/holdfast.service");

/** Command and variables of the unit, as systemd reads them: none of these paths has a character with an escape. */
function readUnit(text: string): { readonly words: readonly string[]; readonly env: Record<string, string> } {
  const lines = (key: string): readonly string[] =>
    [...text.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, line = ""]) => line);
  const words = (line: string): readonly string[] => [...line.matchAll(/"([^"\\%]*)"/g)].map(([, word = ""]) => word);
  const [program = "", ...args] = words(lines("ExecStart")[0] ?? "");
  const pairs = lines("Environment").map((line) => /^"([A-Z_]+)=([^"\\%]*)"$/.exec(line) ?? []);
  return {
    words: [program.replace(/^:/, ""), ...args],
    env: Object.fromEntries(pairs.map(([, name = "", value = ""]) => [name, value])),
  };
}

function outputOf(child: ChildProcess): { says(text: string): Promise<void>; readonly ended: Promise<number | null> } {
  let said = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (said += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (said += text));
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  let isOver = false;
  void ended.then(() => (isOver = true));
  return {
    ended,
    async says(text) {
      while (!said.includes(text)) {
        if (isOver) throw new Error(`ended without saying ${text}:\n${said}`);
        await sleep(50);
      }
    },
  };
}

async function detailsOf(place: WorkPlace): Promise<RunDetails> {
  await using holdfast = await openHoldfast({ cwd: place.clone, create: false, readOnly: true });
  return await holdfast.status("issue-1");
}

const statusOf = async (place: WorkPlace): Promise<RunStatus> => (await detailsOf(place)).status;

async function startHanging(place: WorkPlace): Promise<ReturnType<WorkPlace["start"]>> {
  const agent = await place.agent([HANG]);
  const started = place.start("run", "1", "--no-review", "--agent", agent);
  await started.says("impl #1");
  while (!(await isHalfDone(place))) await sleep(50);
  return started;
}

async function isHalfDone(place: WorkPlace): Promise<boolean> {
  const { worktree } = await detailsOf(place);
  return worktree !== null && existsSync(join(worktree, "half.txt"));
}

/** Starts what the unit of a joined worker starts, beside another repository that is not on its list. */
async function joinAsInstalled([program = "", ...args]: readonly string[], env: object, place: WorkPlace) {
  const child = spawn(program, args, { cwd: "/", env: { PATH: process.env["PATH"], ...env }, stdio: "pipe" });
  onTestFinished(() => void child.kill("SIGKILL"));
  const worker = outputOf(child);
  await worker.says(`Looking after the runs of:\n  ${place.clone}\n`);
  await worker.says("Joined the queue in ");
  await worker.says("No agent is ready here");
  const options = { cwd: place.clone, env: { ...env } };
  const second = await place.holdfast.run(["worker", "--join"], options);
  expect(second).toMatchObject({ status: 5, stderr: expect.stringContaining(`pid ${child.pid}`) });
  const status = await place.holdfast.run(["service", "status", "--json"], options);
  expect(JSON.parse(status.stdout)).toMatchObject({ worker: child.pid });
  child.kill("SIGTERM");
  expect(await worker.ended).toBe(143);
}

test("after everything was killed, the unit's own command finishes the run, and needs consent before", async () => {
  const place = await work.begin();
  const env = await homeOf(place);
  const run = (args: string) => place.holdfast.run(args.split(" "), { cwd: place.clone, env });
  const started = await startHanging(place);
  started.child.kill("SIGKILL");
  await started.ended;
  expect(await statusOf(place)).toMatchObject({ kind: "crashed" });
  await place.agent([GOOD]);

  // The run has changed since a worker looked at it.
  const seen = { ...env, HOLDFAST_EXPECTED_ENTRIES: "1" };
  expect(await place.holdfast.run(["resume", "1"], { cwd: place.clone, env: seen })).toMatchObject({
    status: 5,
    stderr: expect.stringContaining("Run issue-1 has changed since the worker looked at it"),
  });
  expect(await statusOf(place)).toMatchObject({ kind: "crashed" });

  // A setting that came after the start: the worker may not use it.
  const marker = `${place.clone}.marker`;
  const config = join(place.clone, "holdfast.config.yaml");
  await writeFile(config, JSON.stringify({ workspace: { setup: `touch '${marker}'` }, agents: { env: ["SECRET_X"] } }));
  const untrusted = await place.holdfast.run(["worker", "--once", "--here", "--json"], {
    cwd: place.clone,
    env: { ...env, HOLDFAST_TRUST: "" },
  });
  expect(untrusted, untrusted.stderr).toMatchObject({ status: 0 });
  const events = untrusted.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  expect(events).toEqual([
    { at, level: "info", kind: "start", repository: place.clone, run: "issue-1", why: "its process died" },
    { at, level: "warn", kind: "ended", repository: place.clone, run: "issue-1", exit: "needs_you" },
  ]);
  expect(existsSync(marker)).toBe(false);
  const later = await run("worker --once --here");
  expect(later.stdout).toMatch(/^Waiting with issue-1 in \S+ until .*: its process died; 1 attempt failed\n$/);
  await rm(config);

  // `remove` also forgets the failure.
  expect(await run("service remove")).toMatchObject({ status: 0 });
  for (const word of ["Wrote", "Unchanged:"])
    expect(await run("service install")).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(new RegExp(`^The worker looks after ${place.clone}\n${word} ${unitOf(env)}\n`)),
    });
  // What a worker of a queue needs stays until `remove`, also when the next repository is added.
  expect(await run("service install --join --slots 2 --label gpu --health 127.0.0.1:0")).toMatchObject({ status: 0 });
  expect((await run("service install")).stdout).toContain(
    "It runs holdfast worker --join --slots 2 --label gpu --health 127.0.0.1:0\n",
  );
  const joining = readUnit(readFileSync(unitOf(env), "utf8")).words;
  expect(joining.slice(2)).toEqual("worker --join --slots 2 --label gpu --health 127.0.0.1:0".split(" "));
  expect(JSON.parse((await run("service status --json")).stdout)).toMatchObject({
    installed: "current",
    runs: [{ run: "issue-1", kind: "skip", why: "it was not submitted: holdfast submit issue-1" }],
  });
  for (const refused of ["--slots 2", "--join --slots 0", "--join --label ,", "--health x"])
    expect(await run(`service install ${refused}`), refused).toMatchObject({ status: 2 });
  await joinAsInstalled(joining, env, place);
  expect(await run("service remove")).toMatchObject({ status: 0 });
  expect(await run("service install")).toMatchObject({ status: 0 });
  const unit = readUnit(readFileSync(unitOf(env), "utf8"));
  expect(unit.words).toEqual([process.execPath, place.holdfast.entry, "worker"]);
  expect(Object.keys(unit.env)).not.toContain("HOLDFAST_TRUST");
  const [program = "", ...args] = unit.words;
  const child = spawn(program, args, { cwd: env["HOME"], env: { ...unit.env, ...env }, stdio: "pipe" });
  onTestFinished(() => void child.kill("SIGKILL"));
  const worker = outputOf(child);
  await worker.says(`Looking after the runs of:\n  ${place.clone}\nCtrl+C ends the worker`);
  await worker.says(`Continuing issue-1 in ${place.clone}: its process died`);
  const shown = JSON.parse((await run("service status --json")).stdout);
  expect(shown).toMatchObject({ installed: "current", worker: child.pid, repositories: [{ root: place.clone }] });
  expect(await run("worker --once")).toMatchObject({ status: 5, stderr: expect.stringContaining(`pid ${child.pid}`) });
  await worker.says(`Stopped issue-1 in ${place.clone}: done`);
  expect(await statusOf(place)).toMatchObject({ kind: "done" });
  child.kill("SIGTERM");
  expect(await worker.ended).toBe(143);

  expect(await run("service remove")).toMatchObject({ status: 0, stdout: expect.stringContaining("Removed") });
  expect([
    existsSync(join(env["HOME"] ?? "", ".config/systemd")),
    existsSync(join(env["HOME"] ?? "", ".local/state/holdfast/worker")),
  ]).toEqual([false, false]);
  expect(await run("service remove")).toMatchObject({ status: 0, stdout: "No service is installed.\n" });
}, 300_000);

test("a run that SIGTERM ended continues once, also after a kill of the worker; one that the user stopped does not", async () => {
  const place = await work.begin();
  const env = await homeOf(place);
  const run = (args: string) => place.holdfast.run(args.split(" "), { cwd: place.clone, env });
  const started = await startHanging(place);
  started.child.kill("SIGTERM");
  expect(await started.ended).toMatchObject({ status: 143 });
  expect(await statusOf(place)).toMatchObject({ kind: "paused", reason: null });

  const startWorker = async (): Promise<{ readonly child: ChildProcess; readonly ended: Promise<number | null> }> => {
    const child = place.holdfast.start(["worker", "--here"], { cwd: place.clone, env });
    onTestFinished(() => void child.kill("SIGKILL"));
    const worker = outputOf(child);
    await worker.says("its process was terminated");
    while ((await statusOf(place)).kind !== "running") await sleep(50);
    return { child, ended: worker.ended };
  };
  // The worker passes the signal on to its run.
  const stopped = await startWorker();
  stopped.child.kill("SIGTERM");
  expect(await stopped.ended).toBe(143);
  expect(await statusOf(place)).toMatchObject({ kind: "paused", reason: null });
  expect((await run("worker --once --here")).stdout).toMatch(/^Waiting with issue-1 .*: its process was terminated\n$/);
  expect(await run("service remove")).toMatchObject({ status: 0 });

  const killed = await startWorker();
  killed.child.kill("SIGKILL");
  const now = await statusOf(place);
  const pid = now.kind === "running" ? now.holder.pid : null;
  const second = await run("worker --once --here");
  expect(second).toMatchObject({
    status: 0,
    stdout: `Leaving issue-1 in ${place.clone}: process ${pid} executes it\n`,
  });

  expect(await place.run("stop", "1")).toMatchObject({ status: 0 });
  const outside = { cwd: join(place.clone, ".."), env };
  const third = await place.holdfast.run(["worker", "--once", "--repository", "shop"], outside);
  expect(third.stdout).toBe(`Leaving issue-1 in ${place.clone}: it was stopped or never started\n`);

  // A repository that is gone is reported, and a file with secrets that others can read is refused.
  const gone = `${place.clone}.gone`;
  await mkdir(gone);
  await place.git("init", "-q", gone);
  const store = `${gone}-store`;
  expect(await run(`service install --cwd ${gone} --store ${store}`)).toMatchObject({ status: 0 });
  // Without a name, the store that was named before stays.
  expect(await run(`service install --cwd ${gone}`)).toMatchObject({
    status: 0,
    stdout: expect.stringContaining(`The worker looks after ${gone}, with the store ${store}\n`),
  });
  // Without a service manager nothing would start the service.
  const programs = `${gone}-programs`;
  await mkdir(programs);
  await symlink(findProgram("git") ?? expect.fail("no git"), join(programs, "git"));
  for (const action of ["install", "status", "remove"]) {
    const unmanaged = { cwd: gone, env: { ...env, PATH: programs } };
    const shown = await place.holdfast.run(["service", action], unmanaged);
    expect(shown.status).toBe(0);
    expect(shown.stdout + shown.stderr).not.toMatch(/ctl --user|ctl enable-linger|launchctl \w+ gui/);
    if (action === "remove") continue;
    expect(shown.stdout).toMatch(/(systemctl|launchctl) is not installed\n/);
    expect(shown.stderr).toMatch(/run the worker yourself: \S+ worker\n/);
  }
  expect(await run(`service install --cwd ${gone} --store ${store}`)).toMatchObject({ status: 0 });
  await rm(gone, { recursive: true });
  expect(await run("worker --once")).toMatchObject({
    status: 0,
    stdout: `Cannot look at ${gone}: the directory is gone\n`,
  });
  expect(await run(`service remove --repository ${gone}`)).toMatchObject({
    status: 0,
    stdout: `The worker no longer looks after ${gone}\n`,
  });
  expect(await run(`service remove --repository ${gone}`)).toMatchObject({
    stdout: `${gone} was not on the list.\n`,
  });
  const secrets = join(env["HOME"] ?? "", ".config/holdfast/worker.env");
  await mkdir(join(secrets, ".."), { recursive: true });
  await writeFile(secrets, "SECRET_X=1\n");
  await chmod(secrets, 0o644);
  expect(await run("worker --once")).toMatchObject({
    status: 2,
    stderr: expect.stringContaining(`chmod 600 ${secrets}`),
  });
}, 300_000);

test("a run that waits for quota continues when its time has come, and not before", async () => {
  const place = await work.begin();
  const env = await homeOf(place);
  const limited = {
    when: { role: "impl", attempt: 1 },
    fail: { cause: "rate_limit", untilMs: 3_000, message: "limit" },
  };
  const agent = await place.agent([limited, GOOD]);
  expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 7 });
  const waiting = await statusOf(place);
  const until = waiting.kind === "waiting" ? Date.parse(waiting.until ?? "") : Number.NaN;
  const child = place.holdfast.start(["worker", "--here"], { cwd: place.clone, env });
  onTestFinished(() => void child.kill("SIGKILL"));
  const worker = outputOf(child);
  await worker.says(`Continuing issue-1 in ${place.clone}: it waits for quota`);
  expect(Date.now()).toBeGreaterThanOrEqual(until);
  await worker.says(`Stopped issue-1 in ${place.clone}: done`);
  expect(await statusOf(place)).toMatchObject({ kind: "done" });
  child.kill("SIGINT");
  expect(await worker.ended).toBe(130);
}, 300_000);
