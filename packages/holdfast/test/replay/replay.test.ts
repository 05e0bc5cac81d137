import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Holdfast } from "../../src/app.ts";
import { loopWorkflow, makeGround, runLoop } from "./recorded-loop.ts";
import type { Ground } from "./recorded-loop.ts";

const ITERATIONS = 30;

describe("a recorded run of 30 iterations", () => {
  let ground: Ground;
  let holdfast: Holdfast;
  beforeAll(async () => {
    ground = await makeGround();
    holdfast = await ground.open();
    const report = await runLoop(ground, holdfast, { iterations: ITERATIONS, mode: "logged" });
    expect(report.outcome).toMatchObject({ kind: "done" });
    expect(await ground.started()).toBe(ITERATIONS);
    await ground.removeAgent();
  });
  afterAll(async () => {
    await holdfast.close();
    await ground[Symbol.asyncDispose]();
  });

  test("is the same when it is replayed, and no agent is started", async () => {
    const before = await ground.git("for-each-ref");
    const t = Date.now();
    const report = await holdfast.work.replay({ run: "loop", workflow: loopWorkflow(ITERATIONS) });
    console.log(Date.now() - t, report);
    expect(report).toMatchObject({ verdict: "identical", divergence: null, agents: ITERATIONS, outcome: "done" });
    expect(await ground.started()).toBe(ITERATIONS);
    expect(await ground.git("for-each-ref")).toBe(before);
  });
});
