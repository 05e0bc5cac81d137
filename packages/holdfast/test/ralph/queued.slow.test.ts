import { expect, test, vi } from "vitest";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ProgressEvent } from "@holdfast/core/progress";
import { makeScene } from "../replay/recorded-loop.ts";
import { type Bench, inTurn, makeBench } from "./bench.ts";

test("a loop that is paused while it waits for its first slot is resumed like any other", async () => {
  await using scene = await makeScene();
  const holdfast = await scene.open({ loops: { max: 1, workflows: ["ralph"] } });
  const { store } = holdfast;
  await store.createRun({ id: "other", workflow: "ralph", work: { kind: "none" }, labels: {} });
  await store.takeLease({ run: "other", label: "at work", slot: { limit: null, wait: false } });
  const work = { kind: "task", text: "count" } as const;
  const options = { task: "Count", until: ["test -e log.txt"] };
  const plan = await holdfast.work.plan({ workflow: "ralph", id: "queued", work, agent: scene.agent, options });
  const working = holdfast.work.start(plan, { loopSlot: { whenFull: "wait" } });
  await vi.waitUntil(() => store.getRun("queued"), { timeout: 600_000 });
  const signal = { id: "s-1", run: "queued", by: "eva", at: new Date(0).toISOString(), reason: "", now: false };
  await store.putSignal({ ...signal, kind: "pause" });
  const { outcome } = await working;
  expect(outcome).toMatchObject({ kind: "paused" });
  expect((await holdfast.status("queued")).status).toMatchObject({ kind: "paused" });
  expect(await scene.started()).toBe(0);
  const resumed = await holdfast.resume({ run: "queued", loopSlot: { whenFull: "force" } });
  expect(resumed.outcome).toMatchObject({ kind: "done" });
  expect(await scene.started()).toBe(1);
  await holdfast.close();
});

/** Other loops have all slots until the waiting one has reported it, and `meanwhile` is over. */
async function fill(bench: Bench, meanwhile: () => Promise<unknown>): Promise<(event: ProgressEvent) => void> {
  const { store } = bench.holdfast;
  await store.createRun({ id: "other", workflow: "ralph", work: { kind: "none" }, labels: {} });
  const lease = await store.takeLease({ run: "other", label: "at work", slot: { limit: null, wait: false } });
  return (event) => {
    if (event.kind !== "note" || !event.text.startsWith("Waiting for a slot")) return;
    void meanwhile().then(() => store.releaseLease(lease));
  };
}

const PLACE = { whenFull: "wait", limit: 1 } as const;
const commitByOther = (bench: Bench) => () => bench.git("worktree", "commit", "-q", "--allow-empty", "-m", "theirs");

test("a resumed loop that waits for a slot asks about changes while it waited", async () => {
  await using bench = await makeBench({ answers: inTurn("42\n"), issue: true });
  const stop = new AbortController();
  expect(await bench.work({ signal: stop.signal, listen: () => stop.abort() })).toMatchObject({ kind: "interrupted" });
  const listen = await fill(bench, commitByOther(bench));
  const { outcome } = await bench.holdfast.resume({ run: bench.run(), loopSlot: PLACE, listen });
  expect(outcome).toMatchObject({ kind: "ask", findings: [{ kind: "head_moved" }] });
  expect(await bench.calls()).toBe(0);
});

test("a new loop that waits for a slot works on the issue as it is at its start", async () => {
  await using bench = await makeBench({ answers: inTurn("42\n"), issue: true });
  const file = join(bench.forge?.location ?? "", "issues/1.md");
  const listen = await fill(bench, async () => {
    await writeFile(file, (await readFile(file, "utf8")).replace("It is 42.", "It is 42, of course."));
  });
  const { outcome } = await bench.holdfast.work.start(await bench.plan(), { loopSlot: PLACE, listen });
  expect(outcome).toMatchObject({ kind: "done" });
  expect(await bench.read(".tmp/ralph-prompt-1.md")).toContain("It is 42, of course.");
});

test("a new loop that waits for a slot asks about other changes while it waited", async () => {
  await using bench = await makeBench({ answers: inTurn("42\n"), issue: true });
  const listen = await fill(bench, commitByOther(bench));
  const plan = await bench.plan();
  const { outcome } = await bench.holdfast.work.start(plan, { loopSlot: PLACE, listen });
  expect(outcome).toMatchObject({ kind: "ask", findings: [{ kind: "head_moved" }] });
  expect(await bench.calls()).toBe(0);
});

test("a start that loses the last slot leaves no run behind, and is the same run when a slot is free", async () => {
  await using scene = await makeScene();
  const loops = { max: 1, workflows: ["ralph"] };
  const rival = await scene.open({ loops });
  await rival.store.createRun({ id: "other", workflow: "ralph", work: { kind: "none" }, labels: {} });
  let tries = 0;
  const holdfast = await scene.open({
    loops,
    adapters: (adapters) => {
      const { store } = adapters;
      const takeLease: typeof store.takeLease = async (params) => {
        // Despite the earlier check, the rival acquires the slot first.
        if ((tries += 1) === 1)
          await rival.store.takeLease({ run: "other", label: "at work", slot: { limit: 1, wait: false } });
        return await store.takeLease(params);
      };
      return { ...adapters, store: { ...store, takeLease } };
    },
  });
  const work = { kind: "task", text: "count" } as const;
  const options = { task: "Count", until: ["test -e log.txt"] };
  const plan = await holdfast.work.plan({ workflow: "ralph", id: "late", work, agent: scene.agent, options });
  await expect(holdfast.work.start(plan, {})).rejects.toMatchObject({ code: "LOOP_LIMIT" });
  expect((await rival.listRuns()).map(({ id }) => id)).toEqual(["other"]);
  await rival.close();
  expect((await holdfast.work.start(plan, {})).outcome).toMatchObject({ kind: "done" });
  expect((await holdfast.listRuns()).map(({ id }) => id)).toEqual(["late", "other"]);
  await holdfast.close();
});

test("a run without a limit holds its lease from its first entry to its last: no process finds it started and released", async () => {
  await using scene = await makeScene();
  let released = 0;
  const holdfast = await scene.open({
    loops: { max: 1, workflows: [] },
    adapters: (adapters) => {
      const { store } = adapters;
      const releaseLease: typeof store.releaseLease = async (lease) => {
        released += 1;
        await store.releaseLease(lease);
      };
      return { ...adapters, store: { ...store, releaseLease } };
    },
  });
  const work = { kind: "task", text: "count" } as const;
  const options = { task: "Count", until: ["test -e log.txt"] };
  const { outcome } = await holdfast.start({ workflow: "ralph", work, agent: scene.agent, options });
  expect(outcome).toMatchObject({ kind: "done" });
  expect(released).toBe(1);
  await holdfast.close();
});
