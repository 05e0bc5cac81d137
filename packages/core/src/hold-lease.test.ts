import { onTestFinished, test } from "vitest";
import { SQLITE, type TestRun, startTestRun } from "@holdfast/test-support/core/work-bench";
import { acquireLease } from "./hold-lease.ts";
import type { Lease } from "./lease.ts";
import { RunHandle } from "./run-handle.ts";

const RUN = "run-9";

async function startRun(): Promise<TestRun> {
  const toy = await startTestRun(SQLITE, onTestFinished);
  await toy.store.createRun({ id: RUN, workflow: "manual", work: { kind: "none" } });
  return toy;
}

const note = (lease: Lease, text: string) => ({ lease, entries: [{ kind: "note", body: { text } }] as const });

test("a caller that acquires the lease while another of its process releases it has it", async () => {
  const { adapters, store } = await startRun();
  const first = await acquireLease(adapters, RUN);
  const second = acquireLease(adapters, RUN);
  const released = first[Symbol.asyncDispose]();
  await using held = await second;
  await released;
  await store.commit(note(held.lease, "second"));
});

test("a caller that acquires the lease while another makes its last commit has it", async () => {
  const { adapters, store } = await startRun();
  const first = await acquireLease(adapters, RUN);
  let second: ReturnType<typeof acquireLease> | undefined;
  await first.endWith(async (release) => {
    second = acquireLease(adapters, RUN);
    await store.commit({ ...note(first.lease, "last"), release });
  });
  if (second === undefined) throw new Error("not called");
  await using held = await second;
  await store.commit(note(held.lease, "second"));
});

test("a run handle keeps its lease while other callers of its process acquire and release it, and they keep theirs", async () => {
  const { adapters, store } = await startRun();
  const run = await store.getRun(RUN);
  if (run === undefined) throw new Error("no run");
  const handle = new RunHandle(adapters, run);
  await handle.save({ values: { step: 1 }, files: false });
  const other = await acquireLease(adapters, RUN);
  await other[Symbol.asyncDispose]();
  await handle.save({ values: { step: 2 }, files: false });
  await using held = await acquireLease(adapters, RUN);
  await handle.close();
  await store.commit(note(held.lease, "the handle is closed"));
});
