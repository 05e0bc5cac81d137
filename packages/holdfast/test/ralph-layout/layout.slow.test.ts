import { Ajv2020 } from "ajv/dist/2020.js";
import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openHoldfast } from "../../src/open.ts";
import { schemaText } from "../../src/interop/export.ts";
import type { Holdfast } from "../../src/holdfast.ts";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import { DEFAULT_LAYOUT } from "@holdfast/workflows/plugin";
import { inTurn, makeBench } from "../ralph/bench.ts";
import { DIRECTORY, LOOP, beginLoop, names, readGz, save } from "./loop-run.ts";

const SEED = { ...DEFAULT_LAYOUT, layout: "seed" } as const;
let root: string;
let holdfast: Holdfast;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "holdfast-layout-"));
  holdfast = await openHoldfast({ cwd: root, store: join(root, "store"), loopLayout: SEED });
  await beginLoop(holdfast);
});
afterEach(async () => {
  await holdfast.close();
  rmSync(root, { recursive: true });
});

const mirror = async (run = LOOP) => await (await holdfast.formats.mirror({ run, to: "loop-json" })).catchUp();
const readJson = (path: string): JsonObject => JSON.parse(readFileSync(join(root, path), "utf8"));

const ajv = new Ajv2020({
  strict: true,
  strictTypes: false,
  formats: { "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/ },
});
const SCHEMAS = ["loop-json", "loop-registry", "loop-state", "reflection-memory"] as const;
const validators = new Map(SCHEMAS.map((name) => [name, ajv.compile(JSON.parse(schemaText(name)))]));

/** Every JSON below `.aiwg`, judged by a validator that others wrote. */
function invalid(): readonly string[] {
  const schemaOf = (path: string) => {
    if (path.includes("/checkpoints/")) return "loop-json" as const;
    if (path.endsWith("registry.json")) return "loop-registry" as const;
    return path.endsWith("state.json") ? ("loop-state" as const) : ("reflection-memory" as const);
  };
  const files = readdirSync(join(root, ".aiwg"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== ".gitignore")
    .map((entry) => join(entry.parentPath, entry.name));
  expect(files.length).toBeGreaterThan(0);
  return files.flatMap((path) => {
    const validate = validators.get(schemaOf(path));
    if (validate === undefined) return [`${path}: no schema`];
    const document: Json = path.endsWith(".gz") ? readGz(path) : JSON.parse(readFileSync(path, "utf8"));
    return validate(document) ? [] : [`${path}: ${JSON.stringify(validate.errors)}`];
  });
}

describe("files of a loop", () => {
  test("the end of each iteration, requested checkpoints, and all of it valid by the schemas", async () => {
    await save(holdfast, { iteration: 0, trigger: "stage", loopId: null });
    expect(await mirror()).toMatchObject({ paths: [] });
    await save(holdfast, { iteration: 1, trigger: "manual" });
    const risky = await save(holdfast, { iteration: 1, trigger: "before_risky" });
    await save(holdfast, { iteration: 1, trigger: "stage", stage: "reflect" });
    await save(holdfast, { iteration: 1 });
    await save(holdfast, { iteration: 2 });
    await mirror();
    expect(names(root)).toEqual([
      expect.stringMatching(/^checkpoint-1-\d+\.json\.gz$/),
      expect.stringMatching(/^checkpoint-1-\d+\.json\.gz$/),
      "iteration-001.json.gz",
      "iteration-002.json.gz",
    ]);
    expect(invalid()).toEqual([]);
    expect(readGz(join(root, DIRECTORY, "iteration-002.json.gz"))).toMatchObject({
      checkpoint_id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
      workflow_id: LOOP,
      loop_id: LOOP,
      workflow_type: "ralph_loop",
      trigger: "iteration",
      state: {
        phase: "iterate",
        iteration: { current: 2, max: 200, failures: 2 },
        progress: { total_steps: 200, completed_steps: 2, percentage: 1 },
        variables: { loopId: LOOP },
        agent_state: { current_agent: "scripted", memory: { reflections: [{}, {}] } },
      },
      metadata: { schema_version: "2.0", compression: "gzip", retention_days: 30 },
    });
    const { createdAt } = await holdfast.store.getCheckpoint({ run: LOOP, sequence: risky });
    const beside = readGz(join(root, DIRECTORY, `checkpoint-1-${Date.parse(createdAt)}.json.gz`));
    expect(beside).toMatchObject({ trigger: "pre_risky_op", created_at: createdAt });
    expect(readJson(`.aiwg/ralph/loops/${LOOP}/reflection-memory.json`)).toMatchObject({
      iteration: 2,
      window: [{ iteration: 1 }],
      memory_metadata: { omega_capacity: 3, current_memory_size: 2 },
    });
  });

  test("written again they are the same, byte for byte, and no file is touched", async () => {
    for (const iteration of [1, 2, 3]) await save(holdfast, { iteration });
    await mirror();
    const before = names(root).map((name) => [name, lstatSync(join(root, DIRECTORY, name)).ino]);
    expect(await mirror()).toMatchObject({ paths: [], removed: [] });
    expect(names(root).map((name) => [name, lstatSync(join(root, DIRECTORY, name)).ino])).toEqual(before);
    const bytes = names(root).map((name) => readFileSync(join(root, DIRECTORY, name)).toString("base64"));
    rmSync(join(root, ".aiwg"), { recursive: true });
    await mirror();
    expect(names(root).map((name) => readFileSync(join(root, DIRECTORY, name)).toString("base64"))).toEqual(bytes);
  });

  test("a run that was restored: the highest iteration is the last that counts", async () => {
    for (const iteration of [1, 2, 3]) await save(holdfast, { iteration });
    await mirror();
    await save(holdfast, { iteration: 2, trigger: "restore" });
    await mirror();
    expect(names(root).filter((name) => name.startsWith("iteration-"))).toEqual(["iteration-001.json.gz"]);
    expect(names(root)).toHaveLength(4);
    expect(readJson(`.aiwg/ralph/loops/${LOOP}/state.json`)).toMatchObject({
      iteration: 2,
      last_checkpoint: expect.stringMatching(/checkpoint-2-\d+\.json\.gz$/),
    });
  });

  test("a type without a loop id is in the legacy directory; a fork has its own directory", async () => {
    const options = { workflowType: "agent_task" };
    await beginLoop(holdfast, "task-1");
    await save(holdfast, { run: "task-1", iteration: 1, options });
    await save(holdfast, { run: "task-1", iteration: 1, trigger: "manual", options });
    await mirror("task-1");
    expect(names(root, ".aiwg/checkpoints").filter((name) => name !== ".gitignore")).toEqual([
      expect.stringMatching(/^task-1-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?Z-iteration\.json\.gz$/),
      expect.stringMatching(/^task-1-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?Z-manual\.json\.gz$/),
    ]);
    expect(existsSync(join(root, ".aiwg/ralph"))).toBe(false);
    expect(invalid()).toEqual([]);
    await save(holdfast, { iteration: 1 });
    const first = await holdfast.store.getCheckpoint({ run: LOOP, sequence: 1 });
    const forkedFrom = { id: first.id, digest: first.digest };
    await holdfast.store.createRun({ id: "fork-1", workflow: "ralph", work: { kind: "none" }, forkedFrom });
    await save(holdfast, { run: "fork-1", iteration: 1, trigger: "fork" });
    await mirror();
    await mirror("fork-1");
    expect(names(root, ".aiwg/ralph/loops")).toEqual([LOOP, expect.stringMatching(/^ralph-fork-1-[0-9a-f]{8}$/)]);
  });
});

test("each iteration of a real loop reports its work: step, progress, failures, files, tools and its own reflection", async () => {
  await using bench = await makeBench({
    answers: inTurn("1\n", "2\n", "42\n"),
    options: { maxIterations: 9 },
    layout: "seed",
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const checkpoints = `.aiwg/ralph/loops/${bench.run()}/checkpoints`;
  const read = (number: number) => readGz(join(bench.clone, checkpoints, `iteration-00${number}.json.gz`));
  const head = await bench.git("worktree", "ls-tree", "HEAD", "answer.txt");
  for (const number of [1, 2, 3]) {
    const document = read(number);
    expect(document).toMatchObject({
      trigger: "iteration",
      state: {
        step: "loop",
        progress: { total_steps: 9, completed_steps: number, percentage: Math.round((number / 9) * 10_000) / 100 },
        iteration: { current: number, max: 9, failures: Math.min(number, 2) },
        artifacts: [{ path: "answer.txt", hash: expect.stringMatching(/^[0-9a-f]{40}$/), status: "created" }],
        agent_state: { memory: { reflections: Array.from({ length: number }, (_, at) => ({ iteration: at + 1 })) } },
      },
      execution_config: { agent: "scripted", tools: ["write"] },
    });
    expect(document["execution_config"]).not.toHaveProperty("temperature");
  }
  expect(JSON.stringify(read(3))).toContain(head.split(/\s/)[2]);
  const newest = names(bench.clone, checkpoints).filter((name) => name.startsWith("checkpoint-"));
  expect(newest).toHaveLength(1);
});

describe("states, from journal and lease", () => {
  const status = () => readJson(`.aiwg/ralph/loops/${LOOP}/state.json`)["status"];
  const listed = () => readJson(".aiwg/ralph/registry.json")["active_loops"] as readonly JsonObject[];

  test("running, stopped, completed", async () => {
    await save(holdfast, { iteration: 1 });
    const lease = await holdfast.store.takeLease({ run: LOOP, label: "test" });
    await mirror();
    expect(status()).toBe("running");
    expect(listed()).toMatchObject([{ loop_id: LOOP, status: "running", iteration: 2, pid: process.pid }]);
    await holdfast.store.releaseLease(lease);
    await mirror();
    expect(status()).toBe("paused");
    expect(listed()).toMatchObject([{ status: "paused", pid: null, holdfast: { status: "paused" } }]);
    await save(holdfast, {
      iteration: 2,
      stage: "done",
      trigger: "stage",
      entries: [{ kind: "run.ended", body: { outcome: "done" } }],
    });
    await mirror();
    expect(status()).toBe("completed");
    expect(listed()).toEqual([]);
    expect(invalid()).toEqual([]);
  });

  test("a failed loop has its reason; a limit is reported as one", async () => {
    const entries = [{ kind: "run.ended", body: { outcome: "failed", reason: "200 iterations" } }] as const;
    await save(holdfast, { iteration: 2, stage: "limit", trigger: "stage", entries });
    await mirror();
    expect(readJson(`.aiwg/ralph/loops/${LOOP}/state.json`)).toMatchObject({
      status: "failed",
      error_context: { error_message: "200 iterations" },
      holdfast: { status: "failed: limit reached" },
    });
    expect(invalid()).toEqual([]);
  });

  /** A process that resumes the loop, records it below `.aiwg`, and dies. */
  const die = (then = ""): void => {
    const script = `import { openHoldfast } from ${JSON.stringify(new URL("../../src/open.ts", import.meta.url).href)};
      const holdfast = await openHoldfast({ cwd: ${JSON.stringify(root)}, store: ${JSON.stringify(join(root, "store"))}, loopLayout: ${JSON.stringify(SEED)} });
      await holdfast.store.takeLease({ run: ${JSON.stringify(LOOP)}, label: "doomed" });
      ${then}
      process.kill(process.pid, "SIGKILL");`;
    expect(() => execFileSync(process.execPath, ["--input-type=module", "-e", script])).toThrow();
  };
  const SAYING = `await (await holdfast.formats.mirror({ run: ${JSON.stringify(LOOP)}, to: "loop-json" })).catchUp();`;

  test.each([
    ["overview", () => holdfast.overview()],
    ["status", () => holdfast.status(LOOP)],
  ])("any reader reports that a process was killed: %s", async (_, look) => {
    await save(holdfast, { iteration: 1 });
    await save(holdfast, { iteration: 2 });
    die(SAYING);
    expect([status(), listed()]).toMatchObject(["running", [{ status: "running", pid: expect.any(Number) }]]);
    const before = names(root);
    rmSync(join(root, DIRECTORY, "iteration-002.json.gz"));
    await look();
    expect([status(), listed()]).toMatchObject(["crashed", [{ status: "crashed", pid: null }]]);
    const state = readJson(`.aiwg/ralph/loops/${LOOP}/state.json`);
    // Only the layout's status is corrected: the process that continues the loop writes its checkpoints.
    expect(state["last_checkpoint"]).toBe(`${DIRECTORY}/iteration-001.json.gz`);
    expect(names(root)).toEqual(before.filter((name) => name !== "iteration-002.json.gz"));
    expect(invalid()).toEqual([]);
    const identity = () => lstatSync(join(root, ".aiwg/ralph/registry.json")).ino;
    const written = identity();
    await look();
    expect(identity()).toBe(written);
  });

  test("a reader writes nothing if the loop is another store's, if nothing was mirrored, or if it cannot", async () => {
    await save(holdfast, { iteration: 1 });
    die();
    await holdfast.overview();
    await holdfast.status(LOOP);
    expect(existsSync(join(root, ".aiwg"))).toBe(false);
    die(SAYING);
    const path = join(root, `.aiwg/ralph/loops/${LOOP}/state.json`);
    const said = readFileSync(path, "utf8");
    const theirs = said.replaceAll(holdfast.store.id, "another");
    const registry = readFileSync(join(root, ".aiwg/ralph/registry.json"), "utf8");
    writeFileSync(path, theirs);
    writeFileSync(join(root, ".aiwg/ralph/registry.json"), registry.replaceAll(holdfast.store.id, "another"));
    await holdfast.overview();
    await holdfast.status(LOOP);
    expect(readFileSync(path, "utf8")).toBe(theirs);
    writeFileSync(join(root, ".aiwg/ralph/registry.json"), registry);
    rmSync(path);
    mkdirSync(join(path, "in-the-way"), { recursive: true });
    expect((await holdfast.overview()).runs).toMatchObject([{ status: { kind: "crashed" } }]);
    expect((await holdfast.status(LOOP)).status).toMatchObject({ kind: "crashed" });
    expect(readdirSync(path)).toEqual(["in-the-way"]);
  });

  test("a loop whose process was killed is crashed, and can be resumed", async () => {
    await save(holdfast, { iteration: 1 });
    die();
    await mirror();
    expect(status()).toBe("crashed");
    expect(listed()).toMatchObject([{ status: "crashed", holdfast: { status: "crashed" } }]);
  });

  test("four loops that are written at once, while they end: the final files are correct", async () => {
    const runs = [LOOP, ...[2, 3, 4].map((number) => `ralph-other-0000000${number}`)];
    for (const run of runs.slice(1)) await beginLoop(holdfast, run);
    for (const run of runs) await save(holdfast, { iteration: 1, run, loopId: run });
    await Promise.all(runs.map((run) => mirror(run)));
    expect(listed().map((entry) => entry["loop_id"])).toEqual(runs);
    await Promise.all(
      runs.map(async (run, at) => {
        const entries = at % 2 === 0 ? [{ kind: "run.ended", body: { outcome: "done" } } as const] : [];
        await save(holdfast, { iteration: 2, run, loopId: run, stage: "done", entries });
        await mirror(run);
      }),
    );
    expect(listed()).toMatchObject([runs[1], runs[3]].map((loop_id) => ({ loop_id, iteration: 2, status: "paused" })));
    expect(invalid()).toEqual([]);
  });

  test("loops of other tools stay in the registry, with any other content", async () => {
    await save(holdfast, { iteration: 1 });
    mkdirSync(join(root, ".aiwg/ralph"), { recursive: true });
    const theirs = {
      loop_id: "ralph-theirs-00000001",
      status: "running",
      iteration: 4,
      started_at: "2026-01-01T00:00:00Z",
    };
    const before = { version: "2.0.0", max_concurrent_loops: 4, active_loops: [theirs], total_aborted: 3 };
    writeFileSync(join(root, ".aiwg/ralph/registry.json"), JSON.stringify(before));
    await mirror();
    expect(readJson(".aiwg/ralph/registry.json")).toMatchObject({
      total_aborted: 3,
      active_loops: [theirs, { loop_id: LOOP }],
    });
    writeFileSync(join(root, ".aiwg/ralph/registry.json"), "{ torn");
    await mirror();
    expect(listed()).toMatchObject([{ loop_id: LOOP }]);
  });
});

describe("unexpected content does no harm", () => {
  test("damage, links and other files: repaired, replaced, or left unchanged", async () => {
    for (const iteration of [1, 2, 3, 4]) await save(holdfast, { iteration });
    await mirror();
    const at = (name: string): string => join(root, DIRECTORY, name);
    const before = readFileSync(at("iteration-002.json.gz"));
    writeFileSync(at("iteration-001.json.gz"), "torn");
    writeFileSync(join(root, "precious"), "precious");
    rmSync(at("iteration-002.json.gz"));
    symlinkSync(join(root, "precious"), at("iteration-002.json.gz"));
    rmSync(at("iteration-003.json.gz"));
    mkdirSync(at("iteration-003.json.gz"));
    writeFileSync(at("notes.txt"), "mine");
    writeFileSync(at(".tmp-0123456789abcdef0123456789abcdef-iteration-009.json.gz"), "half");
    utimesSync(at(".tmp-0123456789abcdef0123456789abcdef-iteration-009.json.gz"), 0, 0);
    await mirror();
    expect(readFileSync(join(root, "precious"), "utf8")).toBe("precious");
    expect(readFileSync(at("iteration-002.json.gz")).equals(before)).toBe(true);
    expect(names(root)).toEqual([...[1, 2, 3, 4].map((iteration) => `iteration-00${iteration}.json.gz`), "notes.txt"]);
    rmSync(at("notes.txt"));
    expect(invalid()).toEqual([]);
  });

  test("a link at the path of the loop's directory is replaced; a link out of the root is refused, and the mirror catches up when it is removed", async () => {
    await save(holdfast, { iteration: 1 });
    const outside = mkdtempSync(join(tmpdir(), "holdfast-outside-"));
    mkdirSync(join(root, ".aiwg/ralph/loops"), { recursive: true });
    symlinkSync(outside, join(root, `.aiwg/ralph/loops/${LOOP}`));
    await mirror();
    expect(names(root)).toEqual(["iteration-001.json.gz"]);
    rmSync(join(root, ".aiwg"), { recursive: true });
    symlinkSync(outside, join(root, ".aiwg"));
    await expect(mirror()).rejects.toMatchObject({
      code: "IO_FAILED",
      message: expect.stringContaining("leads out of"),
    });
    expect(readdirSync(outside)).toEqual([]);
    rmSync(join(root, ".aiwg"));
    await mirror();
    expect(names(root)).toEqual(["iteration-001.json.gz"]);
    rmSync(outside, { recursive: true });
  });

  test("a directory with content at a file's path is reported, and all other files are written", async () => {
    for (const iteration of [1, 2]) await save(holdfast, { iteration });
    mkdirSync(join(root, DIRECTORY, "iteration-001.json.gz/full"), { recursive: true });
    await expect(mirror()).rejects.toThrow(/not empty/);
    expect(names(root)).toContain("iteration-002.json.gz");
    expect(readJson(".aiwg/ralph/registry.json")).toMatchObject({ active_loops: [{ loop_id: LOOP }] });
  });
});

describe("retention of the files", () => {
  const clean = async () => await holdfast.formats.applyLayoutCleanup(await holdfast.formats.planLayoutCleanup());

  test("the newest five and what has a tag stay, the rest is not written again, and the store keeps all", async () => {
    for (let iteration = 1; iteration <= 8; iteration += 1) await save(holdfast, { iteration });
    await holdfast.store.tag({ run: LOOP, sequence: 2, name: "good" });
    await mirror();
    expect(names(root)).toHaveLength(8);
    const [plan] = await holdfast.formats.planLayoutCleanup();
    expect(plan?.files.map(({ action, why }) => [action, why])).toEqual([
      ["keep", "the newest of the run; the newest to resume from"],
      ...Array.from({ length: 4 }, () => ["keep", "among the newest 5 iteration"]),
      ["drop", "beyond the newest 5 of the run"],
      ["keep", "tagged good"],
      ["drop", "beyond the newest 5 of the run"],
    ]);
    await clean();
    const kept = [2, 4, 5, 6, 7, 8].map((iteration) => `iteration-00${iteration}.json.gz`);
    expect(names(root)).toEqual(kept);
    expect(readGz(join(root, DIRECTORY, "iteration-002.json.gz"))["metadata"]).toMatchObject({ tags: ["good"] });
    expect(await mirror()).toMatchObject({ paths: [], removed: [] });
    await clean();
    expect(names(root)).toEqual(kept);
    expect((await holdfast.store.getRun(LOOP))?.checkpoints).toBe(8);
    await save(holdfast, { iteration: 9 });
    await holdfast.store.tag({ run: LOOP, sequence: 1, name: "after-all" });
    await mirror();
    expect(names(root)).toEqual(["iteration-001.json.gz", ...kept, "iteration-009.json.gz"]);
  });

  test("of a done loop the latest stays, of a failed one all recent ones", async () => {
    for (let iteration = 1; iteration <= 8; iteration += 1) await save(holdfast, { iteration });
    await beginLoop(holdfast, "ralph-other-00000002");
    const other = { run: "ralph-other-00000002", loopId: "ralph-other-00000002" };
    for (let iteration = 1; iteration <= 8; iteration += 1) await save(holdfast, { iteration, ...other });
    const ended = (outcome: "done" | "failed") => [{ kind: "run.ended", body: { outcome, reason: "so" } }] as const;
    await save(holdfast, { iteration: 8, stage: "done", trigger: "stage", entries: ended("done") });
    await save(holdfast, { iteration: 8, stage: "fatal", trigger: "stage", entries: ended("failed"), ...other });
    await mirror();
    await mirror(other.run);
    await clean();
    expect(names(root)).toEqual([expect.stringMatching(/^checkpoint-8-\d+\.json\.gz$/)]);
    expect(names(root, `.aiwg/ralph/loops/${other.run}/checkpoints`)).toHaveLength(9);
  });

  test("files of another tool in a legacy directory are never removed", async () => {
    const options = { workflowType: "agent_task" };
    await beginLoop(holdfast, "task-1");
    for (let at = 1; at <= 7; at += 1) await save(holdfast, { run: "task-1", iteration: at, options });
    await mirror("task-1");
    const theirs = "task-1-2026-01-25T15-00-00Z-iteration.json.gz";
    writeFileSync(
      join(root, ".aiwg/checkpoints", theirs),
      gzipSync(JSON.stringify({ workflow_id: "task-1", state: {} })),
    );
    await clean();
    const left = names(root, ".aiwg/checkpoints");
    expect(left).toContain(theirs);
    expect(left.filter((name) => name.endsWith(".gz"))).toHaveLength(6);
  });
});

describe("read back", () => {
  const golden = (path: string): string =>
    readFileSync(new URL(`../../../formats/golden/loop-json/${path}`, import.meta.url), "utf8");

  test("a root with both layouts, both versions of the schema, JSON beside gzip, and files that are no checkpoints", async () => {
    for (const iteration of [1, 2]) await save(holdfast, { iteration });
    await mirror();
    const legacy = "checkpoints/ralph-research-impl-2026-01-25T15-00-00Z-iteration.json";
    const other = "ralph/loops/ralph-fix-tests-a1b2c3d5/checkpoints";
    const document = JSON.parse(golden(".aiwg/ralph/loops/ralph-fix-tests-a1b2c3d4/checkpoints/iteration-005.json"));
    const theirs = { ...document, loop_id: "ralph-fix-tests-a1b2c3d5", workflow_id: "ralph-fix-tests-a1b2c3d5" };
    mkdirSync(join(root, ".aiwg/checkpoints"), { recursive: true });
    mkdirSync(join(root, ".aiwg", other), { recursive: true });
    writeFileSync(join(root, ".aiwg", legacy), golden(`.aiwg/${legacy}`));
    writeFileSync(join(root, ".aiwg", other, "iteration-005.json"), JSON.stringify(theirs));
    const later = { ...theirs, checkpoint_id: "cp-later", created_at: "2026-02-03T21:05:00Z" };
    writeFileSync(join(root, ".aiwg", other, "iteration-006.json.gz"), gzipSync(JSON.stringify(later)));
    const plans = await holdfast.formats.planImport({ paths: [".aiwg"] });
    expect(plans.map(({ workflow, checkpoints, broken }) => [workflow, checkpoints.length, broken.length])).toEqual([
      ["ralph", 2, 0],
      ["ralph", 2, 0],
      ["ralph", 1, 0],
    ]);
    for (const plan of plans) await holdfast.formats.applyImport(plan);
    const [ours] = plans;
    const list = await (await holdfast.run(ours?.run ?? "")).list({});
    // The end of an iteration is the beginning of the next one.
    expect(list).toMatchObject([{ iteration: 3 }, { iteration: 2 }]);
  });

  test("files that a run of this store wrote are not imported as a second run, unless an id is given or other writers changed them", async () => {
    for (const iteration of [1, 2]) await save(holdfast, { iteration });
    await mirror();
    const plan = async (params: { readonly run?: string } = {}) => {
      const plans = await holdfast.formats.planImport({ paths: [".aiwg"], ...params });
      expect(plans).toHaveLength(1);
      return plans[0] ?? expect.unreachable("nothing would be imported");
    };
    const own = await plan();
    expect(own).toMatchObject({ run: LOOP, before: "own" });
    expect(await holdfast.formats.applyImport(own)).toMatchObject({ run: LOOP, changed: false });
    expect((await holdfast.listRuns()).map(({ id }) => id)).toEqual([LOOP]);
    expect(await plan({ run: "second" })).toMatchObject({ run: "second", before: "none" });

    await using elsewhere = await openHoldfast({ cwd: root, store: join(root, "other"), loopLayout: SEED });
    expect(await elsewhere.formats.planImport({ paths: [".aiwg"] })).toMatchObject([{ before: "none" }]);

    const newest = readGz(join(root, DIRECTORY, "iteration-002.json.gz"));
    if (!isJsonObject(newest["metadata"])) return expect.unreachable("there is no mark");
    const { holdfast: _mark, ...metadata } = newest["metadata"];
    const theirs = { ...newest, metadata, checkpoint_id: "cp-theirs", created_at: "2031-02-03T21:05:00Z" };
    writeFileSync(join(root, DIRECTORY, "iteration-003.json.gz"), gzipSync(JSON.stringify(theirs)));
    expect(await plan()).toMatchObject({ before: "none", checkpoints: [{}, {}, {}] });
  });
});

describe("the place of the files", () => {
  const own = (): string => join(root, "store/layouts");
  const reopen = async (layout: "own" | "seed"): Promise<void> => {
    await holdfast.close();
    holdfast = await openHoldfast({ cwd: root, store: join(root, "store"), loopLayout: { ...DEFAULT_LAYOUT, layout } });
  };

  test("is beside the store unless the repository has such files, and stays there for a run that began there", async () => {
    await reopen("own");
    await save(holdfast, { iteration: 1 });
    await mirror();
    expect([names(own()), existsSync(join(root, ".aiwg"))]).toEqual([["iteration-001.json.gz"], false]);
    await reopen("seed");
    await save(holdfast, { iteration: 2 });
    await mirror();
    expect([names(own()).length, existsSync(join(root, ".aiwg"))]).toEqual([2, false]);
    expect(await holdfast.formats.planLayoutCleanup()).toMatchObject([{ run: LOOP, root: own() }]);
    // Another run of the same store is in the repository. Each registry lists the loops that are beside it.
    const other = "ralph-other-0000aaaa";
    await beginLoop(holdfast, other);
    await save(holdfast, { run: other, loopId: other, iteration: 1 });
    await mirror(other);
    await reopen("own");
    await mirror();
    await mirror(other);
    expect(readdirSync(join(root, ".aiwg/ralph/loops"))).toEqual([other]);
    expect(readdirSync(join(own(), ".aiwg/ralph/loops"))).toEqual([LOOP]);
    expect(readJson(".aiwg/ralph/registry.json")).toMatchObject({ active_loops: [{ loop_id: other }] });
    expect(readJson("store/layouts/.aiwg/ralph/registry.json")).toMatchObject({ active_loops: [{ loop_id: LOOP }] });
    expect(await holdfast.formats.planImport({ paths: [join(own(), ".aiwg")] })).toMatchObject([{ before: "own" }]);
    // A third run joins the files that are there.
    const third = "ralph-third-0000bbbb";
    await beginLoop(holdfast, third);
    await save(holdfast, { run: third, loopId: third, iteration: 1 });
    await mirror(third);
    expect(readdirSync(join(root, ".aiwg/ralph/loops"))).toEqual([other, third]);
  });

  test("a removed run takes its files along, and leaves those of other tools", async () => {
    for (const iteration of [1, 2]) await save(holdfast, { iteration });
    await mirror();
    const other = "ralph-other-0000aaaa";
    await beginLoop(holdfast, other);
    await save(holdfast, { run: other, loopId: other, iteration: 1 });
    await mirror(other);
    const document = readGz(join(root, `.aiwg/ralph/loops/${other}/checkpoints/iteration-001.json.gz`));
    const metadata = { compression: "gzip", schema_version: "2.0" };
    const theirs = `.aiwg/ralph/loops/${other}/checkpoints/checkpoint-9-1.json.gz`;
    writeFileSync(join(root, theirs), gzipSync(JSON.stringify({ ...document, metadata, checkpoint_id: "cp-theirs" })));
    // As after a kill: the same call removes the rest.
    rmSync(join(root, DIRECTORY, "iteration-001.json.gz"));
    rmSync(join(root, `.aiwg/ralph/loops/${LOOP}/state.json`));
    for (const run of [LOOP, LOOP, other]) await holdfast.formats.removeLayoutFiles(run);
    for (const run of [LOOP, other])
      await holdfast.removeRun(await holdfast.planRemoval(run), { by: "tester", force: true });
    expect(readdirSync(join(root, ".aiwg/ralph/loops"))).toEqual([other]);
    expect(names(root, `.aiwg/ralph/loops/${other}/checkpoints`)).toEqual(["checkpoint-9-1.json.gz"]);
    expect(existsSync(join(root, `.aiwg/ralph/loops/${other}/state.json`))).toBe(true);
    expect(readJson(".aiwg/ralph/registry.json")).toMatchObject({ active_loops: [] });
  });
});
