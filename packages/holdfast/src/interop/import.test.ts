import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Holdfast } from "../holdfast.ts";
import { openHoldfast } from "../open.ts";
import { Checkpoint } from "../context/checkpoint.ts";
import { CheckpointStore } from "../context/context.ts";
import type { ImportPlan } from "./import.ts";

const versions = fileURLToPath(new URL("../../../formats/golden/context-store/task-1-all.json", import.meta.url));
let directory: string;
let holdfast: Holdfast;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "holdfast-import-"));
  holdfast = await openHoldfast({ cwd: directory, store: join(directory, "store") });
});
afterEach(async () => {
  await holdfast.close();
  await rm(directory, { recursive: true });
});

async function planOf(path: string): Promise<ImportPlan> {
  const [plan] = await holdfast.formats.planImport({ paths: [path] });
  if (plan === undefined) throw new Error("nothing would be made");
  return plan;
}

async function openTask(taskId: string): Promise<CheckpointStore> {
  return await CheckpointStore.open(taskId, { store: holdfast.store });
}

/** Imports documents of these versions of a task, and returns the id of the run. */
async function importVersions(task: string, ...numbers: readonly number[]): Promise<string> {
  const path = join(directory, "versions.json");
  const documents = numbers.map((version) => ({
    task_id: task,
    version,
    values: { step: version },
    created_at: `2026-02-0${version}T09:30:00.123456+00:00`,
    unknown: version,
  }));
  await writeFile(path, JSON.stringify(documents));
  return (await holdfast.formats.applyImport(await planOf(path))).run;
}

/** The versions of an export of the whole run. */
async function exported(run: string): Promise<readonly number[]> {
  const { joinDocuments } = await import("./export.ts");
  const all = await holdfast.formats.encodeAll(run, "context-store");
  const [document] = joinDocuments(
    "context-store",
    all.map(({ encoded }) => encoded),
  );
  const value: unknown = JSON.parse(new TextDecoder().decode(document?.bytes));
  return (Array.isArray(value) ? value : [value]).map((one) => Checkpoint.fromJSON(one).version);
}

test.each([[[1, 2]], [[7]], [[3, 4, 5]]])(
  "versions %j continue in the library, and are exported as one list",
  async (numbers) => {
    const run = await importVersions("task-1", ...numbers);
    expect(run).toBe("task-1");
    const store = await openTask("task-1");
    expect(await store.listVersions()).toEqual(numbers);
    const newest = Math.max(...numbers);
    expect(await store.latest()).toMatchObject({
      version: newest,
      values: { step: newest },
      createdAt: `2026-02-0${newest}T09:30:00.123Z`,
    });
    const context = await store.context();
    context.state.set("more", true);
    expect(await context.snapshot()).toMatchObject({ version: newest + 1, values: { step: newest, more: true } });
    await store.close();
    expect(await exported(run)).toEqual([...numbers, newest + 1]);
  },
);

test("versions continue from the last one if some are missing; such a task is its own run", async () => {
  const run = await importVersions("task-1", 1, 2, 5);
  expect(run).toMatch(/^task-1-/);
  const handle = await holdfast.run(run);
  const planes = (await handle.latest())?.planes;
  await handle.save({ values: { step: 6 }, planes: { extensions: planes?.extensions ?? {} } });
  await handle.close();
  expect(await exported(run)).toEqual([1, 2, 5, 6]);
});

test("a task of the library keeps its history; an import of the same name is another run", async () => {
  const store = await openTask("task-1");
  await store.save({ values: { mine: true }, tokenUsage: {} });
  await store.close();
  expect(await importVersions("task-1", 1, 2)).toMatch(/^task-1-/);
  expect(await store.latest()).toMatchObject({ version: 1, values: { mine: true } });
});

test("a history that began elsewhere is exported with its numbers", async () => {
  const store = await openTask("task-1");
  await store.save({ values: {}, tokenUsage: {}, after: 7 });
  await store.save({ values: {}, tokenUsage: {} });
  await store.close();
  expect(await exported("task-1")).toEqual([8, 9]);
});

test("versions come in order, each with its own document", async () => {
  const plan = await planOf(versions);
  expect(plan).toMatchObject({ format: "context-store", before: "none", checkpoints: [{ id: "1" }, { id: "2" }] });
  expect(await holdfast.formats.applyImport(plan)).toMatchObject({ changed: true, checkpoints: 2 });
  const list = await (await holdfast.run(plan.run)).list({});
  expect(list).toMatchObject([
    { sequence: 2, trigger: "import", name: "2" },
    { sequence: 1, trigger: "import", name: "1" },
  ]);
  const first = await holdfast.formats.encode({ run: plan.run, sequence: 1 }, "context-store");
  expect(JSON.parse(new TextDecoder().decode(first.encoded.bytes))).toMatchObject({ version: 1 });
  expect(first.encoded.losses).toEqual([]);
});

test("interrupted in the middle, it is not a resumable run, and the same import finishes it once", async () => {
  const plan = await planOf(versions);
  const { run, workflow, work, labels } = plan;
  const [first] = plan.checkpoints;
  if (first === undefined) throw new Error("the golden file has two versions");
  // What a process leaves behind that died after its first checkpoint.
  await holdfast.store.createRun({ id: run, workflow, work, labels });
  const lease = await holdfast.store.takeLease({ run, label: "dead" });
  await holdfast.store.commit({ lease, checkpoint: { sequence: 1, trigger: "import", planes: first.planes } });
  await holdfast.store.releaseLease(lease);

  await expect(holdfast.resume({ run })).rejects.toMatchObject({ code: "NEEDS_DECISION" });
  await expect((await openTask("task-1")).context()).rejects.toMatchObject({ code: "NEEDS_DECISION" });
  const again = await planOf(versions);
  expect(again).toMatchObject({ run, before: "part" });
  expect(await holdfast.formats.applyImport(again)).toMatchObject({ run, changed: true });
  const whole = await planOf(versions);
  expect(whole.before).toBe("whole");
  expect(await holdfast.formats.applyImport(whole)).toMatchObject({ changed: false });
  // Also for one who planned before and comes late.
  expect(await holdfast.formats.applyImport(again)).toMatchObject({ changed: false });
  expect((await holdfast.store.getRun(run))?.checkpoints).toBe(2);
  await expect(holdfast.resume({ run })).rejects.toMatchObject({
    code: "USAGE",
    hint: expect.stringContaining("--workflow"),
  });
});

test("validate names the command that checks a run file", async () => {
  const path = join(directory, "issue-1.run");
  await writeFile(path, "holdfast-run 1 0\n");
  const { validateFiles } = await import("./read-files.ts");
  expect(validateFiles({ paths: [path], cwd: directory })).toMatchObject([
    { ok: false, message: expect.stringContaining(`holdfast format import ${path} --dry-run`) },
  ]);
});

test("loops without a checkpoint are named, with the command that starts them again", async () => {
  const loop = join(directory, ".aiwg/ralph/loops/ralph-fix-tests-a1b2c3d4");
  await mkdir(loop, { recursive: true });
  await writeFile(join(loop, "state.json"), JSON.stringify({ task: "Fix", completion_criteria: "npm test" }));
  for (const path of [directory, join(directory, ".aiwg"), loop])
    await expect(planOf(path), path).rejects.toMatchObject({
      code: "FORMAT_UNKNOWN",
      message: expect.stringContaining("ralph-fix-tests-a1b2c3d4 has no checkpoint"),
      hint: expect.stringMatching(/`ralph_loop`[^]*`holdfast run --workflow ralph --task/),
    });
});
