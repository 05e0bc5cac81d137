import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openHoldfast } from "../open.ts";
import { countGit } from "@holdfast/test-support/git/repository";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
}, 60_000);
afterAll(() => journey.holdfast.remove());
beforeEach(() => journey.begin());

/** As a process that was killed in the middle of a restore leaves it, its lease included. */
async function cutRestore(run: string, target: string): Promise<void> {
  const script = `
    const { open } = await import(${JSON.stringify(new URL("../index.ts", import.meta.url).href)});
    const { store } = await open({ cwd: process.cwd() });
    const lease = await store.takeLease({ run: "${run}", label: "cut off" });
    await store.commit({ lease, entries: [{ kind: "restore.started", body: { target: "${target}", paths: null } }] });
    process.kill(process.pid, "SIGKILL");
  `;
  const killed = promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
    cwd: journey.repository(),
  });
  await expect(killed).rejects.toMatchObject({ signal: "SIGKILL" });
}

test("all views of a run show an unfinished restore until it is finished; its dead process is not shown", async () => {
  const { run, json } = journey;
  await json("checkpoint", "--run", "b");
  await cutRestore("b", "b@1");
  const mark =
    /^! a restore of b@1 did not finish.*\n +finish it: +holdfast restore b@1\n +what was .*holdfast list b$/m;
  const [runs, checkpoints, shown] = await Promise.all([run("list"), run("list", "b"), run("show", "b")]);
  expect([runs, checkpoints, shown].map(({ stdout }) => mark.test(stdout))).toEqual([true, true, true]);
  expect(runs.stdout).toMatch(/^b +half restored /m);
  // The process that died holds nothing any more: no process executes a run that is saved by hand.
  expect(shown.stdout).toMatch(/^b +saved$/m);
  expect((await run("checkpoint", "--run", "b")).stdout).toMatch(mark);
  expect((await run("doctor")).stdout).toMatch(/^warn +restore/m);
  expect((await json("checkpoint", "--run", "b")).unfinishedRestore).toBe("b@1");
  expect((await json("restore", "b@1", "--yes")).report).not.toBeNull();
  expect((await run("list")).stdout).not.toContain("!");
});

test("paths after -- are relative to the current directory, and must be known", async () => {
  const { json, read, write, runIn, fails } = journey;
  await json("checkpoint", "--run", "r");
  await write("src/a.txt", "two\n");
  await write("a.txt", "new\n");
  expect((await runIn("src", ["diff", "--name-only", "--", "a.txt"])).stdout).toBe("src/a.txt\n");
  expect((await runIn("src", ["diff", "--name-only", "--", "../a.txt"])).stdout).toBe("a.txt\n");
  expect(await fails(2, "diff", "--", "../elsewhere")).toContain("is not in the worktree");
  const typo = await runIn("src", ["diff", "--", "b.txt"]);
  expect([typo.status, typo.stderr]).toEqual([
    2,
    "error: src/b.txt is neither in the worktree nor in r@1\nhint:  Did you mean a.txt?\n",
  ]);
  expect((await runIn("src", ["restore", "r@1", "--yes", "--", "b.txt"])).stderr).toBe(typo.stderr);
  expect((await runIn("src", ["restore", "r@1", "--yes", "--", "a.txt"])).status).toBe(0);
  expect([await read("src/a.txt"), await read("a.txt")]).toEqual(["one\n", "new\n"]);
  expect((await runIn(".", ["--cwd", "src", "diff", "--name-only", "r@1", "--", ".."])).stdout).toBe("a.txt\n");
});

test("a path instead of an address gets a hint with the right position", async () => {
  const { json, fails } = journey;
  await json("checkpoint", "--run", "r");
  expect(await fails(3, "diff", "src")).toContain("holdfast diff -- src");
  expect(await fails(2, "restore", "r@1", "src")).toContain("holdfast restore r@1 -- src");
  expect(await fails(2, "list", "r@1")).toContain("Name the run alone: r.");
  expect(await fails(2, "events", "r@1")).toContain("holdfast show r@1");
});

