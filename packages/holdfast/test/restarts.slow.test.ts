import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { describe, expect, test } from "vitest";
import { openHoldfast } from "../src/open.ts";
import { defineWorkflow } from "@holdfast/core/workflow";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";

const work = workSuite();
/** Lines of output at which a process is killed; the later ones lie in the stages that push and publish. */
const KILLS = [1, 9, 14, 12, 10];
const ISSUE = { kind: "issue", number: 1 } as const;

/** Of a loop that opens a pull request. */
const LOOP = { task: "Answer", until: "grep -q 42 answer.txt", pullRequest: true };
const LOOPED = { edits: GOOD.edits, reply: "done", usage: GOOD.usage };

describe("a supervisor that starts the same work after every SIGKILL gets one run and one pull request", () => {
  test("with `holdfast run ISSUE --resume`", async () => {
    const place = await work.begin();
    const agent = await place.agent([GOOD]);
    const line = ["run", "1", "--resume", "--no-review", "--agent", agent, "--json"];
    const start = (): ChildProcess => place.holdfast.start(line, { cwd: place.clone });
    const kills = await superviseUntilDone(start, place);
    expect(kills).toBeGreaterThan(KILLS.length / 2);
    expect(await countsOf(place)).toEqual({ runs: ["issue-1"], pulls: 1, branches: 2 });
    for (const again of [line, line.filter((word) => word !== "--resume")])
      expect(await place.run(...again)).toMatchObject({ status: 0, stderr: "" });
    expect(await countsOf(place)).toEqual({ runs: ["issue-1"], pulls: 1, branches: 2 });
  });

  test("with the library's start()", async () => {
    const place = await work.begin();
    const agent = await place.agent([GOOD]);
    const worker = await bundleWorker(place.holdfast.directory);
    const start = (): ChildProcess => spawn(process.execPath, [worker, agent], { cwd: place.clone, stdio: "pipe" });
    const kills = await superviseUntilDone(start, place);
    expect(kills).toBeGreaterThan(KILLS.length / 2);
    expect(await countsOf(place)).toEqual({ runs: ["issue-1"], pulls: 1, branches: 2 });
    const last = await finish(start(), null);
    expect([last.status, last.stderr]).toEqual([0, ""]);
    const report = { run: "issue-1", outcome: { kind: "done" }, earlier: true };
    expect(JSON.parse(last.lines.at(-1) ?? "")).toMatchObject(report);
    expect(await countsOf(place)).toEqual({ runs: ["issue-1"], pulls: 1, branches: 2 });
  });
});

describe("starting work that has ended", () => {
  test("with the library: done is returned, `again` begins a new run", async () => {
    const place = await work.begin();
    const agent = await place.agent([GOOD]);
    await using holdfast = await openHoldfast({ cwd: place.clone });
    const params = { work: ISSUE, agent, options: { review: false } };
    const first = await holdfast.start(params);
    expect(first).toMatchObject({ run: "issue-1", outcome: { kind: "done" } });
    expect(await holdfast.start(params)).toEqual({ ...first, earlier: true });
    expect(await countsOf(place)).toMatchObject({ runs: ["issue-1"], pulls: 1 });
    expect(await holdfast.start({ ...params, again: true })).toMatchObject({
      run: "issue-1-2",
      outcome: { kind: "done" },
    });
    expect(await holdfast.start(params)).toMatchObject({ run: "issue-1-2", earlier: true });
    expect(await countsOf(place)).toMatchObject({ runs: ["issue-1", "issue-1-2"], pulls: 2 });
  });

  test("a finished ralph task opens no second pull request, in the library and on the command line", async () => {
    const place = await work.begin();
    const agent = await place.agent([LOOPED]);
    const words = ["run", "--workflow", "ralph", "--task", "Answer", "--until", LOOP.until, "--pr", "--agent", agent];
    const first = await place.run(...words);
    expect(first.status, first.stdout + first.stderr).toBe(0);
    const before = await countsOf(place);
    expect(before).toMatchObject({ runs: [expect.stringMatching(/^ralph-answer-/)], pulls: 1 });
    const again = await place.run(...words);
    expect(again).toMatchObject({ status: 0, stderr: expect.stringContaining("add --again") });
    expect(again.stdout).toContain(`Done ${before.runs[0] ?? ""}`);
    {
      await using holdfast = await openHoldfast({ cwd: place.clone });
      const task = { kind: "task", text: "Answer" } as const;
      expect(await holdfast.start({ workflow: "ralph", work: task, agent, options: LOOP })).toMatchObject({
        earlier: true,
      });
    }
    expect(await countsOf(place)).toEqual(before);
    expect(await place.run(...words, "--again")).toMatchObject({ status: 0 });
    expect(await countsOf(place)).toMatchObject({ pulls: 2 });
  });

  test("aborted work returns its outcome with exit 1 and begins nothing", async () => {
    const place = await work.begin();
    const agent = await place.agent([{ ...GOOD, edits: [] }]);
    const line = ["run", "1", "--no-review", "--agent", agent];
    const first = await place.run(...line);
    expect(first.status, first.stdout + first.stderr).toBe(4);
    expect((await place.run("stop", "issue-1", "--now")).status).toBe(0);
    const before = await countsOf(place);
    const again = await place.run(...line);
    expect(again, again.stdout).toMatchObject({ status: 1, stderr: expect.stringContaining("add --again") });
    expect(again.stdout).toMatch(/abort/i);
    expect(await countsOf(place)).toEqual(before);
  });

  test("failed work returns its outcome with exit 1 and begins nothing", async () => {
    const place = await work.begin();
    const agent = await place.agent([{ ...GOOD, edits: [], finalize: undefined, reply: "no" }]);
    const line = ["run", "1", "--no-review", "--max-iterations", "1", "--agent", agent];
    const first = await place.run(...line);
    expect(first.status, first.stdout + first.stderr).toBe(1);
    const before = await countsOf(place);
    const again = await place.run(...line);
    expect(again).toMatchObject({ status: 1, stderr: expect.stringContaining("add --again") });
    expect(again.stdout).toContain("holdfast resume issue-1 --max-iterations N");
    expect(await countsOf(place)).toEqual(before);
    const begun = await place.json(...line, "--dry-run");
    expect(begun.plan).toMatchObject({ id: "issue-1", earlier: { id: "issue-1", state: { kind: "failed" } } });
  });

  test("a custom workflow with a task in words: the same text is the same run", async () => {
    const place = await work.begin();
    const notes = join(place.clone, "..", "notes.txt");
    const workflow = defineWorkflow<Record<string, never>>({
      name: "notes",
      initial: "write",
      initialState: () => ({}),
      parseState: () => ({}),
      stages: {
        write: async (context) => {
          await context.step("note", async () => {
            await writeFile(notes, "written\n", { flag: "a" });
            return null;
          });
          return { event: "ok", reason: "written" };
        },
      },
      transitions: { write: { ok: "done" } },
      ends: { done: "done" },
    });
    await using holdfast = await openHoldfast({ cwd: place.clone });
    const params = { workflow, work: { kind: "task", text: "Take notes" }, workspace: "none" } as const;
    const [one, two] = [await holdfast.start(params), await holdfast.start(params)];
    expect(two).toEqual({ ...one, earlier: true });
    expect(await readFile(notes, "utf8")).toBe("written\n");
    expect((await holdfast.start({ ...params, id: "mine" })).run).toBe("mine");
    expect((await holdfast.start({ ...params, id: "mine" })).earlier).toBe(true);
    expect((await holdfast.start({ ...params, id: "mine", again: true })).run).not.toBe("mine");
  });
});

