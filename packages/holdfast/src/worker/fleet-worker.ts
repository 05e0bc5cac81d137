/**
 * A worker that has joined a queue: it executes submitted runs of its repositories, each in a process that does what `holdfast resume` does.
 * Before and after, the run's journal decides; the queue only says whose turn it is. From time to time the worker compares the queue with the
 * stores, so answers, raised limits and lost entries need no other program that knows the queue.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Dispatch, Entry, Job, Membership, Next } from "@holdfast/core/dispatch";
import type { RunStatus } from "@holdfast/core/status";
import type { Holdfast } from "../holdfast.ts";
import {
  type Correction,
  type FleetRun,
  entryKey,
  judgeRun,
  keepsAttempt,
  parseEntryKey,
  planNext,
  planReconciliation,
} from "./plan-fleet.ts";
import { readFleetRun, readFleetRuns, writeAttempt } from "./fleet-runs.ts";
import { SUBMITTED_VARIABLE, closeAttempt, openAttempt } from "./plan-work.ts";
import { type WorkerEvent, exitOf, startResume } from "./run-worker.ts";
import { type WorkerActivity, type WorkerSnapshot, askInTime, countEntries, countStatuses } from "./worker-health.ts";
import type { WorkerRepository } from "./worker-state.ts";

export interface FleetRepository extends WorkerRepository {
  /** Open for writing as long as the worker runs. */
  readonly holdfast: Holdfast;
}

interface FleetWorkerParams {
  readonly dispatch: Dispatch;
  /** Where the queue is, without a password. */
  readonly place: string;
  readonly repositories: readonly FleetRepository[];
  readonly labels: readonly string[];
  readonly slots: number;
  readonly activity: WorkerActivity;
  readonly version: string;
  readonly reconcileMs: number;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly emit: (event: WorkerEvent) => void;
  /** Whether the processes of runs may print their results to this process's output. */
  readonly inherits: boolean;
}

/** Works until the signal. Then its runs save, and other workers continue them. The same, and an error, if the queue brings it no work any more. */
export async function runFleetWorker(params: FleetWorkerParams): Promise<void> {
  const stopping = new AbortController();
  const signal = AbortSignal.any([params.signal, stopping.signal]);
  const { dispatch, emit, slots, labels, version, activity, place: queue } = params;
  const children = new Set<ChildProcess>();
  const repositories = new Map(params.repositories.map((one) => [one.holdfast.store.id, one]));

  async function work(job: Job, lost: AbortSignal): Promise<Next> {
    const { store: id, run } = parseEntryKey(job.run);
    const repository = repositories.get(id);
    if (repository === undefined) throw new Error(`This worker has no clone for ${job.run}`);
    const { holdfast, root } = repository;
    const { store } = holdfast;
    const [before, now] = [await readFleetRun(holdfast, run), await store.now()];
    const verdict = before === null ? null : judgeRun(before, now);
    if (before === null || verdict?.kind !== "start" || lost.aborted || signal.aborted) return planNext(before, now);
    const attempt = { ...openAttempt(before, before.attempt, now), host: hostname() };
    // Stored first: if the run kills its worker again and again, the attempts count.
    await writeAttempt(store, run, attempt);
    emit({ kind: "start", repository: root, run, why: verdict.why });
    const child = startResume(before, repository, { ...params, env: { ...params.env, [SUBMITTED_VARIABLE]: "yes" } });
    const stop = (): void => void child.kill("SIGTERM");
    lost.addEventListener("abort", stop, { once: true });
    children.add(child);
    activity.busy = children.size;
    if (lost.aborted || signal.aborted) stop();
    const exit = await exitOf(child);
    children.delete(child);
    activity.busy = children.size;
    lost.removeEventListener("abort", stop);
    emit({ kind: "ended", repository: root, run, exit });
    const [after, then] = [await readFleetRun(holdfast, run), await store.now()];
    // Another worker has the run, and counts its own attempts.
    if (lost.aborted) return planNext(after, then);
    const end = { exit, entries: after?.entries ?? null, now: then };
    const closed = { ...closeAttempt(attempt, end), host: attempt.host };
    const kept = after !== null && keepsAttempt(closed, exit, after.status) ? closed : null;
    await writeAttempt(store, run, kept);
    return planNext(after === null ? null : { ...after, attempt: kept ?? undefined }, then);
  }

  const membership: Membership = await dispatch.join({ labels, slots, version }, work);
  activity.worker = membership.id;
  emit({ kind: "joined", worker: membership.id, dispatch: queue, slots, labels });
  const looked = Array.from(repositories.values(), (one) => [one, createProblemReporter(emit)] as const);
  // A remote that hangs must not delay the queue.
  const sent = (async () => {
    for (const [repository, { report }] of looked) await sendFiles(repository, signal).catch(report);
  })();
  const reconciled = (async () => {
    while (!signal.aborted) {
      const [failed, statuses]: [string[], RunStatus[]] = [[], []];
      for (const [repository, { report, clear }] of looked)
        try {
          const { runs, entries, now } = await reconcile(dispatch, repository);
          statuses.push(...runs.map(({ status }) => status));
          activity.entries = countEntries(entries, now);
          clear();
        } catch (error) {
          report(error);
          failed.push(`cannot compare the queue with ${repository.root}: ${messageOf(error)}`);
        }
      activity.lookedAt = performance.now();
      activity.problems = failed;
      activity.runs = countStatuses(statuses);
      await sleep(params.reconcileMs, undefined, { signal }).catch(() => undefined);
    }
  })();
  const failure = await Promise.race([untilAborted(signal), membership.failed]);
  stopping.abort();
  activity.draining = true;
  emit({ kind: "draining", runs: children.size });
  const drained = membership.drain();
  for (const child of children) child.kill("SIGTERM");
  // Without the database the others cannot see that this worker leaves. After a while they see that it is dead.
  await drained.catch(createProblemReporter(emit).report);
  await Promise.all([sent, reconciled]);
  await dispatch.close();
  emit({ kind: "left" });
  if (failure !== null) throw failure;
}

