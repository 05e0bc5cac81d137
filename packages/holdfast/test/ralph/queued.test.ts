import { expect, test } from "vitest";
import { makeGround } from "../replay/recorded-loop.ts";

test("a loop that is paused while it waits for its first place is resumed as any other", async () => {
  await using ground = await makeGround();
  const holdfast = await ground.open({ loops: { max: 1, workflows: ["ralph"] } });
  const { store } = holdfast;
  await store.createRun({ id: "other", workflow: "ralph", work: { kind: "none" }, labels: {} });
  await store.takeLease({ run: "other", label: "at work", slot: { limit: null, wait: false } });
  const work = { kind: "task", text: "count" } as const;
  const options = { task: "Count", until: ["test -e log.txt"] };
  const plan = await holdfast.work.plan({ workflow: "ralph", id: "queued", work, agent: ground.agent, options });
  const { requests } = await holdfast.work.parts();
  const order = { id: "o-1", run: "queued", by: "eva", at: new Date(0).toISOString(), reason: "", now: false };
  await requests?.order({ ...order, kind: "pause" });
  const { outcome } = await holdfast.work.start(plan, { place: { whenFull: "wait" } });
  expect(outcome).toMatchObject({ kind: "parked", on: "pause" });
  expect((await holdfast.status("queued")).standing).toEqual({ kind: "paused" });
  expect(await ground.started()).toBe(0);
  const resumed = await holdfast.resume({ run: "queued", place: { whenFull: "force" } });
  expect(resumed.outcome).toMatchObject({ kind: "done" });
  expect(await ground.started()).toBe(1);
  await holdfast.close();
});
