import type { ProcessEntry, ProcessTable } from "./process-table.ts";

export interface Target {
  readonly entry: ProcessEntry;
  /** A process below a marked one may have dropped the mark (`env -i`) or carry another (a Holdfast inside an agent). */
  readonly foundBy: "mark" | "parent";
}

/** Once seen, a process stays a target until it is gone, also when its parent dies or it changes its environment. */
export function findTargets(params: {
  readonly processes: readonly ProcessEntry[];
  readonly mark: string;
  readonly seen: ReadonlyMap<number, Target>;
  readonly spared: ReadonlySet<number>;
}): readonly Target[] {
  const { processes, mark, seen, spared } = params;
  const targets = new Map<number, Target>();
  for (const entry of processes) {
    if (spared.has(entry.pid)) continue;
    const known = seen.get(entry.pid);
    if (known?.entry.started === entry.started) targets.set(entry.pid, known);
    else if (carries(entry.mark, mark)) targets.set(entry.pid, { entry, foundBy: "mark" });
  }
  for (let before = -1; before !== targets.size;) {
    before = targets.size;
    for (const entry of processes) {
      if (!targets.has(entry.parent) || targets.has(entry.pid) || spared.has(entry.pid)) continue;
      targets.set(entry.pid, { entry, foundBy: "parent" });
    }
  }
  return [...targets.values()];
}

/** The mark itself, or one below it: of a run, its steps. */
export function carries(found: string | null, mark: string): boolean {
  return found !== null && (found === mark || found.startsWith(`${mark}/`));
}

/**
 * Who need not be read again: a process that is none of ours starts none of ours, and cannot become ours. One without any environment
 * may be about to show it.
 */
export function strangersOf(table: ProcessTable, targets: readonly Target[]): ReadonlyMap<number, ProcessEntry> {
  const others = new Set([...targets.map((target) => target.entry.pid), ...table.doubts.map((doubt) => doubt.pid)]);
  return new Map(table.live.flatMap((entry) => (others.has(entry.pid) ? [] : [[entry.pid, entry] as const])));
}