test("nested repositories are named wherever they are left out", async () => {
  const { git, json, run, write } = journey;
  await write("sub/x.txt", "x\n");
  await git("-C", "sub", "init", "-q");
  const line = "  ! sub/ not saved: a git repository of its own\n";
  expect((await run("checkpoint", "--run", "r", "--dry-run")).stdout).toContain(`as they are now.\n${line}`);
  const saved = await run("checkpoint", "--run", "r");
  expect(saved.stdout).toContain(line);
  expect((await run("checkpoint", "--dry-run")).stdout).toContain(`as in the last checkpoint\n${line}`);
  expect((await json("checkpoint", "--run", "other", "--dry-run")).nested).toEqual([{ path: "sub", head: null }]);
  expect((await json("checkpoint", "--run", "other", "--dry-run", "--no-files")).nested).toEqual([]);
  expect((await run("show", "r@1")).stdout).toContain("! sub/ not saved: a git repository of its own");
  await write("sub/x.txt", "changed\n");
  const same = await run("diff");
  expect(same.stderr).toMatch(/^No difference between r@1 and the worktree \/.*\.\n {2}! sub\/ not compared: a git/);
  await rm(join(journey.repository(), "sub"), { recursive: true });
  await write("src/a.txt", "two\n");
  expect((await json("restore", "r@1", "--dry-run")).lost).toEqual([
    { path: "sub/", why: "a git repository of its own" },
  ]);
  expect((await run("restore", "r@1", "--yes")).stdout).toContain("! sub/ not restored: a git repository");
});

test("a restore is refused if a git repository is at the path of a saved file", async () => {
  const { git, json, fails, read, write, run } = journey;
  await write("lib/x", "p\n");
  await json("checkpoint", "--run", "r");
  await rm(join(journey.repository(), "lib"), { recursive: true });
  await git("init", "-q", "lib");
  const refused = await fails(4, "restore", "r@1", "--yes");
  expect(refused).toContain("lib is a git repository of its own, or a file that no checkpoint holds");
  expect(existsSync(join(journey.repository(), "lib/x"))).toBe(false);
  expect((await json("list", "r")).checkpoints).toHaveLength(1);
  // With nothing else to change, too.
  expect((await run("restore", "r@1", "--dry-run")).stdout).toContain("! lib is in the way");
  await write("src/a.txt", "two\n");
  expect((await json("restore", "r@1", "--yes", "--", "src")).report).toMatchObject({ written: 1 });
  await rm(join(journey.repository(), "lib"), { recursive: true });
  await json("restore", "r@1", "--yes");
  expect(await read("lib/x")).toBe("p\n");
});

test.each([[["diff"]], [["checkpoint", "--dry-run"]]])("%j captures the worktree once", async (args) => {
  const { json, run, write } = journey;
  await json("checkpoint", "--run", "r");
  await write("src/a.txt", "two\n");
  const { calls } = countGit();
  expect((await run(...args)).stdout).toContain("src/a.txt");
  expect(calls().filter((call) => call.includes("ls-files --others"))).toHaveLength(1);
});

test("a restore that would change nothing writes nothing", async () => {
  const { json, run, write } = journey;
  await json("checkpoint", "--run", "r");
  const before = (await json("show", "r")).run.entries;
  const { status, stdout } = await run("restore", "r@1", "--yes");
  expect([status, stdout]).toEqual([
    0,
    "Nothing to restore: r@1 is the newest checkpoint, and the files are the same.\n",
  ]);
  expect((await json("restore", "r@1", "--yes")).report).toBeNull();
  expect((await json("show", "r")).run.entries).toBe(before);
  await write("src/a.txt", "two\n");
  const restored = await run("restore", "r@1", "--yes");
  expect([restored.stdout.split("\n")[0], restored.stderr]).toEqual([
    "Restored r@1: 1 file written, 0 removed. Saved as r@3.",
    expect.stringMatching(/^✓ integrity .*\n✓ files [^]*\n✓ resume .*saved by hand\n$/),
  ]);
});

