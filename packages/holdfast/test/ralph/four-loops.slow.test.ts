import { execFileSync } from "node:child_process";
import { afterAll, expect, test } from "vitest";
import { openHoldfast } from "../../src/open.ts";
import type { JournalEntry } from "@holdfast/core/journal";
import { buildCommand } from "@holdfast/test-support/built-command";
import { readProcessTable } from "@holdfast/platform/process-tree";
import { clearScratch } from "../faults/harness/scratch.ts";
import { chanceOf, isFullRun, suiteSeed } from "../faults/harness/seed.ts";
import { judgeLooks } from "./judge-looks.ts";
import { type LoopLives, killLoop } from "./kill-loop.ts";
import { type LoopScene, idOf, prepareLoops } from "./loop-scene.ts";
import { watchLoops } from "./watch-loops.ts";

const seed = suiteSeed();
const KILLS = isFullRun() ? 200 : 12;
const ITERATIONS = isFullRun() ? 12 : 4;
const LOOPS = ["a", "b", "c", "d"] as const;

afterAll(clearScratch);

test(`four loops at once, killed ${KILLS} times in total (seed ${seed}): every one ends correctly, and every status was correct`, async () => {
  const command = await buildCommand();
  try {
    const scene = prepareLoops();
    const calmWords = scene.words("calm", ITERATIONS);
    const calm = await idOf(command, scene, calmWords);
    const undisturbedEnd = await command.run(calmWords, { cwd: scene.repository });
    expect(undisturbedEnd.status, undisturbedEnd.stdout + undisturbedEnd.stderr).toBe(0);
    const files = scene.files(calm);
    expect(Object.keys(files)).toHaveLength(ITERATIONS + 4);
    const undisturbed = iterationsIn(await journalOf(scene, calm));
    expect(undisturbed.entered).toEqual(Array.from({ length: ITERATIONS }, (_, i) => i + 1));

    let kills = 0;
    let atWork = 0;
    let seen = 0;
    for (let round = 1; kills < KILLS; round += 1) {
      const observer = watchLoops(command, scene);
      const share = Math.ceil((KILLS - kills) / LOOPS.length);
      const loops = await Promise.all(
        LOOPS.map(async (name) => {
          const words = scene.words(`${name}${round}`, ITERATIONS);
          const run = await idOf(command, scene, words);
          let left = share;
          return await killLoop({
            command,
            scene,
            run,
            words,
            chance: chanceOf(seed, `${name}${round}`),
            mayKill: () => (left -= 1) >= 0,
            hasEnded: (id) => hasEnded(scene, id),
          });
        }),
      );
      const looks = await observer.stop();
      for (const loop of loops) {
        const where = `seed ${seed}, round ${round}, ${loop.run}: ${loop.last.stderr}`;
        const entries = await journalOf(scene, loop.run);
        expect(judgeLooks(looks, loop, entries), where).toEqual([]);
        expect(scene.files(loop.run), where).toEqual(files);
        expect(iterationsIn(entries), where).toEqual(undisturbed);
        expect(callsWrong(scene, loop), where).toEqual([]);
        const killed = loop.lives.filter(({ killedAt }) => killedAt !== null);
        kills += killed.length;
        atWork += killed.filter(({ heardAt }) => heardAt !== null).length;
      }
      for (const { runs } of looks)
        expect(runs.filter(({ status }) => status.kind === "running").length).toBeLessThanOrEqual(LOOPS.length);
      expect(looks.length).toBeGreaterThan(LOOPS.length);
      seen += looks.length;
      if (isFullRun()) process.stderr.write(`round ${round}: ${kills} kills, ${atWork} at work, ${seen} looks\n`);
    }
    await using holdfast = await openHoldfast({ cwd: scene.repository, create: false });
    const problems = await Array.fromAsync(holdfast.verify());
    expect(problems.filter(({ kind }) => kind === "problem")).toEqual([]);
    expect((await holdfast.statuses()).filter(({ status }) => status.kind !== "done")).toEqual([]);
    const left = readProcessTable()?.live ?? [];
    expect(left.filter(({ mark }) => mark?.startsWith(`${holdfast.store.id}/`) === true)).toEqual([]);
    expect(execFileSync("git", ["status", "--porcelain"], { cwd: scene.repository, encoding: "utf8" })).toBe("");
  } finally {
    await command.remove();
  }
}, 3_600_000);

async function journalOf(scene: LoopScene, run: string): Promise<readonly JournalEntry[]> {
  await using holdfast = await openHoldfast({ cwd: scene.repository, create: false });
  return await Array.fromAsync(holdfast.store.readJournal({ run }));
}

async function hasEnded(scene: LoopScene, run: string): Promise<boolean> {
  await using holdfast = await openHoldfast({ cwd: scene.repository });
  const state = (await holdfast.store.getRun(run))?.state.kind;
  return state === "done" || state === "failed";
}

/** Iterations in the order in which they were entered, and how often the agent's call of each was finished. */
function iterationsIn(entries: readonly JournalEntry[]) {
  let iteration = 0;
  const entered: number[] = [];
  const finished: Record<number, number> = {};
  for (const { kind, body } of entries) {
    if (kind === "stage.entered" && body["stage"] === "iterate") entered.push((iteration = Number(body["iteration"])));
    if (kind === "step.finished" && body["step"] === "agent") finished[iteration] = (finished[iteration] ?? 0) + 1;
  }
  return { entered, finished };
}

/** The agent's own word: no iteration is missing, none comes after a later one, and none is called again but after a kill. */
function callsWrong(scene: LoopScene, { run, lives }: LoopLives): readonly string[] {
  const begun = scene
    .calls(run)
    .filter(({ what }) => what === "begin")
    .map(({ iteration }) => iteration);
  const wrong: string[] = [];
  let repeats = 0;
  for (const [at, iteration] of begun.entries()) {
    const before = at === 0 ? 0 : (begun[at - 1] ?? 0);
    if (iteration === before) repeats += 1;
    else if (iteration !== before + 1) wrong.push(`iteration ${iteration} was called after ${before}`);
  }
  if (begun.at(-1) !== ITERATIONS) wrong.push(`the last call was for iteration ${begun.at(-1)}`);
  const kills = lives.filter(({ killedAt }) => killedAt !== null).length;
  if (repeats > kills) wrong.push(`${repeats} calls again after ${kills} kills`);
  return wrong;
}
