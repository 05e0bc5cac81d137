import type { FilesPlane, Planes } from "../../core/checkpoint/checkpoint.ts";
import type { RunningStep, Visit } from "../../core/position/visit.ts";

/** A checkpoint whose files are what those left who may change them. */
export interface SettledFiles {
  readonly sequence: number;
  readonly files: FilesPlane | null;
}

/**
 * A checkpoint may be taken while an agent is at work that writes where it should not: what lies there then is nobody's yet, unless it is what was
 * there before.
 */
export function settledBy(
  before: SettledFiles,
  { settles, ...taken }: SettledFiles & { readonly settles: boolean },
): SettledFiles {
  return settles || (taken.files !== null && sameFiles(taken.files, before.files)) ? taken : before;
}

/** Something is under way, and nothing of it may change the run's own files. */
export function onlyGuests(running: ReadonlyMap<string, RunningStep>): boolean {
  return running.size > 0 && [...running.values()].every(({ files }) => !files);
}

type State = Pick<FilesPlane, "tree" | "head" | "branch">;

export function sameFiles(one: State, other: State | null): boolean {
  return one.tree === other?.tree && one.head === other.head && one.branch === other.branch;
}

/** What the checkpoint says of itself, for whoever takes the run up after a kill. */
export function unsettledIn(planes: Planes, settled: NonNullable<Visit["settled"]>): Planes {
  if (settled.of === settled.at) return planes;
  const { position } = planes;
  return { ...planes, position: { ...position, visit: { ...position.visit, settled } } };
}
