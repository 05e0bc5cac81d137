import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, test } from "vitest";
import { chanceOf, suiteSeed } from "../faults/harness/seed.ts";
import { loopWorkflow, makeScene } from "./recorded-loop.ts";
import type { Scene } from "./recorded-loop.ts";

const LOOPS = 3;
const KILLS = 3;

test("a run that was killed at any times replays identically", async () => {
  await using scene = await makeScene();
  const chance = chanceOf(suiteSeed(), "replay-kills");
  for (let kill = 0; kill < KILLS; kill += 1) await live(scene, 1 + chance.below(5));
  await live(scene, null);
  await scene.removeAgent();
  await using holdfast = await scene.open();
  expect(await holdfast.store.getRun("loop")).toMatchObject({ state: { kind: "done" } });
  const started = await scene.started();
  const report = await holdfast.work.replay({ run: "loop", workflow: loopWorkflow(LOOPS) });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "done", agents: LOOPS });
  expect(report.to).toBe((await holdfast.store.latest("loop"))?.sequence);
  expect(await scene.started()).toBe(started);
});

/** Dies by SIGKILL at the nth event that it emits; null: lives to the end. */
async function live(scene: Scene, nth: number | null): Promise<void> {
  const worker = join(import.meta.dirname, "worker.ts");
  const child = spawn(process.execPath, [worker, scene.repository, scene.agent, String(LOOPS)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let printed = 0;
  child.stdout.on("data", (text: Buffer) => {
    printed += text.toString().split("\n").length - 1;
    if (nth !== null && printed >= nth) child.kill("SIGKILL");
  });
  const [code] = await once(child, "close");
  if (nth === null) expect(code).toBe(0);
}
