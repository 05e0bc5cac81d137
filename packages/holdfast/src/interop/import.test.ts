import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Holdfast } from "../holdfast.ts";
import { openHoldfast } from "../open.ts";
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

test("cut in the middle, it is no run to go on with, and the same import finishes it once", async () => {
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
