import { buildWorker, prepareGround } from "./ground.ts";
import type { Place } from "./ground.ts";
import { judge, judgeCalm } from "./judge.ts";
import { live } from "./live.ts";
import type { Point } from "./mortal-parts.ts";
import type { Leg, Scenario } from "./scenarios.ts";
import { clearProcesses, finishedSteps, testify } from "./witness.ts";
import type { Testimony } from "./witness.ts";

/** A point in one leg of a scenario. */
export interface Kill {
  readonly leg: number;
  readonly point: Point;
}

export interface Calm {
  readonly testimony: Testimony;
  readonly kills: readonly Kill[];
  readonly problems: readonly string[];
}

export interface Endurance {
  readonly scenario: Scenario;
  /** An undisturbed run: what must come out, and every point at which it could have died. */
  calm(): Promise<Calm>;
  /** Dies there, is resumed, and is held against the undisturbed one. */
  endure(calm: Calm, kill: Kill): Promise<readonly string[]>;
  remove(): Promise<void>;
}

let worker: Promise<string> | undefined;

export async function prepare(scenario: Scenario): Promise<Endurance> {
  const program = await (worker ??= buildWorker());
  const ground = await prepareGround(scenario, program);
  const place = async <T>(use: (place: Place) => Promise<T>): Promise<T> => {
    const made = await ground.copy();
    try {
      return await use(made);
    } finally {
      if (process.env["ENDURANCE_KEEP"] !== "1") {
        await clearProcesses(made).catch(() => undefined);
        await made.remove();
      } else process.stdout.write(`kept ${made.root}\n`);
    }
  };
  return {
    scenario,
    remove: ground.remove,
    calm: () =>
      place(async (made) => {
        const kills: Kill[] = [];
        for (const [leg, what] of scenario.legs.entries()) {
          const life = await live(made, program, what, null);
          if (life.kind !== "ended" || life.outcome !== what.ends)
            throw new Error(`${scenario.name}: undisturbed, leg ${leg} was to end ${what.ends}: ${JSON.stringify(life)}`);
          kills.push(...life.points.map((point) => ({ leg, point })));
        }
        const testimony = await testify(made);
        return { testimony, kills, problems: judgeCalm(scenario, testimony) };
      }),
    endure: (calm, kill) =>
      place(async (made) => {
        const [died, ...rest] = scenario.legs.slice(kill.leg);
        if (died === undefined) return ["there is no such leg"];
        for (const leg of scenario.legs.slice(0, kill.leg)) await expectEnd(made, program, leg);
        const death = await live(made, program, died, kill.point);
        if (death.kind !== "killed") return [`it did not die: ${JSON.stringify(death)}`];
        const before = { finished: await finishedSteps(made), calls: await made.calls() };
        const problems: string[] = [];
        for (const leg of [died, ...rest]) problems.push(...(await expectEnd(made, program, leg)));
        if (problems.length > 0) return problems;
        return judge(calm.testimony, { before, end: await testify(made) });
      }),
  };
}

/** One resume must be enough: it may find the end already written, and says so. */
async function expectEnd(place: Place, program: string, leg: Leg): Promise<readonly string[]> {
  const life = await live(place, program, leg, null);
  if (life.kind === "ended" && life.outcome === leg.ends) return [];
  if (life.kind === "failed" && leg.ends === "fatal" && life.why.includes("RUN_FATAL")) return [];
  return [`resumed, it was to end ${leg.ends}: ${life.kind === "killed" ? "killed" : life.why}`];
}
