import { describe, expect, test } from "vitest";
import { PASS, settings } from "./answers.ts";
import { type Bench, makeBench } from "./bench.ts";
import { seedDocument } from "./seed-document.ts";

const READY = { issue: { labels: ["state:ready"] } };

/** The journal and the checkpoints that the store has. Nothing was written while they are the same. */
async function written({ holdfast, run, journal }: Bench): Promise<readonly number[]> {
  const checkpoints = await holdfast.store.listCheckpoints({ run });
  return [checkpoints.length, (await journal()).length];
}

describe("a resume of an import that no workflow has adopted yet", () => {
  test("with a target stops there, and refuses a target that the document is past", async () => {
    await using bench = await makeBench({ answers: PASS, options: settings(), ...READY });
    await bench.imports(seedDocument("ready"));
    const before = await written(bench);
    await expect(bench.work({ limits: { target: "enrich" } })).rejects.toMatchObject({
      code: "USAGE",
      message: "Run issue-1 is at ready already, which is past enrich",
    });
    await expect(bench.work({ limits: { max: 3 } })).rejects.toThrow(/which has no --max/);
    await bench.holdfast.work.changeLimits({ run: bench.run, limits: { target: "implementing" } });
    expect(await written(bench)).toEqual(before);
    expect(await bench.work({ limits: { target: "implementing" } })).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(["ready:accepted", "implementing:at_target"]);
    expect(await bench.work({ limits: { target: "e2e" } })).toMatchObject({ kind: "done" });
    expect((await bench.trail()).at(-1)).toBe("e2e:at_target");
    await expectIntact(bench);
  });

  test("from a chosen checkpoint adopts that one", async () => {
    await using bench = await makeBench({ answers: PASS, options: settings(), ...READY });
    await bench.imports(
      seedDocument("ready", { id: "20260114-0001" }),
      seedDocument("docs", { id: "20260115-0002", created_at: "2026-01-15T10:00:00Z" }),
    );
    expect(await bench.work({ from: 1, limits: { target: "ready" } })).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(["ready:at_target"]);
    expect((await bench.holdfast.store.latest(bench.run))?.sequence).toBeGreaterThan(2);
    // The run has ended since: going back to the imported checkpoint adopts it again, under numbers that no effect has.
    expect(await bench.work({ from: 1, force: true })).toMatchObject({ kind: "done" });
    expect((await bench.trail()).slice(0, 3)).toEqual([
      "ready:at_target",
      "ready:accepted",
      "implementing:implemented",
    ]);
    await expectIntact(bench);
  });

  test("after a checkpoint by hand, and of a fork, still adopts it", async () => {
    await using bench = await makeBench({ answers: PASS, options: { ...settings(), target: "ready" }, ...READY });
    await bench.imports(seedDocument("ready"));
    const handle = await bench.holdfast.run(bench.run);
    await handle.fork({ sequence: 1, id: "forked" });
    await handle.save({ name: "by hand" });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(["ready:at_target"]);
    const adopt = { agent: `scripted:${bench.root}/script.json`, options: { ...settings(), target: "ready" } };
    const { outcome } = await bench.holdfast.resume({ run: "forked", adopt });
    // A fork asks before it publishes anything, here the label of its phase.
    expect(outcome).toMatchObject({ kind: "waiting", for: "you" });
    const planes = (await bench.holdfast.store.latest("forked"))?.planes;
    expect(planes).toMatchObject({ position: { stage: "ready", stageAttempt: { number: 1 } } });
    await expectIntact(bench);
  });

  test("asks if the document says that it cannot be resumed, and continues when forced", async () => {
    await using bench = await makeBench({ answers: PASS, options: { ...settings(), target: "ready" }, ...READY });
    const recovery = { can_resume: false, resume_from: null, prerequisites_met: false, warnings: ["tests are red"] };
    await bench.imports(seedDocument("ready", { recovery_info: recovery }));
    const before = await written(bench);
    const refusal = {
      code: "NEEDS_DECISION",
      message: "Checkpoint CP-ready-20260114-a3f2 says that it cannot be resumed: tests are red",
    };
    await expect(bench.work()).rejects.toMatchObject(refusal);
    await expect(bench.holdfast.work.preflight({ run: bench.run })).rejects.toMatchObject({ code: "USAGE" });
    expect(await written(bench)).toEqual(before);
    expect(await bench.work({ force: true })).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(["ready:at_target"]);
  });
});

async function expectIntact({ holdfast }: Bench): Promise<void> {
  const events = await Array.fromAsync(holdfast.store.verify({}));
  expect(events.filter(({ kind }) => kind === "problem")).toEqual([]);
}
