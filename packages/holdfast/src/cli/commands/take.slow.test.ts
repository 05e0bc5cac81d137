import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Finished } from "@holdfast/test-support/built-command";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { submissionKey } from "@holdfast/core/dispatch";
import { processIdentity } from "@holdfast/platform/identity";
import { readProcess } from "@holdfast/platform/process-tree";
import { openTestStore } from "@holdfast/test-support/test-stores";
import { chanceOf, sample, suiteSeed } from "../../../test/faults/harness/seed.ts";
import { endOwner } from "./take.ts";

/* Real processes hold a run: frozen, killed, or at work. Another one takes it, on the same machine or on another one. */

const work = workSuite();
const NO_POSTGRES = postgresMissing();
const PRELOADS = join(import.meta.dirname, "../../../../test-support/src/store-processes");
const preload = (name: string): readonly string[] => [
  "--no-warnings",
  "--import",
  pathToFileURL(join(PRELOADS, name)).href,
];

interface Machine {
  readonly clone: string;
  readonly env: Readonly<Record<string, string>>;
  run(...args: readonly string[]): Promise<Finished>;
  json(...args: readonly string[]): Promise<ReturnType<typeof JSON.parse>>;
}

function machineIn(place: WorkPlace, clone: string, env: Readonly<Record<string, string>>): Machine {
  const run = (...args: readonly string[]) => place.holdfast.run(args, { cwd: clone, env });
  return {
    clone,
    env,
    run,
    async json(...args) {
      const finished = await run("--json", ...args);
      expect(finished, args.join(" ")).toMatchObject({ status: 0, stderr: "" });
      return JSON.parse(finished.stdout);
    },
  };
}

interface Holder {
  readonly ended: Promise<Finished>;
  readonly agent: number;
  signal(name: "SIGSTOP" | "SIGCONT" | "SIGKILL"): void;
}

/** A run whose agent has written half.txt, and works on for ever. */
async function hold(place: WorkPlace, { clone, env }: Machine, node: readonly string[] = []): Promise<Holder> {
  const file = join(clone, "../agent.pid");
  const agent = `command:echo half > half.txt; echo $$ > '${file}'; while :; do sleep 1; done`;
  const child = place.holdfast.start(["run", "1", "--no-review", "--agent", agent], { cwd: clone, env, node });
  onTestFinished(() => void child.kill("SIGKILL"));
  let [stdout, stderr] = ["", ""];
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = new Promise<Finished>((resolve) => child.on("close", (status) => resolve({ status, stdout, stderr })));
  while (!existsSync(file) || readFileSync(file, "utf8").trim() === "") {
    expect(child.exitCode, stdout + stderr).toBeNull();
    await pause(50);
  }
  return { ended, agent: Number(readFileSync(file, "utf8")), signal: (name) => void child.kill(name) };
}

async function untilGone(pid: number): Promise<void> {
  while (readProcess(pid) !== null) await pause(20);
}

async function untilFrozen(machine: Machine): Promise<void> {
  while ((await machine.json("status", "1")).run.status.suspended !== true) await pause(300);
}

/** The taken run is finished by another process, and the store is whole. */
async function expectFinished(place: WorkPlace, machine: Machine): Promise<void> {
  const resumed = await machine.run("resume", "issue-1", "--agent", await place.agent([GOOD]));
  expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
  expect((await machine.run("verify", "issue-1")).status).toBe(0);
}

