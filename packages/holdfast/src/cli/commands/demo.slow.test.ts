import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { SEED, sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { openHoldfast } from "../../open.ts";
import type { DemoRepository } from "./demo-repository.ts";
import { gatherFacts, makeDemoDirectory, prove } from "./demo.ts";

let holdfast: BuiltCommand;
beforeAll(async () => {
  holdfast = await buildCommand();
});
afterAll(() => holdfast.remove());

// In these, the last kill falls after the run's end was committed; a worker that starts a run instead of resuming opens a second pull request.
const SEEDS = [{ name: "37" }, { name: "43" }, { name: "285498" }];
test.each(sampleBySeed(SEEDS, 1))("the demo proves its claims with seed $name", async ({ name: seed }) => {
  const { status, stdout, stderr } = await holdfast.run(["demo", "--seed", seed, "--json"]);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const document = JSON.parse(stdout);
  expect(document.proof.filter(({ ok }: { ok: boolean }) => !ok)).toEqual([]);
  expect(document).toMatchObject({ ok: true, kills: [{}, {}, {}] });
});

/**
 * Killed once at each point of an undisturbed run, and resumed by id. `HOLDFAST_FULL=1 npx vitest run --project adapters
 * packages/holdfast/src/cli/commands/demo.slow.test.ts` tests all of them; without it, some of the last, which lie around the run's end.
 */
describe("killed at one point and resumed", () => {
  const LAST = 6;
  const full = process.env["HOLDFAST_FULL"] === "1";

  test(
    full ? "at every point" : `at some of the last ${LAST} points, by seed ${SEED}`,
    async () => {
      const directory = join(holdfast.directory, "points");
      await mkdir(directory);
      const control = await makeDemoDirectory(directory, "control");
      const calm = await work(control);
      const points: readonly string[] = calm.points;
      expect(points.length).toBeGreaterThan(60);
      expect(calm.ends).toBeLessThan(points.length);
      const file = join(directory, "points.json");
      await writeFile(file, JSON.stringify(points));
      const failures: unknown[] = [];
      const all = points.map((name, at) => ({ name: `${at} ${name}`, at }));
      for (const { at } of sampleBySeed(full ? all : all.slice(-LAST), 2)) {
        const world = await makeDemoDirectory(directory, `at-${at}`);
        const { died } = await work(world, "--points", file, "--die-at", String(at));
        const { outcome } = await work(world, "--resume", "issue-1");
        const facts = await gatherFacts({ repository: world, control, deaths: [died] });
        const broken = prove(facts).filter(({ claim, ok }) => !ok && claim !== "killed and resumed");
        const runs = await runsOf(world);
        if (outcome?.kind !== "done" || broken.length > 0 || runs !== 1)
          failures.push({ at, point: points[at], died, outcome, broken, runs });
        await rm(world.directory, { recursive: true, force: true });
      }
      expect(failures).toEqual([]);
    },
    3_600_000,
  );
});

async function work(world: DemoRepository, ...more: readonly string[]): Promise<ReturnType<typeof JSON.parse>> {
  const finished = await holdfast.run(["demo-worker", "--agent", world.agent, ...more], {
    cwd: world.clone,
    env: world.env,
  });
  expect(finished.stderr).toBe("");
  return JSON.parse(finished.stdout.trim().split("\n").at(-1) ?? "");
}

async function runsOf(world: DemoRepository): Promise<number> {
  await using opened = await openHoldfast({ cwd: world.clone, create: false });
  return (await opened.listRuns()).length;
}