describe("a named store", () => {
  test("that does not exist is an error, and suggestions repeat its name", async () => {
    const { fails, run, runIn, write } = journey;
    for (const args of [["list"], ["show"], ["events"], ["diff"], ["verify"], ["checkpoint", "--dry-run"]]) {
      const stderr = await fails(3, ...args, "--store", "my store");
      expect(stderr, args.join(" ")).toMatch(
        /^error: There is no store in \/.*my store, which --store names \[STORE_ABSENT\]\n/,
      );
      expect(stderr).toContain("`holdfast --store 'my store' checkpoint` creates a store there");
    }
    expect((await runIn(".", ["list"], { env: { HOLDFAST_STORE: "typo" } })).stderr).toContain("HOLDFAST_STORE names");
    await write("a-file", "text");
    expect(await fails(3, "list", "--store", "a-file")).toMatch(
      /^error: There is no store in \/.*a-file, which --store names \[STORE_ABSENT\]\n/,
    );
    await write("holdfast.config.yaml", "store: typo\n");
    expect(await fails(3, "list")).toMatch(/typo, which \/.*holdfast\.config\.yaml names/);
    expect((await run("doctor")).stdout).toMatch(/^fail +store +There is no store/m);
  });

  test("is repeated in suggestions and in hints of other modules", async () => {
    const { fails, run } = journey;
    const saved = await run("--store", "../s", "checkpoint", "--run", "r");
    expect(saved.stderr).toBe("Go back to it with: holdfast --store ../s restore r@1\n");
    expect(await fails(3, "--store", "../s", "show", "r@7")).toContain("`holdfast --store ../s list r`");
    const elsewhere = await fails(6, "list", "r");
    expect(elsewhere).toMatch(
      /snapshots or worktrees of runs \(r\): the store was deleted or moved \[STORE_MISSING\]\n/,
    );
    expect(elsewhere).toContain("name the store with --store if it was moved");
  });
});

