import { existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { DatabaseSync } from "node:sqlite";
import { isDeepStrictEqual } from "node:util";
import { pathToFileURL } from "node:url";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { type Finished, changedCommand } from "@holdfast/test-support/built-command";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { openTestStore } from "@holdfast/test-support/test-stores";
import { chanceOf, sample, suiteSeed } from "../../../test/faults/harness/seed.ts";

/* Workers in real processes, in two clones with two homes: what one does not finish, the other does. */

const work = workSuite();
const HANG = { when: { role: "impl" }, edits: [{ do: "write", path: "half.txt", text: "half\n" }], hang: true };
const preload = (name: string): readonly string[] => [
  "--no-warnings",
  "--import",
  pathToFileURL(join(import.meta.dirname, "../../../../test-support/src/store-processes", name)).href,
];
/** A machine under load may make a living worker look dead. Then its runs move, which no case here excludes. */
const TIMINGS = JSON.stringify({ lookMs: 50, heartbeatMs: 200, deadMs: 4000, tidyMs: 1000, reconcileMs: 300 });

interface Machine {
  readonly clone: string;
  run(...args: readonly string[]): Promise<Finished>;
  json(...args: readonly string[]): Promise<ReturnType<typeof JSON.parse>>;
  /** Starts a worker, and returns when it has joined. */
  join(...args: readonly string[]): Promise<Worker>;
}

interface Worker {
  readonly pid: number;
  readonly events: readonly { readonly kind: string; readonly run?: string; readonly exit?: string | null }[];
  readonly ended: Promise<number | null>;
  kill(signal: "SIGKILL" | "SIGTERM"): void;
}

interface Team {
  readonly place: WorkPlace;
  readonly store: string;
  readonly first: Machine;
  readonly second: Machine;
  /** Drops everything that the queue has; "engine": the tables of DBOS alone. */
  lose(what?: "engine"): void;
}

/** A check that starts a command runs less often, because each command takes processor time that the workers need. */
async function until(check: () => Promise<boolean> | boolean): Promise<void> {
  for (;;) {
    const answer = check();
    if (await answer) return;
    await pause(typeof answer === "boolean" ? 50 : 500);
  }
}

function machineIn(
  { holdfast }: Pick<WorkPlace, "holdfast">,
  clone: string,
  store: string,
  /** For the worker and its runs. */
  node: readonly string[] = [],
  variables: Readonly<Record<string, string>> = {},
): Machine {
  const env = { HOME: `${clone}.home`, HOLDFAST_STORE: store, HOLDFAST_DISPATCH_TIMINGS: TIMINGS, ...variables };
  const run = (...args: readonly string[]) => holdfast.run(args, { cwd: clone, env });
  return {
    clone,
    run,
    async json(...args) {
      const finished = await run("--json", ...args);
      expect(finished, args.join(" ")).toMatchObject({ status: 0, stderr: "" });
      return JSON.parse(finished.stdout);
    },
    async join(...args) {
      const child = holdfast.start(["--json", "worker", "--join", "--here", ...args], { cwd: clone, env, node });
      onTestFinished(() => void child.kill("SIGKILL"));
      const events: Worker["events"][number][] = [];
      let [rest, errors] = ["", ""];
      child.stderr?.setEncoding("utf8").on("data", (text: string) => (errors += text));
      child.stdout?.setEncoding("utf8").on("data", (text: string) => {
        const lines = (rest + text).split("\n");
        rest = lines.pop() ?? "";
        events.push(...lines.map((line) => JSON.parse(line)));
      });
      const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
      await until(() => {
        expect(child.exitCode, errors).toBeNull();
        return events.some(({ kind }) => kind === "joined");
      });
      return { pid: child.pid ?? 0, events, ended, kill: (signal) => void child.kill(signal) };
    },
  };
}

const statusOf = async (machine: Machine) => (await machine.json("status", "issue-1")).run.status;

/** Until the agent of the run is in the middle of its work. */
async function untilHalfDone(machine: Machine): Promise<void> {
  const half = `${machine.clone}-worktrees/issue-1/half.txt`;
  await until(() => existsSync(half));
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    expect(error).toMatchObject({ code: "ESRCH" });
  }
}

async function expectDone(team: Team): Promise<void> {
  await until(async () => (await statusOf(team.first)).kind === "done");
  const { run } = await team.first.json("status", "issue-1");
  expect(run.pullRequest).toMatchObject({ number: 2 });
  expect(readdirSync(join(team.place.remote, "holdfast-forge/pulls"))).toEqual(["2.json"]);
  const branches = await team.place.git("ls-remote", team.place.remote, "refs/heads/*");
  expect(branches.trim().split("\n")).toHaveLength(2);
  await until(async () => (await team.first.json("queue")).entries.length === 0);
  for (const machine of [team.first, team.second]) {
    await machine.json("store", "fetch");
    expect((await machine.run("verify")).status).toBe(0);
  }
}

