import { basename } from "node:path";
import { Disk } from "./disk.ts";
import type { Model } from "./disk.ts";
import { startNextBoot } from "./next-boot.ts";
import { powerStates } from "./power-states.ts";
import type { Recording } from "./record.ts";
import { saidBefore } from "./record.ts";
import type { Chance } from "./seed.ts";
import { everyNth, isFullRun, sample } from "./seed.ts";
import type { WorldFolder } from "./world.ts";
import { digestWorld, writeWorld } from "./world.ts";

/** Opens the state at `root` after a crash and lists every problem, given what the writer had printed by then. */
export type Judge = (found: {
  readonly root: string;
  readonly printed: readonly string[];
}) => Promise<readonly string[]>;

export interface Bad {
  readonly where: string;
  readonly problems: readonly string[];
}
export interface Swept {
  /** Places at which the writer was stopped. */
  readonly cases: number;
  /** Different folders that were judged. */
  readonly states: number;
  readonly bad: readonly Bad[];
}

/**
 * kill -9 of everything at once, between any two operations and in the middle of a write: since the page cache survives
 * the processes, the folder is exactly what the operations so far made. One recording gives all of these states.
 */
export async function sweepKills(params: SweepParams): Promise<Swept> {
  const points = choosePoints(params.recording, params.chance, params.cases);
  return sweep({ ...params, model: "posix", points, statesAt: (disk) => [disk.afterKill()], rebooted: false });
}

/** A power cut between any two operations, under one model of what a file system keeps. */
export async function sweepPower(
  params: SweepParams & { readonly model: Model; readonly statesPerCase: number; readonly all?: boolean },
): Promise<Swept> {
  const points = choosePoints(params.recording, params.chance, params.cases, params.all);
  const statesAt = (disk: Disk): Iterable<WorldFolder> =>
    powerStates({ disk, chance: params.chance, count: params.statesPerCase });
  return sweep({ ...params, points, statesAt, rebooted: true });
}

/** A power cut within the writes to files of one name: their first bytes are on the disk, as is all that was before. */
export async function sweepTornWrites(params: SweepParams & { readonly file: string }): Promise<Swept> {
  const { operations } = params.recording;
  const writes = operations.flatMap((operation, i) =>
    operation.kind === "write" && basename(operation.path) === params.file ? [i] : [],
  );
  function* statesAt(disk: Disk, point: number): Generator<WorldFolder> {
    const write = operations[point];
    if (write?.kind !== "write") throw new Error(`operation ${point} is no write`);
    const cuts = Array.from({ length: write.bytes.length }, (_, i) => i);
    for (const cut of sample(params.chance, cuts, 4)) {
      disk.apply({ ...write, bytes: write.bytes.subarray(0, cut) });
      yield disk.afterKill();
    }
  }
  const points = sample(params.chance, writes, params.cases);
  return sweep({ ...params, model: "posix", points, statesAt, rebooted: true });
}

export interface SweepParams {
  readonly recording: Recording;
  readonly judge: Judge;
  readonly chance: Chance;
  /** How many of the places, spread over the run; a full run takes all. */
  readonly cases: number;
}

/**
 * Numbers of operations after which the writer is stopped. Most operations are writes of one long transaction. The
 * turning points (syncs, names, printed lines, and the write before each) are few and get two thirds of the sample.
 */
function choosePoints(recording: Recording, chance: Chance, count: number, all?: boolean): readonly number[] {
  const { operations } = recording;
  const points = operations.flatMap((operation, i) => (operation.kind === "open" ? [] : [i + 1]));
  const isTurn = (point: number): boolean =>
    operations[point - 1]?.kind !== "write" || operations[point]?.kind !== "write";
  const turns = [0, ...points.filter(isTurn)];
  const rest = points.filter((point) => !isTurn(point));
  const share = Math.max(Math.ceil((count * 2) / 3), count - rest.length);
  const chosen = [...sample(chance, turns, share, all), ...sample(chance, rest, count - share, all)];
  const sorted = chosen.sort((one, other) => one - other);
  return isFullRun() && all !== false ? everyNth(sorted) : sorted;
}

/** The same choice as the tracer's numbers, for faults in real runs. */
export function chooseNumbers(recording: Recording, chance: Chance, count: number): readonly number[] {
  const numbers = choosePoints(recording, chance, count).map((point) => recording.operations[point]?.number ?? 0);
  return [...new Set(numbers)].filter((number) => number > 0);
}

async function sweep(
  params: SweepParams & {
    readonly model: Model;
    readonly points: readonly number[];
    readonly statesAt: (disk: Disk, point: number) => Iterable<WorldFolder>;
    readonly rebooted: boolean;
  },
): Promise<Swept> {
  const { recording } = params;
  const disk = new Disk({ model: params.model, rootPath: recording.root, world: recording.before });
  const judged = new Set<string>();
  const bad: Bad[] = [];
  let done = 0;
  const progress = fullRunProgress(params.points.length);
  for (const point of params.points) {
    progress(judged.size, bad);
    for (const operation of recording.operations.slice(done, point)) disk.apply(operation);
    done = point;
    const printed = saidBefore(recording, point);
    for (const world of params.statesAt(disk, point)) {
      const key = `${printed.length} ${digestWorld(world)}`;
      if (judged.has(key)) continue;
      judged.add(key);
      writeWorld(recording.root, world);
      if (params.rebooted) startNextBoot(recording.root);
      const problems = await judgeSafely(params.judge, { root: recording.root, printed });
      if (problems.length > 0) bad.push({ where: `after operation ${describe(recording, point)}`, problems });
    }
  }
  return { cases: params.points.length, states: judged.size, bad };
}

/** Prints a line a minute in a full run, which takes hours, and what is bad at once. Call it once for each point. */
export function fullRunProgress(points: number): (states: number, bad: readonly Bad[]) => void {
  let [at, reportedAt, shown] = [0, Date.now(), 0];
  return (states, bad) => {
    at += 1;
    if (!isFullRun()) return;
    for (const { where, problems } of bad.slice(shown))
      process.stdout.write(`faults: bad: ${where}\n    ${problems.join("\n    ")}\n`);
    shown = bad.length;
    if (Date.now() - reportedAt < 60_000) return;
    reportedAt = Date.now();
    process.stdout.write(`faults: point ${at} of ${points}, ${states} states, ${bad.length} bad\n`);
  };
}

/** A judge that throws has found something too. */
export async function judgeSafely(judge: Judge, found: Parameters<Judge>[0]): Promise<readonly string[]> {
  try {
    return await judge(found);
  } catch (error) {
    return [`the judge could not finish: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`];
  }
}

function describe(recording: Recording, point: number): string {
  const operation = recording.operations[point - 1];
  if (operation === undefined) return "0 (start)";
  const place = "path" in operation ? ` ${operation.path.slice(recording.root.length)}` : "";
  return `${point} of ${recording.operations.length} (number ${operation.number}, ${operation.kind}${place})`;
}
