// The faults of a team: which ones, in which order, how each is done, and how long its runs take to continue.

import { setTimeout as pause } from "node:timers/promises";
import type { Chance } from "../faults/harness/seed.ts";
import type { Journals } from "./journals.ts";
import type { Machine } from "./machines.ts";
import type { TeamScene } from "./scene.ts";

const KINDS = {
  "machine killed": "no heartbeat of its runs for a minute",
  "worker killed": "its runs work on",
  "frozen past its lease, woken": "no heartbeat of its runs for a minute",
  "cut off from PostgreSQL": "the cable",
  "cut off from git": "the cable",
  "PostgreSQL killed": "the server's start",
} as const;

export type FaultKind = keyof typeof KINDS;

export const FROZEN = "frozen past its lease, woken" satisfies FaultKind;

export interface Fault {
  readonly kind: FaultKind;
  /** Index of the machine. */
  readonly machine: number;
}

/** Every kind once in each round, in an order of its own. Pure. */
export function planFaults(chance: Chance, machines: number, rounds: number): readonly Fault[] {
  return Array.from({ length: rounds }, () => {
    // The keys of a constant record are exactly those of its type.
    const kinds = Object.keys(KINDS) as FaultKind[];
    for (let at = kinds.length - 1; at > 0; at -= 1) {
      const other = chance.below(at + 1);
      const [one, two] = [kinds[at], kinds[other]];
      if (one !== undefined && two !== undefined) [kinds[at], kinds[other]] = [two, one];
    }
    return kinds.map((kind) => ({ kind, machine: chance.below(machines) }));
  }).flat();
}

/** A run that a process held when its fault happened. */
interface Hit {
  readonly run: string;
  readonly epoch: number;
  readonly pid: number;
  /** Until its journal grew again; null: it ended without that. */
  readonly milliseconds: number | null;
  /** An agent was at work when the machine froze, so the process has work that no checkpoint holds. */
  readonly unsaved: boolean;
}

export interface FaultReport extends Fault {
  readonly hits: readonly Hit[];
}

/** Waits until a machine has runs, does the fault, and returns when all of them have continued. null: every run has ended. */
export async function doFault(
  scene: TeamScene,
  journals: Journals,
  fault: Fault,
  cutMs: number,
): Promise<FaultReport | null> {
  const machine = scene.machines[fault.machine];
  if (machine === undefined) throw new TypeError(`there is no machine ${fault.machine}`);
  const isHit = (host: string): boolean => fault.kind === "PostgreSQL killed" || host === machine.name;
  for (;;) {
    if (journals.areEnded(scene.runs)) return null;
    // What a machine loses that freezes shows best in the middle of its agents' work.
    const isReady = fault.kind !== FROZEN || scene.worksFor(machine).length > 0;
    if (isReady && journals.leases().some(({ host }) => isHit(host))) break;
    await pause(200);
  }
  const leases = journals.leases().filter(({ host }) => isHit(host));
  const start = performance.now();
  const undo = await strike(scene, machine, fault.kind, cutMs);
  // Of a machine that runs on, the test cannot know what its processes have not saved.
  const works = fault.kind === FROZEN ? scene.worksFor(machine) : [];
  journals.read();
  const before = new Map(leases.map(({ run }) => [run, journals.lengthOf(run)]));
  const undone = undo.at === "end" ? null : undo.now();
  const times = new Map<string, number | null>();
  while (times.size < leases.length) {
    await pause(200);
    journals.read();
    for (const { run } of leases) {
      if (times.has(run)) continue;
      if (journals.lengthOf(run) > (before.get(run) ?? 0)) times.set(run, performance.now() - start);
      else if (journals.areEnded([run])) times.set(run, null);
    }
  }
  await (undone ?? undo.now());
  const hits = leases.map((lease) => ({
    ...lease,
    milliseconds: times.get(lease.run) ?? null,
    unsaved: works.includes(lease.run),
  }));
  return { ...fault, hits };
}

interface Undo {
  /** "end": only after the runs have continued. */
  readonly at: "once" | "end";
  readonly now: () => Promise<void>;
}

async function strike(scene: TeamScene, machine: Machine, kind: FaultKind, cutMs: number): Promise<Undo> {
  switch (kind) {
    case "machine killed":
      await machine.powerOff();
      return {
        at: "end",
        now: async () => {
          await machine.powerOn();
          await scene.startWorker(machine);
        },
      };
    case "worker killed":
      await machine.killWorker();
      return { at: "end", now: () => scene.startWorker(machine) };
    case FROZEN:
      machine.freeze();
      return { at: "end", now: async () => machine.thaw() };
    case "cut off from PostgreSQL":
    case "cut off from git": {
      const cable = kind === "cut off from git" ? "git" : "database";
      machine.pull(cable);
      const now = async (): Promise<void> => {
        await pause(cutMs);
        machine.plug(cable);
      };
      return { at: "once", now };
    }
    case "PostgreSQL killed":
      await scene.postgres.crash();
      await scene.postgres.start();
      return { at: "once", now: async () => {} };
  }
}

/** One line for each kind: how often, how many runs it hit, and how long they took to continue. */
export function faultTable(reports: readonly FaultReport[]): string {
  const kinds = [...new Set(reports.map(({ kind }) => kind))].toSorted();
  const rows = kinds.map((kind) => {
    const same = reports.filter((report) => report.kind === kind);
    const hits = same.flatMap((report) => report.hits);
    const times = hits.flatMap(({ milliseconds }) => milliseconds ?? []).toSorted((a, b) => a - b);
    const seconds = (value: number | undefined): string => (value === undefined ? "-" : (value / 1000).toFixed(1));
    const [median, longest] = [seconds(times[Math.floor(times.length / 2)]), seconds(times.at(-1))];
    return [kind, String(same.length), String(hits.length), median, longest, KINDS[kind]];
  });
  const head = ["fault", "times", "runs hit", "median s", "max s", "includes"];
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  return [head, ...rows]
    .map((row) =>
      row
        .map((cell, column) =>
          column === 0 || column === 5 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
        )
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