describe.each(["SQLite", "PostgreSQL with DBOS"] as const)("the workers of a queue on %s", (kind) => {
  const missing = kind === "SQLite" ? null : postgresMissing();
  beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

  async function begin(config: object = {}): Promise<Team> {
    const place = await work.begin();
    const postgres = kind === "SQLite" ? null : await sharedPostgres();
    const store = postgres === null ? join(place.clone, "../store") : postgres.url();
    await writeFile(
      join(place.clone, "holdfast.config.yaml"),
      JSON.stringify({ files: { remote: "origin" }, ...config }),
    );
    await place.git("add", ".");
    await place.git("commit", "-qm", "config");
    await place.git("push", "-q", "origin", "main");
    const other = join(place.clone, "../elsewhere/shop");
    await mkdir(join(other, ".."));
    await place.git("clone", "-q", place.remote, other);
    return {
      place,
      store,
      first: machineIn(place, place.clone, store),
      second: machineIn(place, other, store),
      lose(what) {
        if (postgres === null) return rmSync(join(store, "dispatch"), { recursive: true });
        const schema = new URL(store).searchParams.get("schema") ?? "";
        for (const suffix of what === "engine" ? ["dbos"] : ["dispatch", "dbos"])
          postgres.sql(`DROP SCHEMA "${schema}_${suffix}" CASCADE`);
      },
    };
  }

  const submit = (agent: string): readonly string[] => ["submit", "1", "--no-review", "--agent", agent];

  test("a run goes from a killed worker to another one, and has one pull request", async () => {
    const team = await begin();
    const { first, second, place } = team;
    const line = submit(await place.agent([HANG]));
    expect(await first.json(...line)).toMatchObject({
      run: { id: "issue-1", status: { kind: "queued" } },
      known: false,
    });
    expect(await second.json(...line)).toMatchObject({ run: { id: "issue-1" }, known: true });
    expect((await first.json("queue")).entries).toMatchObject([{ run: "issue-1", why: "no worker has joined" }]);
    const killed = await second.join();
    expect((await first.json("workers")).workers).toMatchObject([{ slots: 4, draining: false }]);
    await untilHalfDone(second);
    const { holder } = await statusOf(second);
    // The machine is gone: the worker and its run.
    killed.kill("SIGKILL");
    process.kill(holder.pid, "SIGKILL");
    await killed.ended;
    await place.agent([GOOD]);
    await first.join();
    await expectDone(team);
  });

  test("a worker that leaves hands its run over; an answer from the other clone continues it", async () => {
    const team = await begin({ approve: ["push"] });
    const { first, second, place } = team;
    await first.json(...submit(await place.agent([HANG])));
    const leaving = await second.join();
    await untilHalfDone(second);
    await place.agent([GOOD]);
    const staying = await first.join("--slots", "1");
    leaving.kill("SIGTERM");
    expect(await leaving.ended).toBe(143);
    expect(leaving.events.at(-1)).toMatchObject({ kind: "left" });
    expect(leaving.events).toContainEqual(expect.objectContaining({ kind: "ended", exit: "terminated" }));
    await until(async () => (await statusOf(first)).for === "you");
    await until(async () => (await first.json("queue")).entries[0]?.wakeAt === null);
    expect(await second.run("approve", "1", "approve")).toMatchObject({
      status: 0,
      stderr: expect.stringContaining("A worker continues it."),
    });
    await expectDone(team);
    staying.kill("SIGTERM");
    expect(await staying.ended).toBe(143);
  });

  test.skipIf(kind === "SQLite")(
    "a run that is taken from the machine of a worker is continued only by its user",
    async () => {
      const team = await begin();
      const { first, second, place } = team;
      const there = machineIn(place, second.clone, team.store, preload("other-host.ts"));
      await first.json(...submit(await place.agent([HANG])));
      const worker = await there.join("--slots", "1");
      await untilHalfDone(there);
      expect(await first.run("take", "1", "--yes")).toMatchObject({
        status: 0,
        stderr: expect.stringContaining("issue-1 leaves the queue"),
      });
      await until(() => worker.events.some((event) => event.kind === "ended" && event.exit === "held"));
      await until(async () => (await first.json("queue")).entries.length === 0);
      expect(await statusOf(first)).toMatchObject({ kind: "paused" });
      await place.agent([GOOD]);
      expect((await first.run("resume", "1")).status).toBe(0);
      await expectDone(team);
      expect(worker.events.filter((event) => event.kind === "start")).toHaveLength(1);
    },
  );

  test.each(["at work", "crashed"])(
    "a run that is %s when it is taken out of the queue is left alone by a worker beside the queue",
    async (state) => {
      const { first, place } = await begin();
      await first.json(...submit(await place.agent([HANG])));
      const worker = await first.join("--slots", "1");
      await untilHalfDone(first);
      if (state === "crashed") {
        const { holder } = await statusOf(first);
        worker.kill("SIGKILL");
        await worker.ended;
        process.kill(holder.pid, "SIGKILL");
        await until(async () => (await statusOf(first)).kind === "crashed");
      }
      await first.json("queue", "--cancel", "1");
      await until(async () => (await statusOf(first)).kind !== "running");
      await place.agent([GOOD]);
      const beside = await first.run("worker", "--once", "--here");
      expect(beside).toMatchObject({ status: 0, stdout: expect.stringMatching(/^Leaving issue-1 /) });
      expect(await statusOf(first)).toMatchObject({ kind: state === "crashed" ? "crashed" : "paused" });
      await first.json("submit", "1");
      if (state === "crashed") await first.join("--slots", "1");
      await until(async () => (await statusOf(first)).kind === "done");
    },
  );

  test("a run waits for a worker with its labels, outlives the loss of the queue, and stops for its user alone", async () => {
    const team = await begin();
    const { first, second, place } = team;
    await first.json(...submit(await place.agent([HANG])), "--needs", "gpu", "--priority", "high");
    expect((await first.run("stop", "1")).stderr.replaceAll(/\s+/g, " ")).toContain("queue --cancel issue-1");
    const old = await first.join();
    await until(async () => (await first.json("queue")).entries[0]?.why === "no worker has gpu");
    old.kill("SIGTERM");
    expect(await old.ended).toBe(143);
    expect(old.events.filter(({ kind: what }) => what === "start")).toEqual([]);
    const [entry] = (await first.json("queue")).entries;
    expect(await first.run("submit", "1", "--dry-run", "--priority", "low")).toMatchObject({
      status: 0,
      stdout: "Would queue again: issue-1 in scripted, priority low.\n",
    });
    expect(await first.json("submit", "issue-1", "--dry-run")).toMatchObject({ kind: "plan", known: true });
    expect((await first.json("queue")).entries).toEqual([entry]);
    const other = await first.run("submit", "1", "--agent", "codex");
    expect(other.stderr).toContain("issue-1 exists with the agent scripted, so --agent codex is not used.");
    team.lose();
    expect((await first.run("queue")).stderr).toContain("1 submitted run is not in the queue.");
    await second.join("--label", "gpu");
    await untilHalfDone(second);
    expect(await second.run("stop", "1")).toMatchObject({ status: 0 });
    await until(async () => (await first.json("queue")).entries.length === 0);
    expect(await statusOf(first)).toMatchObject({ kind: "paused", reason: null });
    await place.agent([GOOD]);
    expect(await first.json("submit", "1")).toMatchObject({ known: false });
    await expectDone(team);
  });

  test("commands about a run that a worker on another machine executes name the queue", async () => {
    const { first, place, store } = await begin();
    await first.json(...submit(await place.agent([GOOD])));
    const elsewhere = { host: "elsewhere", pid: 1, started: "1", boot: "other" };
    const away = await openTestStore(store, { identity: elsewhere });
    onTestFinished(() => away.close());
    await away.takeLease({ run: "issue-1", label: "holdfast run issue-1" });
    for (const command of ["stop", "status"])
      expect((await first.run(command, "1")).stderr.replaceAll(/\s+/g, " ")).toContain(
        "holdfast queue --cancel issue-1",
      );
    const taken = await first.run("take", "1", "--yes");
    expect(taken).toMatchObject({ status: 0, stderr: expect.stringContaining("issue-1 leaves the queue") });
  });

  test("submit reports that the remote refuses the files, and queue the attempts that fail without them", async () => {
    const { first, second, place } = await begin();
    const hook = join(place.remote, "hooks/pre-receive");
    await mkdir(join(hook, ".."), { recursive: true });
    await writeFile(hook, "#!/bin/sh\nif grep -q refs/holdfast/; then exit 1; fi\n", { mode: 0o755 });
    const submitted = await first.run(...submit(await place.agent([GOOD])));
    expect(submitted).toMatchObject({ status: 0, stdout: expect.stringContaining("Queued: issue-1") });
    const { unpushed } = (await first.json("status", "issue-1")).run;
    expect(unpushed).toMatchObject({ snapshots: 1, problem: expect.stringContaining("pre-receive hook declined") });
    const shown = submitted.stderr.replaceAll(/\s+/g, " ");
    expect(shown).toContain(`1 snapshot not on origin yet: ${unpushed.problem.replaceAll(/\s+/g, " ")}`);
    expect(shown).toContain("store push issue-1");
    expect(await first.json("submit", "1")).toMatchObject({ known: true, unpushed });
    const away = await second.join("--slots", "1");
    // Each repetition comes later than the one before: in the end the queue is read between two of them.
    await until(async () => {
      const [entry] = (await first.json("queue")).entries;
      const { queued } = (await first.json("status", "issue-1")).run;
      return (
        entry.state === "waiting" &&
        /^\d attempts? failed, the last one on /.test(entry.why) &&
        entry.failures > 0 &&
        entry.wakeAt > 0 &&
        isDeepStrictEqual(queued, entry)
      );
    });
    await until(async () => /In queue scripted, due .*\d\s+attempt/s.test((await first.run("status")).stdout));
    await until(async () => /\d\s+attempt/.test((await first.run("queue")).stdout));
    away.kill("SIGTERM");
    expect(await away.ended).toBe(143);
    await rm(hook);
    expect((await first.run("store", "push", "issue-1")).status).toBe(0);
    const again = await first.run("submit", "1");
    expect(again).toMatchObject({ status: 0, stderr: expect.not.stringContaining("not on origin") });
  });

  test("in a rolling upgrade, old and new workers side by side each execute the runs of their definition", async () => {
    const team = await begin();
    const { first: old, place } = team;
    const newer = await changedCommand(place.holdfast, {
      from: "name:`impl`,version:1",
      to: "name:`impl`,version:2",
      files: 2,
    });
    onTestFinished(() => newer.remove());
    const upgraded = machineIn({ holdfast: newer }, team.second.clone, team.store);
    await old.json(...submit(await place.agent([HANG])));
    const killed = await old.join("--slots", "1");
    await untilHalfDone(old);
    const { holder } = await statusOf(old);
    killed.kill("SIGKILL");
    process.kill(holder.pid, "SIGKILL");
    await killed.ended;
    await place.agent([GOOD]);
    const next = await upgraded.join();
    // The new worker executes what the new command submits, and leaves the other run to the old definition.
    const { run } = await upgraded.json(
      "submit",
      "--task",
      "Next",
      "--no-review",
      "--agent",
      await place.agent([GOOD]),
    );
    await until(async () => (await upgraded.json("status", run.id)).run.status.kind === "done");
    await until(async () =>
      ((await old.json("queue")).entries[0]?.why ?? "").endsWith("no worker has workflow:impl@1"),
    );
    const last = await old.join();
    await until(async () => (await statusOf(old)).kind === "done");
    const started = (worker: Worker): readonly (string | undefined)[] =>
      worker.events.filter(({ kind: what }) => what === "start").map((event) => event.run);
    expect([started(next), started(last)]).toEqual([[run.id], ["issue-1"]]);
    await until(async () => (await old.json("queue")).entries.length === 0);
    for (const machine of [old, upgraded]) {
      await machine.json("store", "fetch");
      expect((await machine.run("verify")).status).toBe(0);
    }
  });

  test.skipIf(kind === "SQLite").each(["draining", "ended"])(
    "a machine that dies while its worker ends because its engine fails (%s) leaves its runs to another one",
    async (moment) => {
      const team = await begin();
      const { first, second, place } = team;
      await first.json(...submit(await place.agent([HANG])));
      const dying = machineIn(place, second.clone, team.store, preload("die-after.ts"), { DIE_AFTER: moment });
      const failing = await dying.join("--slots", "2");
      await untilHalfDone(second);
      const { holder } = await statusOf(second);
      team.lose("engine");
      // This entry cannot be brought to the worker, which ends then, and with it the run that it executes.
      const { run } = await first.json("submit", "--task", "Next", "--no-review", "--agent", await place.agent([GOOD]));
      await failing.ended;
      expect(failing.events.at(-1)?.kind).toBe(moment);
      killIfThere(holder.pid);
      const next = await first.join("--slots", "1");
      for (const id of ["issue-1", run.id])
        await until(async () => (await first.json("status", id)).run.status.kind === "done");
      expect(readdirSync(join(place.remote, "holdfast-forge/pulls"))).toHaveLength(2);
      await until(async () => (await first.json("queue")).entries.length === 0);
      expect(
        next.events
          .filter((event) => event.kind === "start")
          .map((event) => event.run)
          .toSorted(),
      ).toEqual(["issue-1", run.id].toSorted());
    },
  );

  test("a machine that comes back sends the files without which no other one can continue its run", async () => {
    const team = await begin();
    const { first, second, place } = team;
    await first.json(...submit(await place.agent([HANG])), "--needs", "second");
    const old = await first.join("--label", "second");
    await untilHalfDone(first);
    const away = `${place.remote}.away`;
    await rename(place.remote, away);
    expect((await first.run("checkpoint", "issue-1")).status).toBe(0);
    const { holder } = await statusOf(first);
    old.kill("SIGKILL");
    process.kill(holder.pid, "SIGKILL");
    await old.ended;
    await rename(away, place.remote);
    await place.agent([GOOD]);
    // It may not continue the run itself.
    await first.join();
    await until(async () => (await first.json("status", "issue-1")).run.unpushed?.snapshots === 0);
    await second.join("--label", "second");
    await expectDone(team);
  });
});