async function untilAborted(signal: AbortSignal): Promise<null> {
  if (!signal.aborted) await once(signal, "abort");
  return null;
}

/** What this machine could not send before it went down: without it, no other machine can continue these runs. */
async function sendFiles({ holdfast }: Pick<FleetRepository, "holdfast">, signal: AbortSignal): Promise<void> {
  const { files } = holdfast;
  if (files === null) return;
  for (const { run } of await readFleetRuns(holdfast))
    if (!signal.aborted && ((await files.unpushed(run))?.snapshots ?? 0) > 0) await files.push(run, { signal });
}

/** An error that lasts is reported once. */
export function createProblemReporter(emit: (event: WorkerEvent) => void): {
  report(error: unknown): void;
  clear(): void;
} {
  let last = "";
  return {
    report(error) {
      const problem = messageOf(error);
      if (problem !== last) emit({ kind: "problem", problem });
      last = problem;
    },
    clear() {
      last = "";
    },
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Asks the queue and each store whether they answer now: after an outage the worker is healthy at once. */
export function createFleetProbe({
  dispatch,
  place,
  repositories,
}: Pick<FleetWorkerParams, "dispatch" | "place" | "repositories">): (
  worker: string,
) => Promise<Pick<WorkerSnapshot, "heartbeatAgeMs" | "problems">> {
  const askQueue = askInTime(() => dispatch.workers());
  const stores = repositories.map(({ root, holdfast }) => ({ root, ask: askInTime(() => holdfast.store.now()) }));
  return async (worker) => {
    const problems: string[] = [];
    const problem =
      (what: string) =>
      (error: unknown): void =>
        void problems.push(`${what}: ${messageOf(error)}`);
    const asked = stores.map(({ root, ask }) => ask().catch(problem(`the store of ${root}`)));
    const workers = await askQueue().catch(problem(`the queue in ${place}`));
    await Promise.all(asked);
    return { heartbeatAgeMs: workers?.find(({ id }) => id === worker)?.heartbeatAgeMs ?? null, problems };
  };
}

interface Compared {
  readonly runs: readonly FleetRun[];
  readonly entries: readonly Entry[];
  readonly now: number;
}

/** Makes the queue agree with one store. Repeated, by any number of workers, it changes nothing more. Returns what it has found. */
async function reconcile(dispatch: Dispatch, { holdfast }: Pick<FleetRepository, "holdfast">): Promise<Compared> {
  const { store } = holdfast;
  const entries = await dispatch.list();
  const [runs, now] = [await readFleetRuns(holdfast), await store.now()];
  for (const correction of planReconciliation({ store: store.id, entries, runs, now }))
    await apply(dispatch, correction);
  return { runs, entries, now };
}

async function apply(dispatch: Dispatch, correction: Correction): Promise<void> {
  switch (correction.kind) {
    case "submit":
      await dispatch.submit(correction.job, correction.at ?? undefined);
      return;
    case "signal":
      await dispatch.signal(correction.run);
      return;
    case "wakeAt":
      await dispatch.wakeAt(correction.run, correction.at);
      return;
    case "cancel":
      await dispatch.cancel(correction.run);
  }
}

/** Makes the queue agree with the store for one run, after a command has changed it. */
export async function reconcileRun(dispatch: Dispatch, holdfast: Holdfast, run: string): Promise<void> {
  const { store } = holdfast;
  const key = entryKey(store.id, run);
  const entries = (await dispatch.list()).filter((entry) => entry.run === key);
  const found = await readFleetRun(holdfast, run);
  for (const correction of planReconciliation({
    store: store.id,
    entries,
    runs: found === null ? [] : [found],
    now: await store.now(),
  }))
    await apply(dispatch, correction);
}
