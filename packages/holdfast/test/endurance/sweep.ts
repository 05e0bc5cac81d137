import { buildWorker, prepareScene } from "./scene.ts";
import type { Scene } from "./scene.ts";
import { inScene } from "./in-scene.ts";
import { judge, judgeCalm } from "./judge.ts";
import { runWorker } from "./run-worker.ts";
import type { Leg, Scenario } from "./scenarios.ts";
import { readFinalState, stepsAtEnd } from "./final-state.ts";
import type { FinalState } from "./final-state.ts";
import type { PassedPoint } from "./worker.ts";

/** A point in one leg of a scenario. */
export interface Kill extends PassedPoint {
  readonly leg: number;
}

export interface Calm {
  readonly final: FinalState;
  readonly kills: readonly Kill[];
}

export interface Bad {
  readonly where: string;
  readonly problems: readonly string[];
}

let worker: Promise<string> | undefined;

/**
 * An undisturbed run shows the expected result and every point at which a process could be killed. Then, for each
 * chosen point: one process that is killed there, and one that resumes what it left.
 */
export async function sweep(
  scenario: Scenario,
  choose: (kills: readonly Kill[]) => readonly Kill[],
  /** Called as results come in, because a full sweep takes long. */
  report: (bad: Bad) => void,
): Promise<{ readonly points: number; readonly tried: number; readonly bad: readonly Bad[] }> {
  const program = await (worker ??= buildWorker());
  const template = await prepareScene(scenario, program);
  try {
    const calm = await inScene(template, (scene) => runCalmly(scene, program, scenario));
    const kills = choose(calm.kills);
    const bad: Bad[] = [];
    await Promise.all(
      kills.map(async (kill) => {
        const problems = await inScene(template, (scene) => endure(scene, program, { scenario, calm, kill }));
        if (problems.length === 0) return;
        const found = { where: nameOf(scenario, kill), problems };
        bad.push(found);
        report(found);
      }),
    );
    return { points: calm.kills.length, tried: kills.length, bad };
  } finally {
    await template.remove();
  }
}

function nameOf(scenario: Scenario, { leg, point, stage }: Kill): string {
  return `${scenario.name}, leg ${leg}, ${point} (${stage === "" ? "begin" : stage})`;
}

async function runCalmly(scene: Scene, program: string, scenario: Scenario): Promise<Calm> {
  const kills: Kill[] = [];
  for (const [leg, what] of scenario.legs.entries()) {
    const ended = await runWorker(scene, program, what, null);
    if (ended.kind !== "ended" || ended.outcome !== what.ends)
      throw new Error(`${scenario.name}, undisturbed, leg ${leg}: to end ${what.ends}, but ${JSON.stringify(ended)}`);
    kills.push(...ended.points.map((passed) => ({ ...passed, leg })));
  }
  const final = await readFinalState(scene);
  const problems = judgeCalm(scenario, final);
  if (problems.length > 0) throw new Error(`${scenario.name}, undisturbed: ${problems.join("; ")}`);
  return { final, kills };
}

async function endure(
  scene: Scene,
  program: string,
  params: { readonly scenario: Scenario; readonly calm: Calm; readonly kill: Kill },
): Promise<readonly string[]> {
  const { scenario, calm, kill } = params;
  const [died, ...rest] = scenario.legs.slice(kill.leg);
  if (died === undefined) return ["there is no such leg"];
  const problems: string[] = [];
  for (const leg of scenario.legs.slice(0, kill.leg)) problems.push(...(await expectEnd(scene, program, leg)));
  const death = await runWorker(scene, program, died, kill.point);
  if (death.kind !== "killed") return [...problems, `it did not die: ${JSON.stringify(death)}`];
  const before = await stepsAtEnd(scene);
  for (const leg of [died, ...rest]) problems.push(...(await expectEnd(scene, program, leg)));
  if (problems.length > 0) return problems;
  return judge(calm.final, { before, end: await readFinalState(scene) }, scenario);
}

/** One resume must be enough. A run that had failed before the kill reports it again, as an error. */
async function expectEnd(scene: Scene, program: string, leg: Leg): Promise<readonly string[]> {
  const ended = await runWorker(scene, program, leg, null);
  if (ended.kind === "ended" && ended.outcome === leg.ends) return [];
  if (ended.kind === "failed" && leg.ends === "failed" && ended.why.startsWith("HoldfastError: Run issue-1 ended at"))
    return [];
  return [`resumed, it was to end ${leg.ends}: ${ended.kind === "killed" ? "killed" : `${ended.kind} ${ended.why}`}`];
}