/**
 * Starts, kills before there is any output, then with the nth line of output for each of KILLS, then lets it end by itself. Returns how many
 * processes the lines killed; progress does not depend on time.
 */
async function superviseUntilDone(start: () => ChildProcess, place: WorkPlace): Promise<number> {
  const early = start();
  const ended = finish(early, null);
  while (!existsSync(join(place.clone, ".git/holdfast/store.db")) && early.exitCode === null) await pause();
  early.kill("SIGKILL");
  await ended;
  let killed = 0;
  for (const nth of [...KILLS, null, null]) {
    const life = await finish(start(), nth);
    if (life.signal === "SIGKILL") killed += 1;
    else if (life.status === 0) return killed;
    else throw new Error(`ended with ${String(life.status)}:\n${life.lines.join("\n")}\n${life.stderr}`);
  }
  throw new Error("it never ended");
}

/** The worker with the programs that it starts, each as one file: a process starts quickly. */
async function bundleWorker(directory: string): Promise<string> {
  const packages = join(import.meta.dirname, "../..");
  const bundle = (entry: string, name: string) =>
    build({
      entryPoints: [entry],
      outfile: join(directory, "worker", `${name}.cjs`),
      bundle: true,
      format: "cjs",
      platform: "node",
      logLevel: "error",
      define: { "import.meta.dirname": "__dirname", "import.meta.filename": "__filename" },
    });
  // Of two that create the same folder at once, cp() fails.
  await mkdir(join(directory, "worker"));
  await Promise.all([
    bundle(join(import.meta.dirname, "restart-worker.ts"), "worker"),
    bundle(join(packages, "agents/src/script-runner.ts"), "script-runner"),
    bundle(join(packages, "workflows/src/node-parser.ts"), "node-parser"),
    cp(join(packages, "workflows/src"), join(directory, "worker"), {
      recursive: true,
      filter: (path) => !path.endsWith(".ts"),
    }),
  ]);
  return join(directory, "worker/worker.cjs");
}

async function finish(child: ChildProcess, nth: number | null) {
  let [stdout, stderr] = ["", ""];
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    if (nth !== null && stdout.split("\n").length > nth) child.kill("SIGKILL");
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const [status, signal] = await new Promise<readonly [number | null, NodeJS.Signals | null]>((resolve) => {
    child.once("close", (code, by) => resolve([code, by]));
  });
  return { status, signal, stderr, lines: stdout.trim().split("\n") };
}

async function countsOf(place: WorkPlace) {
  await using holdfast = await openHoldfast({ cwd: place.clone });
  const { forge } = await holdfast.work.adapters();
  const log = await readFile(join(forge?.location ?? "", "log.jsonl"), "utf8");
  const heads = await place.git("ls-remote", "--heads", place.remote);
  return {
    runs: (await holdfast.listRuns()).map(({ id }) => id).toSorted(),
    pulls: log.split("\n").filter((line) => line.includes('"pull_created"')).length,
    branches: heads.split("\n").length,
  };
}

function pause(): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, 5));
}
