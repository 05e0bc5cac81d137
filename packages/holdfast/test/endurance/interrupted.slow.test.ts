import { setTimeout as pause } from "node:timers/promises";
import { afterAll, expect, test, vi } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { clearScratch } from "../faults/harness/scratch.ts";
import { chanceOf, isFullRun, suiteSeed } from "../faults/harness/seed.ts";
import { startCommand } from "./start-command.ts";
import { type Scene, buildWorker, prepareScene } from "./scene.ts";
import { judge } from "./judge.ts";
import { SCENARIOS } from "./scenarios.ts";
import { inScene } from "./in-scene.ts";
import { type FinalState, orphans, readFinalState, stepsAtEnd } from "./final-state.ts";

const seed = suiteSeed();
const INSTANTS = isFullRun() ? 50 : 3;
vi.setConfig({ testTimeout: 1_800_000 });
afterAll(clearScratch);

/** After so many lines of output and so many milliseconds more. Line 0: while it starts. */
interface Instant {
  readonly line: number;
  readonly ms: number;
}

test(`Ctrl+C at ${INSTANTS} instants: exit 130, no process left, and the printed resume ends with the same result`, async () => {
  const scenario = SCENARIOS.find(({ name }) => name === "review loop");
  if (scenario === undefined) throw new Error("there is no such scenario");
  const command = await buildCommand();
  try {
    const template = await prepareScene(scenario, await buildWorker());
    const { calm, lines } = await inScene(template, (scene) => runCalmly(command, scene));
    const chance = chanceOf(seed, "interrupts");
    const instants = Array.from({ length: INSTANTS }, (_, nth): Instant => {
      // One in each stretch of the run; a few milliseconds on, what follows the line is under way.
      const line = Math.floor(((nth + chance.below(100) / 100) * lines) / INSTANTS);
      return { line, ms: chance.below(line === 0 ? 400 : 60) };
    });
    const results = await Promise.all(
      instants.map(async (instant) => ({
        ...instant,
        problems: await inScene(template, (scene) => interrupt(command, scene, { calm, instant })),
      })),
    );
    const bad = results.filter(({ problems }) => problems.length > 0);
    process.stdout.write(
      `endurance: Ctrl+C at ${INSTANTS} instants of ${lines} lines, seed ${seed}, ${bad.length} bad\n`,
    );
    expect(bad, `HOLDFAST_SEED=${seed}`).toEqual([]);
  } finally {
    await command.remove();
  }
});

async function runCalmly(
  command: BuiltCommand,
  scene: Scene,
): Promise<{ readonly calm: FinalState; readonly lines: number }> {
  const done = await startCommand(command, scene, "run", "1", "--agent", scene.agent).ended;
  expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
  // Later than the push it may have ended before the signal comes, and that is exit 0.
  const lines = done.stdout.split("\n").findIndex((line) => line.endsWith(" push done"));
  expect(lines, done.stdout).toBeGreaterThan(INSTANTS / 10);
  return { calm: await readFinalState(scene), lines };
}

async function interrupt(
  command: BuiltCommand,
  scene: Scene,
  { calm, instant }: { readonly calm: FinalState; readonly instant: Instant },
): Promise<readonly string[]> {
  const ended = startCommand(command, scene, "run", "1", "--agent", scene.agent);
  await ended.line(instant.line);
  await pause(instant.ms);
  ended.signal("SIGINT");
  const { status, by, stdout, stderr } = await ended.ended;
  const problems: string[] = [];
  // Before Node has heard of any handler, the system ends it as it ends every program: to a shell that is 130 too.
  const early = instant.line === 0 && by === "SIGINT";
  if (status !== 130 && !early) problems.push(`exit ${status ?? by}: ${stdout}${stderr}`);
  const resume = /Continue with: holdfast (resume issue-1)/.exec(stdout)?.[1];
  if (resume === undefined && instant.line > 0) problems.push(`no resume command is printed: ${stdout}${stderr}`);
  const began = await stepsAtEnd(scene);
  problems.push(...(await orphans(scene)));
  const args = resume?.split(" ") ?? ["run", "1", "--resume", "--agent", scene.agent];
  const done = await startCommand(command, scene, ...args).ended;
  if (done.status !== 0)
    return [...problems, `resumed with ${args.join(" ")}: exit ${done.status}: ${done.stdout}${done.stderr}`];
  return [...problems, ...judge(calm, { before: began, end: await readFinalState(scene) })];
}
