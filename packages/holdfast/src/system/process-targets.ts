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
 * Tells of one table after the other whether it leaves no doubt. A process that was read before, and was none of ours, raises
 * none by going away; a zombie or a process without any environment raises one only when it is first seen so.
 */
export function createCompleteness(): (table: ProcessTable) => boolean {
  let known = new Set<number>();
  const told = new Set<string>();
  return ({ live, doubts }) => {
    const isComplete = doubts.every(({ pid, why }) => known.has(pid) || told.has(`${pid} ${why}`));
    for (const { pid, why } of doubts) told.add(`${pid} ${why}`);
    const blank = new Set(doubts.map((doubt) => doubt.pid));
    known = new Set(live.flatMap((entry) => (entry.mark === null && !blank.has(entry.pid) ? [entry.pid] : [])));
    return isComplete;
  };
}