test("a bare repository: state only, which is reported; no config file there", async () => {
  const { git, holdfast } = journey;
  await git("clone", "-q", "--bare", ".", "../bare.git");
  const cwd = join(journey.repository(), "../bare.git");
  const saved = await holdfast.run(["checkpoint", "--run", "r"], { cwd });
  expect(saved.stdout).toMatch(
    /^Created run r\.\nThere is no worktree here \(a bare repository\), so only state is saved\.\nSaved r@1 \(state only; /,
  );
  expect(await holdfast.run(["setup", "--defaults"], { cwd })).toMatchObject({ status: 1, stdout: "" });
  expect((await holdfast.run(["setup", "--defaults"], { cwd: join(cwd, "refs") })).stderr).toContain("no worktree");
  await rm(cwd, { recursive: true });
});

test("an invalid config stops only commands that need it", async () => {
  const { fails, json, run, write } = journey;
  await json("checkpoint", "--run", "r", "--store", "../kept");
  await write("holdfast.config.yaml", "store: ../kept\nretention: { maxAeg: 30d }\n");
  const warning = "warning: holdfast.config.yaml is broken, so defaults are used: holdfast config check\n";
  for (const args of [["list"], ["show", "r"], ["events", "r"], ["diff", "r@1"], ["verify"]]) {
    const { status, stderr } = await run(...args);
    expect({ args, status, warned: stderr.startsWith(warning) }).toEqual({ args, status: 0, warned: true });
  }
  for (const args of [["checkpoint"], ["checkpoint", "--dry-run"], ["restore", "r@1"], ["gc"], ["fork", "r@1"]]) {
    expect(await fails(2, ...args), args.join(" ")).toContain('unknown key "maxAeg"');
  }
  const doctor = await run("doctor");
  expect(doctor.status).toBe(1);
  expect(doctor.stdout).toMatch(/^fail +config .*\n(.*\n)*ok +git /m);
  await write("holdfast.config.yaml", "store: [\n");
  expect(await fails(2, "list")).toContain("holdfast.config.yaml:");
});

test("typos are refused with the right spelling", async () => {
  const { fails, json, run } = journey;
  await json("checkpoint", "--run", "r");
  expect(await fails(2, "checkpoint", "--name", " ")).toContain("--name is empty");
  expect(await fails(2, "checkpoint", "--run", "Fix Login")).toContain("such as fix-login.");
  expect(await fails(2, "checkpoint", "--run", "x".repeat(64))).toContain("1 to 63");
  const tag = await fails(2, "tag", "r@1", "two words");
  const rule = "1 to 64 letters, digits, dots, hyphens or underscores, beginning and ending with a letter or digit";
  expect(tag).toContain(rule);
  expect((await run("tag", "--help")).stdout.replace(/\s+/g, " ")).toContain(rule);
  expect(await fails(2, "config", "chekc")).toBe(
    'error: ACTION cannot be "chekc"\nhint:  Did you mean check? One of: show, check.\n',
  );
  expect((await run("-n", "1", "list")).status).toBe(0);
  await json("checkpoint", "--run", "r");
  expect((await run("list", "r", "-n", "1")).stderr).toBe(
    "Only the newest checkpoint is shown; --limit all shows every one.\n",
  );
});

describe("a signal", () => {
  /** A git that waits once at a chosen command, until the test releases it. */
  async function slowGit(at: string) {
    const place = join(journey.holdfast.directory, "slow", at);
    await mkdir(place, { recursive: true });
    await rm(join(place, "reached"), { force: true });
    await rm(join(place, "go"), { force: true });
    const { stdout } = await promisify(execFile)("which", ["git"]);
    const script = `#!/bin/sh
      case " $* " in *" ${at} "*)
        if [ ! -e "${place}/reached" ]; then
          : > "${place}/reached"
          while [ ! -e "${place}/go" ]; do sleep 0.05; done
        fi;;
      esac
      exec ${stdout.trim()} "$@"`;
    await writeFile(join(place, "git"), script);
    await chmod(join(place, "git"), 0o755);
    return { place, PATH: `${place}:${process.env["PATH"]}` };
  }

  async function interrupted(at: string, signal: NodeJS.Signals, ...args: string[]) {
    const { place, PATH } = await slowGit(at);
    const child = journey.holdfast.start(args, { cwd: journey.repository(), env: { PATH } });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => (output += text));
    const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
    await expect.poll(() => existsSync(join(place, "reached")), { timeout: 600_000 }).toBe(true);
    child.kill(signal);
    await writeFile(join(place, "go"), "");
    return { status: await ended, output };
  }

  test("before any work", async () => {
    expect(await interrupted("--version", "SIGINT", "checkpoint", "--run", "r")).toEqual({
      status: 130,
      output: "Interrupted; nothing was changed.\n",
    });
    expect(await journey.json("list")).toEqual({ runs: [] });
  });

  test("in the middle of a save: it is finished, and reported in one line", async () => {
    expect(await interrupted("update-ref", "SIGINT", "checkpoint", "--run", "r")).toEqual({
      status: 130,
      output: "Interrupted, but run r was created and r@1 was saved.\n",
    });
    expect((await journey.json("show", "r")).run.status).toEqual({ kind: "saved", holder: null });
    const again = await interrupted("update-ref", "SIGTERM", "checkpoint", "--run", "r", "--json");
    expect([again.status, JSON.parse(again.output).error]).toMatchObject([
      143,
      { code: "INTERRUPTED", message: "Terminated, but r@2 was saved.", data: { done: ["r@2 was saved"] } },
    ]);
  });

  test("twice: it exits immediately, and prints where to look", async () => {
    const { place, PATH } = await slowGit("update-ref");
    const child = journey.holdfast.start(["checkpoint", "--run", "r"], { cwd: journey.repository(), env: { PATH } });
    let output = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (output += text));
    const ended = new Promise<number | null>((resolve) => child.on("exit", resolve));
    await expect.poll(() => existsSync(join(place, "reached")), { timeout: 600_000 }).toBe(true);
    child.kill("SIGINT");
    child.kill("SIGTERM");
    expect([130, 143]).toContain(await ended);
    await writeFile(join(place, "go"), "");
    expect(output).toBe("Stopped at once. Saved work: holdfast list. Unfinished work: holdfast doctor\n");
  });

  test("while it waits for a run of another process: it exits immediately, and nothing was done", async () => {
    await journey.json("checkpoint", "--run", "r");
    await using other = await openHoldfast({ cwd: journey.repository() });
    await using held = await other.run("r");
    await held.save();
    const child = journey.holdfast.start(["checkpoint", "--run", "r"], { cwd: journey.repository() });
    let output = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (output += text));
    const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
    await expect.poll(() => output, { timeout: 600_000 }).toContain("Waiting for r");
    child.kill("SIGINT");
    expect(await ended).toBe(130);
    expect(output).toMatch(/\nInterrupted; nothing was changed\.\n$/);
  });
});
