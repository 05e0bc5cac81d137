import { buildWorker, prepareGround } from "./ground.ts";
import type { Place } from "./ground.ts";
import { inPlace } from "./in-place.ts";
import { judge, judgeCalm } from "./judge.ts";
import { live } from "./live.ts";
import type { Leg, Scenario } from "./scenarios.ts";
import { finishedSteps, testify } from "./witness.ts";
import type { Testimony } from "./witness.ts";
import type { PassedPoint } from "./worker.ts";

/** A point in one leg of a scenario. */
export interface Kill extends PassedPoint {
  readonly leg: number;
}

export interface Calm {
  readonly testimony: Testimony;
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
  tell: (bad: Bad) => void,
): Promise<{ readonly points: number; readonly tried: number; readonly bad: readonly Bad[] }> {
  const program = await (worker ??= buildWorker());
  const ground = await prepareGround(scenario, program);
  try {
    const calm = await inPlace(ground, (place) => runCalmly(place, program, scenario));
    const kills = choose(calm.kills);
    const bad: Bad[] = [];
    await Promise.all(
      kills.map(async (kill) => {
        const problems = await inPlace(ground, (place) => endure(place, program, { scenario, calm, kill }));
        if (problems.length === 0) return;
        const found = { where: nameOf(scenario, kill), problems };
        bad.push(found);
        tell(found);
      }),
    );
    return { points: calm.kills.length, tried: kills.length, bad };
  } finally {
    await ground.remove();
  }
}

function nameOf(scenario: Scenario, { leg, point, stage }: Kill): string {
  return `${scenario.name}, leg ${leg}, ${point} (${stage === "" ? "begin" : stage})`;
}

async function runCalmly(place: Place, program: string, scenario: Scenario): Promise<Calm> {
  const kills: Kill[] = [];
  for (const [leg, what] of scenario.legs.entries()) {
    const life = await live(place, program, what, null);
    if (life.kind !== "ended" || life.outcome !== what.ends)
      throw new Error(`${scenario.name}, undisturbed, leg ${leg}: to end ${what.ends}, but ${JSON.stringify(life)}`);
    kills.push(...life.points.map((passed) => ({ ...passed, leg })));
  }
  const testimony = await testify(place);
  const problems = judgeCalm(scenario, testimony);
  if (problems.length > 0) throw new Error(`${scenario.name}, undisturbed: ${problems.join("; ")}`);
  return { testimony, kills };
}

async function endure(
  place: Place,
  program: string,
  params: { readonly scenario: Scenario; readonly calm: Calm; readonly kill: Kill },
): Promise<readonly string[]> {
  const { scenario, calm, kill } = params;
  const [died, ...rest] = scenario.legs.slice(kill.leg);
  if (died === undefined) return ["there is no such leg"];
  const problems: string[] = [];
  for (const leg of scenario.legs.slice(0, kill.leg)) problems.push(...(await expectEnd(place, program, leg)));
  const death = await live(place, program, died, kill.point);
  if (death.kind !== "killed") return [...problems, `it did not die: ${JSON.stringify(death)}`];
  const before = { finished: await finishedSteps(place), calls: await place.calls() };
  for (const leg of [died, ...rest]) problems.push(...(await expectEnd(place, program, leg)));
  if (problems.length > 0) return problems;
  return judge(calm.testimony, { before, end: await testify(place) }, scenario);
}

/** One resume must be enough. A run that had failed before the kill reports it again, as an error. */
async function expectEnd(place: Place, program: string, leg: Leg): Promise<readonly string[]> {
  const life = await live(place, program, leg, null);
  if (life.kind === "ended" && life.outcome === leg.ends) return [];
  if (life.kind === "failed" && leg.ends === "failed" && life.why.startsWith("HoldfastError: Run issue-1 ended at"))
    return [];
  return [`resumed, it was to end ${leg.ends}: ${life.kind === "killed" ? "killed" : `${life.kind} ${life.why}`}`];
}
