import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Planes, emptyPlanes } from "@holdfast/core/checkpoint";
import type { Holdfast } from "../holdfast.ts";
import { openHoldfast } from "../open.ts";

let directory: string;
let holdfast: Holdfast;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "holdfast-transcript-"));
  holdfast = await openHoldfast({ cwd: directory, store: join(directory, "store") });
});
afterEach(async () => {
  await holdfast.close();
  await rm(directory, { recursive: true });
});

const reading = (body: string | null): Planes => {
  const base = emptyPlanes();
  const issue =
    body === null
      ? null
      : ({
          number: 7,
          title: "Crash",
          body,
          labels: [],
          state: "open",
          updatedAt: "2026-01-01T00:00:00.000Z",
        } as const);
  return { ...base, inputs: { ...base.inputs, issue } };
};

/** One checkpoint a body. */
async function runReading(run: string, bodies: readonly (string | null)[]): Promise<void> {
  const { store } = holdfast;
  await store.createRun({ id: run, workflow: "impl", work: { kind: "issue", number: 7 }, labels: {} });
  const lease = await store.takeLease({ run, label: "test" });
  for (const [at, body] of bodies.entries())
    await store.commit({ lease, checkpoint: { sequence: at + 1, trigger: "stage", planes: reading(body) } });
  await store.releaseLease(lease);
}

async function exported(run: string): Promise<{ readonly message: unknown; readonly lost: readonly string[] }> {
  const { bytes, losses } = await holdfast.formats.transcript(run);
  const { steps } = JSON.parse(new TextDecoder().decode(bytes));
  return { message: steps[0].message, lost: losses.map(({ path }) => path) };
}

test("the exported task is that of the start of the run, and its later edit is reported", async () => {
  await runReading("edited", [null, "On empty input.", "On empty input. And on long ones."]);
  const { message, lost } = await exported("edited");
  expect(message).toBe("Issue #7: Crash\n\nOn empty input.");
  expect(lost).toContain("inputs.issue");
});

test("an unchanged task is not a loss; a run that never read it has the number", async () => {
  await runReading("same", [null, "Once.", "Once."]);
  expect(await exported("same")).toMatchObject({ message: "Issue #7: Crash\n\nOnce." });
  expect((await exported("same")).lost).not.toContain("inputs.issue");
  await runReading("never", [null]);
  expect(await exported("never")).toMatchObject({ message: "Issue #7" });
});

test("one document of several checkpoints names each lost field once", async () => {
  await runReading("r", ["a", "b", "c"]);
  const { joinDocuments, writeExport } = await import("./export.ts");
  const each = await holdfast.formats.encodeAll("r", "context-store");
  const encoded = joinDocuments(
    "context-store",
    each.map((one) => one.encoded),
  );
  const output = join(directory, "versions.json");
  const external = each.map((one) => one.external);
  const { losses } = await writeExport({ to: "context-store", external, encoded, output, directory: false });
  const paths = losses.map(({ path }) => path);
  expect(paths).toContain("inputs.issue");
  expect(paths).toEqual([...new Set(paths)]);
});
