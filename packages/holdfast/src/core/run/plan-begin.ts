import { RUN_ID } from "./run.ts";
import type { RunSummary, Work } from "./run.ts";

/** Label of a run that executes another one again; it names that run. A rerun never counts as the work's own run. */
export const RERUN_OF = "rerun-of";

export interface BeginRequest {
  readonly workflow: string;
  readonly work: Work;
  /** The id that the caller chose; null: the run is found by its issue or task text. */
  readonly id: string | null;
  /** Begin a new run although an earlier one has ended; of a task also although one is unfinished. */
  readonly again: boolean;
  /** Ids for this work, from 1. */
  readonly nameOf: (count: number) => string;
}

export type BeginPlan =
  | { readonly kind: "begin"; readonly id: string }
  /** An unfinished run of the same work. Its lease decides which process works on it. */
  | { readonly kind: "continue"; readonly id: string }
  /** The work has ended: the outcome of this run is the answer, and nothing is done. */
  | { readonly kind: "ended"; readonly run: RunSummary };

/**
 * What starting work means, given the runs of the repository (newest first). The key is the workflow and the id, or else the workflow and the
 * issue number or task text. A supervisor that starts the same work after every crash therefore never gets a second run.
 */
export function planBegin(runs: readonly RunSummary[], request: BeginRequest): BeginPlan {
  const { id, again } = request;
  if (id !== null) {
    const run = runs.find((one) => one.id === id);
    if (run === undefined) return { kind: "begin", id };
    if (!isOfWork(run, request) || !hasEnded(run)) return { kind: "continue", id };
    return again ? { kind: "begin", id: freeName(runs, request) } : { kind: "ended", run };
  }
  const own = runs.filter((run) => isOfWork(run, request) && run.labels[RERUN_OF] === undefined);
  const anyway = again && request.work.kind === "task";
  // The oldest first: of several that are unfinished, every process that starts the work chooses the same one.
  const unfinished = own.findLast(
    (run) => !hasEnded(run) && run.forkedFrom === null && !(anyway && run.checkpoints > 0),
  );
  if (unfinished !== undefined) return { kind: "continue", id: unfinished.id };
  const ended = again ? undefined : own.find(hasEnded);
  return ended === undefined ? { kind: "begin", id: freeName(runs, request) } : { kind: "ended", run: ended };
}

/** "issue-42", "issue-42-2", "issue-42-3": the number follows the id that the caller chose, which is cut where it would be too long. */
export function numberedId(id: string, count: number): string {
  const suffix = count === 1 ? "" : `-${count}`;
  const numbered = `${id.slice(0, MAX_ID - suffix.length).replace(/-+$/, "")}${suffix}`;
  return RUN_ID.test(numbered) ? numbered : `${id}${suffix}`;
}

const MAX_ID = 63;

function hasEnded({ state }: RunSummary): boolean {
  return state.kind === "done" || state.kind === "fatal";
}

function isOfWork(run: RunSummary, { workflow, work }: BeginRequest): boolean {
  return run.workflow === workflow && isSameWork(run.work, work);
}

function isSameWork(a: Work, b: Work): boolean {
  if (a.kind === "issue") return b.kind === "issue" && a.number === b.number;
  if (a.kind === "task") return b.kind === "task" && a.text === b.text;
  return b.kind === "none";
}

function freeName(runs: readonly RunSummary[], { nameOf }: BeginRequest): string {
  const taken = new Set(runs.map(({ id }) => id));
  for (let count = 1; ; count += 1) {
    const name = nameOf(count);
    if (!taken.has(name)) return name;
  }
}