describe.each(["SQLite", "PostgreSQL"] as const)("a run in %s", (kind) => {
  async function begin(): Promise<{ readonly place: WorkPlace; readonly here: Machine }> {
    const place = await work.begin();
    const env: Record<string, string> =
      kind === "SQLite" ? {} : { HOME: `${place.clone}.home`, HOLDFAST_STORE: (await sharedPostgres()).url() };
    return { place, here: machineIn(place, place.clone, env) };
  }
  const only = test.skipIf(kind === "PostgreSQL" && NO_POSTGRES !== null);

  only("is taken from a suspended process, which wakes, is refused, and keeps its work", async () => {
    const { place, here } = await begin();
    const holder = await hold(place, here);
    holder.signal("SIGSTOP");
    await untilFrozen(here);
    expect(await here.run("resume", "issue-1")).toMatchObject({ status: 5 });
    const { plan } = await here.json("take", "1", "--dry-run");
    expect(plan).toMatchObject({ process: "suspended", saved: expect.stringMatching(/^issue-1@\d+$/), question: null });
    expect(plan).toMatchObject({ files: { missing: [], here: plan.saved }, orphan: "issue-1-orphan-1" });
    expect(await here.run("take", "1")).toMatchObject({
      status: 4,
      stderr: expect.stringContaining("holdfast take issue-1 --yes"),
    });
    const { taken } = await here.json("take", "1", "--yes");
    expect(taken).toEqual({ epoch: 2, process: "ended", orphan: "issue-1-orphan-1" });
    expect(await holder.ended).toMatchObject({ status: 5, stderr: expect.stringContaining("issue-1-orphan-1@1") });
    await untilGone(holder.agent);
    expect((await here.run("list")).stdout).toContain("orphaned from issue-1");
    expect(await here.run("resume", "issue-1-orphan-1")).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/Orphaned from issue-1[^]*holdfast fork issue-1-orphan-1@1/),
    });
    expect((await here.run("fork", "issue-1-orphan-1@1", "--as", "kept")).status).toBe(0);
    expect(readFileSync(`${here.clone}-worktrees/kept/half.txt`, "utf8")).toBe("half\n");
    await expectFinished(place, here);
    expect(await here.run("take", "issue-1")).toMatchObject({ status: 3, stderr: expect.stringContaining("(done)") });
    const removed = await here.run("rm", "issue-1-orphan-1", "--force");
    expect(removed.status, removed.stderr).toBe(4);
    expect(removed.stderr).toContain("kept");
  });

  only("is refused while its process works, and taken with --force", async () => {
    const { place, here } = await begin();
    const holder = await hold(place, here);
    expect(await here.run("take", "1", "--yes")).toMatchObject({
      status: 5,
      stderr: expect.stringContaining("holdfast stop issue-1"),
    });
    expect(readProcess(holder.agent)).not.toBeNull();
    const { plan, taken } = await here.json("take", "1", "--yes", "--force");
    expect([plan.process, taken.process, taken.orphan]).toEqual(["answers", "ended", "issue-1-orphan-1"]);
    expect((await holder.ended).status).toBe(5);
    await expectFinished(place, here);
  });

  only("is taken or not after a kill -9 of the command at any step, and the same command completes it", async () => {
    const { place, here } = await begin();
    expect((await here.run("checkpoint", "--run", "mine")).status).toBe(0);
    const elsewhere = { host: "elsewhere", pid: 1, started: "1", boot: "other" };
    const store = await openTestStore(here.env["HOLDFAST_STORE"] ?? join(here.clone, ".git/holdfast"), {
      identity: elsewhere,
    });
    onTestFinished(() => store.close());
    const holdAgain = async (): Promise<number> => {
      const over = (await store.getLease("mine"))?.epoch;
      await store.setMeta(submissionKey("mine"), "{}");
      const params = { run: "mine", label: "holdfast run mine", ...(over === undefined ? {} : { over }) };
      return (await store.takeLease(params)).epoch;
    };
    const counter = join(here.clone, "../count");
    const take = async (dieAt: number): Promise<NodeJS.Signals | number | null> => {
      const env = { ...here.env, DIE_AT: String(dieAt), COUNTER: counter, DIE_WITH: "sockets" };
      const node = preload("die-at.ts");
      const child = place.holdfast.start(["take", "mine", "--yes"], { cwd: here.clone, env, node });
      child.stdout?.resume();
      child.stderr?.resume();
      return new Promise((resolve) => child.on("close", (status, signal) => resolve(signal ?? status)));
    };
    await holdAgain();
    expect(await take(0)).toBe(0);
    const calls = Number(readFileSync(counter, "utf8"));
    const seed = suiteSeed();
    for (const dieAt of sample(
      chanceOf(seed, `take-${kind}`),
      Array.from({ length: calls }, (_, i) => i + 1),
      5,
    )) {
      const where = `HOLDFAST_SEED=${seed}, operation ${dieAt} of ${calls}`;
      const epoch = await holdAgain();
      // The number of operations differs slightly, so one of the last may not happen.
      expect(["SIGKILL", 0], where).toContain(await take(dieAt));
      const lease = await store.getLease("mine");
      if (lease?.epoch === epoch) expect(await take(0), where).toBe(0);
      else {
        expect((await here.run("take", "mine", "--yes")).stderr, where).toContain("No process holds run mine");
        expect([undefined, epoch + 1], where).toContain(lease?.epoch);
      }
      // A worker does not continue it before the user does.
      expect(await store.getMeta(submissionKey("mine")), where).toBe("");
      expect((await here.run("checkpoint", "--run", "mine")).status, where).toBe(0);
    }
    const epochs: number[] = [];
    for await (const { kind: what, epoch } of store.readJournal({ run: "mine" }))
      if (what === "lease.taken") epochs.push(epoch);
    expect(epochs).toEqual(epochs.map((_, at) => at + 1));
    expect((await here.run("verify")).status).toBe(0);
  });

  only("of a killed process needs no taking", async () => {
    const { place, here } = await begin();
    const holder = await hold(place, here);
    holder.signal("SIGKILL");
    await holder.ended;
    expect(await here.run("take", "1", "--yes")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("holdfast resume issue-1"),
    });
    await expectFinished(place, here);
    expect((await here.json("list")).runs).toHaveLength(1);
  });
});

