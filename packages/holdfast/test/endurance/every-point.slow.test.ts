import { afterAll, describe, expect, test, vi } from "vitest";
import { clearScratch } from "../faults/harness/scratch.ts";
import { chanceOf, isFullRun, sample, suiteSeed } from "../faults/harness/seed.ts";
import { choosePoints } from "./choose-points.ts";
import { CRUNCH } from "./crunch-scenario.ts";
import { RALPH } from "./ralph-scenario.ts";
import { SIDE_WORKTREES, FALLING, SCENARIOS } from "./scenarios.ts";
import type { Scenario } from "./scenarios.ts";
import { sweep } from "./sweep.ts";
import type { Bad, Kill } from "./sweep.ts";

const seed = suiteSeed();
const report: string[] = [];
vi.setConfig({ testTimeout: isFullRun() ? 8 * 3_600_000 : 1_800_000, maxConcurrency: 20 });
afterAll(() => {
  clearScratch();
  for (const line of report) process.stdout.write(`endurance: ${line}\n`);
});

function printBad({ where, problems }: Bad): void {
  if (isFullRun()) process.stdout.write(`endurance: bad: ${where}\n    ${problems.join("\n    ")}\n`);
}

async function check(scenario: Scenario, choose: (kills: readonly Kill[]) => readonly Kill[]): Promise<void> {
  const began = performance.now();
  const { points, tried, bad } = await sweep(scenario, choose, printBad);
  const seconds = Math.round((performance.now() - began) / 1000);
  const how = isFullRun() ? "full" : `seed ${seed}`;
  report.push(`${scenario.name}: ${tried} of ${points} points, ${how}, ${bad.length} bad, ${seconds} s`);
  expect(tried).toBeGreaterThan(1);
  const again = `${isFullRun() ? "HOLDFAST_FULL=1 " : ""}HOLDFAST_SEED=${seed} npx vitest run --project promises packages/holdfast/test/endurance/every-point.slow.test.ts -t "${scenario.name}"`;
  const lines = bad.map(({ where, problems }) => `${where}\n    ${problems.join("\n    ")}`);
  if (bad.length > 0)
    expect.fail(`${bad.length} of ${tried} points are bad. See it again: ${again}\n  ${lines.join("\n  ")}`);
}

interface Row {
  readonly title: string;
  readonly scenario: Scenario;
  /** Points besides one of the journal's, of this many families. */
  readonly others: number;
  /** What the scenario is there for, and where a sample is drawn; null: all of it. */
  readonly stage: string | null;
}

const ROWS: readonly Row[] = [
  ...SCENARIOS.map((scenario) => ({ title: scenario.name, scenario, others: 1, stage: null })),
  {
    title: "agents beside the run: each call ends once, the same files, no worktree is left",
    scenario: SIDE_WORKTREES,
    others: 1,
    stage: null,
  },
  {
    title: "a team on a graph: each node to its end once, each message answered once, each label and each lesson once",
    scenario: CRUNCH,
    others: 1,
    stage: null,
  },
  {
    title: "a loop: no iteration lost, skipped or done twice, back to its best once, its budget spent once",
    scenario: RALPH,
    others: 1,
    stage: null,
  },
  {
    title: "scores 60, 75, 70, 65, 64: the files of the best review, also when killed on the way back to them",
    scenario: FALLING,
    others: 2,
    stage: "fatal",
  },
];

describe("killed with SIGKILL and resumed: the same files, each effect once, no finished step again, limits intact", () => {
  // The modelled Mac repeats one of them, as a check of what differs there.
  const some = sample(chanceOf(seed, "scenarios"), ROWS, process.platform === "darwin" ? 1 : 4);
  test.concurrent.each(some)("$title", async ({ scenario, others, stage }) => {
    const chance = chanceOf(seed, scenario.name);
    await check(scenario, (kills) => {
      const ours = stage === null || isFullRun() ? kills : kills.filter((kill) => kill.stage === stage);
      return choosePoints(chance, ours, others);
    });
  });
});
