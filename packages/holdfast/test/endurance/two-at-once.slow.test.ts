import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, expect, test, vi } from "vitest";
import { buildCommand } from "@holdfast/test-support/built-command";
import { clearScratch } from "../faults/harness/scratch.ts";
import { chanceOf, isFullRun, suiteSeed } from "../faults/harness/seed.ts";
import { startCommand } from "./start-command.ts";
import { buildWorker, prepareScene } from "./scene.ts";
import { judge } from "./judge.ts";
import { SCENARIOS } from "./scenarios.ts";
import { inScene } from "./in-scene.ts";
import { readFinalState } from "./final-state.ts";

const seed = suiteSeed();
vi.setConfig({ testTimeout: 1_800_000 });
afterAll(clearScratch);

test("two runs of one issue at once: one works, the other names the holder and exits 5", async () => {
  const [scenario] = SCENARIOS;
  if (scenario === undefined) throw new Error("there is no scenario");
  const command = await buildCommand();
  try {
    const template = await prepareScene(scenario, await buildWorker());
    const chance = chanceOf(seed, "two at once");
    const calm = await inScene(template, async (scene) => {
      expect(await startCommand(command, scene, "run", "1", "--agent", scene.agent).ended).toMatchObject({ status: 0 });
      return await readFinalState(scene);
    });
    for (const apart of [
      0,
      chance.below(60),
      chance.below(400),
      ...(isFullRun() ? [10, 50, 100, 150, 200, 250, 300, 500] : []),
    ]) {
      await inScene(template, async (scene) => {
        const begin = () => startCommand(command, scene, "run", "1", "--agent", scene.agent);
        const first = begin();
        await pause(apart);
        const second = begin();
        const ended = await Promise.all([first.ended, second.ended]);
        const where = `${apart} ms apart, seed ${seed}: ${JSON.stringify(ended, null, 1)}`;
        expect(ended.map(({ status }) => status).toSorted(), where).toEqual([0, 5]);
        const [winner, loser] = ended[0]?.status === 0 ? [first, second] : [second, first];
        const { stderr } = await loser.ended;
        expect(stderr, where).toMatch(new RegExp(`(?:pid|process) ${winner.pid} on ${hostname()}`));
        const untouched = { finished: [], answered: [], calls: [] };
        expect(judge(calm, { before: untouched, end: await readFinalState(scene) }), where).toEqual([]);
      });
    }
  } finally {
    await command.remove();
  }
});