test("a process here that does not end is killed, and one that has ended is left alone", async () => {
  const child = spawn(process.execPath, ["-e", 'process.on("SIGINT", () => {}); setInterval(console.log, 100, "up")']);
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  const owner = processIdentity(child.pid);
  expect(await endOwner(owner, 0)).toBe("killed");
  expect(await endOwner(owner, 0)).toBe("other_host");
});

test.skipIf(NO_POSTGRES !== null).each(["frozen", "at work"])(
  "a run is taken from a process on another machine that is %s, and finished in another clone",
  async (state) => {
    const place = await work.begin();
    const url = (await sharedPostgres()).url();
    await writeFile(join(place.clone, "holdfast.config.yaml"), "files: { remote: origin }\n");
    await place.git("add", ".");
    await place.git("commit", "-qm", "files");
    await place.git("push", "-q", "origin", "main");
    const other = join(place.clone, "../elsewhere/shop");
    await mkdir(join(other, ".."));
    await place.git("clone", "-q", place.remote, other);
    const [there, here] = [place.clone, other].map((clone) =>
      machineIn(place, clone, { HOME: `${clone}.home`, HOLDFAST_STORE: url }),
    ) as [Machine, Machine];
    const holder = await hold(place, there, preload("other-host.ts"));
    while ((await there.json("status", "1")).run.unpushed?.snapshots !== 0) await pause(300);
    expect((await here.json("status", "1")).run.status).toMatchObject({ kind: "running", hostKnown: false });
    if (state === "frozen") holder.signal("SIGSTOP");
    const { plan, taken } = await here.json("take", "1", "--yes");
    expect(plan).toMatchObject({ process: "other_host", holder: { host: "elsewhere", epoch: 1 } });
    expect(plan.files).toEqual({ missing: [], here: plan.saved, remote: "origin", problem: null });
    expect(taken).toEqual({ epoch: 2, process: "other_host", orphan: null });
    await expectFinished(place, here);
    const branches = await place.git("ls-remote", place.remote, "refs/heads/*");
    if (state === "frozen") holder.signal("SIGCONT");
    expect(await holder.ended).toMatchObject({ status: 5, stderr: expect.stringContaining("issue-1-orphan-1@1") });
    await untilGone(holder.agent);
    expect(await place.git("ls-remote", place.remote, "refs/heads/*")).toBe(branches);
    expect((await here.json("status", "1")).run.status.kind).toBe("done");
    expect((await here.run("fork", "issue-1-orphan-1@1", "--as", "kept")).status).toBe(0);
    expect(readFileSync(`${here.clone}-worktrees/kept/half.txt`, "utf8")).toBe("half\n");
    for (const machine of [there, here]) {
      await machine.json("store", "fetch");
      expect((await machine.run("verify")).status).toBe(0);
    }
  },
);

test.skipIf(NO_POSTGRES !== null)(
  "a run whose files are only on the other machine is not continued without them, nor quarantined",
  async () => {
    const place = await work.begin();
    const url = (await sharedPostgres()).url();
    const other = join(place.clone, "../elsewhere/shop");
    await mkdir(join(other, ".."));
    await place.git("clone", "-q", place.remote, other);
    const [there, here] = [place.clone, other].map((clone) =>
      machineIn(place, clone, { HOME: `${clone}.home`, HOLDFAST_STORE: url }),
    ) as [Machine, Machine];
    const holder = await hold(place, there, preload("other-host.ts"));
    const { plan } = await here.json("take", "1", "--yes");
    expect(plan.files).toMatchObject({ here: null, remote: null });
    expect(plan.files.missing).not.toEqual([]);
    expect((await holder.ended).status).toBe(5);
    const refused = await here.run("resume", "issue-1");
    expect(refused).toMatchObject({ status: 6, stderr: expect.stringContaining("holdfast store push issue-1") });
    const verified = await here.run("verify", "--quarantine");
    expect(verified, verified.stderr).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/store fetch\s+issue-1/),
    });
    expect(verified.stdout).not.toContain("Quarantined");
    await expectFinished(place, there);
  },
);
