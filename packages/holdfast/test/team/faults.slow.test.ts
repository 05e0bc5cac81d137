import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { postgresMissing } from "@holdfast/test-support/postgres-server";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { chanceOf, isFullRun, suiteSeed } from "../faults/harness/seed.ts";
import { type Fault, FROZEN, type FaultReport, doFault, faultTable, planFaults } from "./faults.ts";
import { judgeTeam } from "./judge.ts";
import { type Journals, watchJournals } from "./journals.ts";
import { clockLibrary, machinesMissing } from "./machines.ts";
import { type TeamScene, beginTeam } from "./scene.ts";

/*
 * Three machines with a worker each, one PostgreSQL server, one git remote, and the clock of one machine an hour ahead. Faults hit the machines
 * while they work. HOLDFAST_FULL=1: 60 runs and every kind of fault, in about 12 minutes. Otherwise a few runs, and two kinds by seed.
 */

const missing = postgresMissing() ?? machinesMissing();
beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

let holdfast: BuiltCommand;
beforeAll(async () => {
  holdfast = await buildCommand();
});
afterAll(() => holdfast.remove());

const FULL = { runs: 60, slots: 3, seconds: { impl: 20, review: 5 }, cutMs: 60_000, timings: null, rounds: 1 };
/** A machine under load may make a living worker look dead. Then its runs move, which the judge does not exclude. */
const SMALL = {
  runs: 6,
  slots: 2,
  seconds: { impl: 8, review: 1 },
  cutMs: 10_000,
  timings: { lookMs: 200, heartbeatMs: 500, deadMs: 15_000, tidyMs: 1000, reconcileMs: 1000 },
  rounds: 1,
};

/** A run that never ends is ended by this limit; without the variable, by that of all tests. */
const limits = isFullRun() ? { timeout: 3_600_000 } : {};

test("every run ends once, with its effects once, whatever happens to three machines", limits, async ({ task }) => {
  const size = isFullRun() ? FULL : SMALL;
  const seed = suiteSeed();
  const later: (() => unknown)[] = [];
  onTestFinished(async () => {
    for (const stop of later.toReversed()) await stop();
  });
  const directory = scratchDirectory((remove) => void later.push(remove));
  const scene = await beginTeam({ ...size, directory, holdfast, later: (stop) => void later.push(stop) });
  const journals = watchJournals(scene);
  const reading = setInterval(() => journals.read(), 1000);
  later.push(
    () => clearInterval(reading),
    async () => {
      if (task.result?.state === "fail") process.stderr.write(await describeTeam(scene, journals));
    },
  );
  await Promise.all(scene.machines.map((machine) => scene.startWorker(machine)));
  const planned = planFaults(chanceOf(seed, "team"), scene.machines.length, size.rounds);
  const reports: FaultReport[] = [];
  for (const fault of isFullRun() ? planned : someFaults(planned)) {
    const report = await doFault(scene, journals, fault, size.cutMs);
    if (report === null) break;
    reports.push(report);
  }
  while (!journals.areEnded(scene.runs)) await pause(500);
  await untilLosersEnded();
  while ((await scene.json("queue")).entries.length > 0) await pause(500);
  for (const machine of scene.machines) await machine.stopWorker();
  journals.read();
  const clock = clockLibrary() === null ? "; no clock was wrong (Debian: apt-get install faketime)" : "";
  const checkpoints = [...journals.seen.values()].filter(({ kind }) => kind === "checkpoint").length;
  const unsaved = reports.flatMap(({ hits }) => hits).filter((hit) => hit.unsaved).length;
  const words = `${scene.runs.length} runs, ${checkpoints} checkpoints read while they were saved, unsaved work of ${unsaved} frozen processes, seed ${seed}${clock}`;
  process.stdout.write(`${words}\n${faultTable(reports)}\n`);
  expect(await judgeTeam(scene, journals, reports), `HOLDFAST_SEED=${seed}`).toEqual([]);
  if (isFullRun()) expect(new Set(reports.map(({ kind }) => kind)).size).toBe(6);

  /** A process that lost its run to another machine keeps its work, then ends. */
  async function untilLosersEnded(): Promise<void> {
    const losers = reports
      .filter(({ kind }) => kind === FROZEN)
      .flatMap(({ machine, hits }) => hits.map(({ pid }) => ({ machine: scene.machines[machine], pid })));
    while (losers.some(({ machine, pid }) => machine?.has(pid))) await pause(500);
  }
});

/** Where each run, entry of the queue and process is. */
async function describeTeam(scene: TeamScene, journals: Journals): Promise<string> {
  const answerOf = (...args: readonly string[]): Promise<unknown> => scene.json(...args).catch(String);
  const machines = scene.machines.map(({ name, events, commandLines }) => {
    return { name, events: events.slice(-30), processes: commandLines() };
  });
  const runs = await answerOf("list", "--limit", "all");
  return JSON.stringify({ runs, queue: await answerOf("queue"), leases: journals.leases(), machines }, null, 1);
}

/** One that ends the work of a machine, and one that does not. */
function someFaults(planned: readonly Fault[]): readonly Fault[] {
  const ends = (fault: Fault): boolean => /^(?:machine|frozen)/.test(fault.kind);
  return [...planned.filter((fault) => !ends(fault)).slice(0, 1), ...planned.filter(ends).slice(0, 1)];
}
