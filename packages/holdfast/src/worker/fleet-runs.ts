/** Reads and writes what a store has about submitted runs. */
import { submissionKey } from "@holdfast/core/dispatch";
import { isEnded } from "@holdfast/core/run";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import type { Store } from "@holdfast/core/store";
import {
  type FleetAttempt,
  type FleetRun,
  type Submission,
  parseAttempt,
  parseSubmission,
  submissionText,
} from "./plan-fleet.ts";

/** The part of an open Holdfast that is needed. */
interface Opened {
  readonly store: Store;
  unfinished(): Promise<readonly RunWithStatus[]>;
  runWithStatus(run: string): Promise<RunWithStatus>;
}

/** The submitted runs that have not ended. */
export async function readFleetRuns(holdfast: Opened): Promise<readonly FleetRun[]> {
  const submitted = (await holdfast.unfinished()).filter((run) => run.submitted);
  const found = await Promise.all(submitted.map((run) => fleetRunOf(holdfast, run)));
  return found.filter((run) => run !== null);
}

/** null: it has ended, was removed, or does not belong to the workers. */
export async function readFleetRun(holdfast: Opened, run: string): Promise<FleetRun | null> {
  const summary = await holdfast.store.getRun(run);
  if (summary === undefined || isEnded(summary.state)) return null;
  return await fleetRunOf(holdfast, await holdfast.runWithStatus(run));
}

async function fleetRunOf({ store }: Opened, { run, status }: RunWithStatus): Promise<FleetRun | null> {
  const submission = await readSubmission(store, run.id);
  if (submission === null) return null;
  const attempt = await readAttempt(store, run.id);
  return { run: run.id, status, entries: run.entries, submission, attempt };
}

export async function readSubmission(store: Pick<Store, "getMeta">, run: string): Promise<Submission | null> {
  return parseSubmission(await store.getMeta(submissionKey(run)));
}

export async function writeSubmission(store: Store, run: string, submission: Submission): Promise<void> {
  await store.setMeta(submissionKey(run), submissionText(submission));
}

/** Returns whether the run was submitted. From then on no worker continues it. */
export async function withdrawSubmission(store: Store, run: string): Promise<boolean> {
  if (((await store.getMeta(submissionKey(run))) ?? "") === "") return false;
  await store.setMeta(submissionKey(run), "");
  return true;
}

/** The last attempt of any worker. */
export async function readAttempt(store: Pick<Store, "getMeta">, run: string): Promise<FleetAttempt | undefined> {
  return parseAttempt(await store.getMeta(attemptKey(run)));
}

/** null: nothing delays the next attempt. */
export async function writeAttempt(store: Store, run: string, attempt: FleetAttempt | null): Promise<void> {
  const text = attempt === null ? "" : JSON.stringify(attempt);
  if (((await store.getMeta(attemptKey(run))) ?? "") !== text) await store.setMeta(attemptKey(run), text);
}

/** Key in the store's metadata: the last attempt of a worker to continue a run. */
function attemptKey(run: string): string {
  return `attempt/${run}`;
}