/** Starts `submit` of a task that is killed before its operation `dieAt`; 0: it is not killed. The file has the number of operations then. */
async function submitScene(): Promise<{
  readonly place: WorkPlace;
  readonly submit: (task: string, dieAt: number) => Promise<NodeJS.Signals | number | null>;
  readonly calls: () => number;
}> {
  const place = await work.begin();
  const counter = join(place.clone, "../count");
  const agent = await place.agent([GOOD]);
  return {
    place,
    async submit(task, dieAt) {
      const words = ["submit", "--workflow", "ralph", "--until", "true", "--task", task, "--agent", agent];
      const env = { DIE_AT: String(dieAt), COUNTER: counter, DIE_WITH: "sockets" };
      const child = place.holdfast.start(words, { cwd: place.clone, env, node: preload("die-at.ts") });
      child.stdout?.resume();
      child.stderr?.resume();
      return await new Promise((resolve) => child.on("close", (status, signal) => resolve(signal ?? status)));
    },
    calls: () => Number(readFileSync(counter, "utf8")),
  };
}

test("after a kill -9 of submit just before the run exists, no run inherits that it was submitted", async () => {
  const { place, submit, calls } = await submitScene();
  expect(await submit("whole", 0)).toBe(0);
  const column = (sql: string): readonly string[] => {
    using database = new DatabaseSync(join(place.clone, ".git/holdfast/store.db"), { readOnly: true });
    return database
      .prepare(sql)
      .all()
      .map(({ name }) => String(name));
  };
  // The last operation before which the kill leaves no run, and the first one before which it leaves one.
  let [before, after] = [1, calls()];
  for (let runs = 1; after - before > 1;) {
    const dieAt = Math.floor((before + after) / 2);
    expect(await submit(`task ${dieAt}`, dieAt)).toBe("SIGKILL");
    const ids = column("SELECT id AS name FROM runs");
    const marked = column("SELECT substr(key, 16) AS name FROM meta WHERE key LIKE 'fact/submitted/%'");
    expect(ids, `killed before operation ${dieAt}`).toEqual(expect.arrayContaining([...marked]));
    if (ids.length > runs) after = dieAt;
    else before = dieAt;
    runs = ids.length;
  }
});

test("after a kill -9 of submit at any step, the same command queues one run", async () => {
  const { place, submit, calls: count } = await submitScene();
  expect(await submit("whole", 0)).toBe(0);
  const calls = count();
  const seed = suiteSeed();
  const points = Array.from({ length: calls }, (_, i) => i + 1);
  const killed = sample(chanceOf(seed, "submit"), points, 6);
  for (const dieAt of killed) {
    const where = `HOLDFAST_SEED=${seed}, operation ${dieAt} of ${calls}`;
    // The number of operations differs slightly, so one of the last may not happen.
    expect(["SIGKILL", 0], where).toContain(await submit(`task ${dieAt}`, dieAt));
    expect(await submit(`task ${dieAt}`, 0), where).toBe(0);
  }
  const { entries } = await place.json("queue");
  const { runs } = await place.json("status");
  expect(runs.map(({ status }: { readonly status: object }) => status)).toEqual(
    runs.map(() => ({ kind: "queued", holder: null, position: null })),
  );
  const ids = (list: readonly Record<string, string>[], key: string) => list.map((one) => one[key]).toSorted();
  expect(ids(entries, "run")).toEqual(ids(runs, "id"));
  expect(runs).toHaveLength(killed.length + 1);
  expect((await place.run("verify")).status).toBe(0);
});
