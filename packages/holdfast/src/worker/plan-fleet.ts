/**
 * Decides what becomes of submitted runs: what a worker does with the run of an entry, what becomes of the entry afterwards, and which entries
 * of a queue differ from the store. Pure. The journals decide; the queue can be lost.
 */
import type { DispatchLimits, Entry, Job, Next, WorkerEntry } from "@holdfast/core/dispatch";
import { asRecord } from "@holdfast/core/json";
import { type RunStatus, isHeld } from "@holdfast/core/status";
import type { Exit } from "../cli/exit.ts";
import {
  type Attempt,
  MAX_FAILURES,
  type Verdict,
  afterAttempt,
  byWait,
  exhaustedText,
  failuresNow,
  failuresText,
  isPolled,
} from "./plan-work.ts";

/** How a run was submitted. The store has it from before the first checkpoint of the run. */
export interface Submission {
  readonly queue: string;
  /** The name of the repository, for limits and lists. */
  readonly repository: string;
  readonly priority: number;
  /** Labels that a worker must have. */
  readonly needs: readonly string[];
  /** The machine that alone has the files of the run; null: any machine can have them. */
  readonly host: string | null;
  /** ISO 8601; null: at once. */
  readonly at: string | null;
}

export function submissionText(submission: Submission): string {
  return JSON.stringify({ version: 1, ...submission });
}

/** null: the run was not submitted, or was taken out of the queue. */
export function parseSubmission(text: string | undefined): Submission | null {
  if (text === undefined || text === "") return null;
  const { queue, repository, priority, needs, host, at } = asRecord(parseJson(text));
  if (typeof queue !== "string" || typeof repository !== "string" || typeof priority !== "number") return null;
  return {
    queue,
    repository,
    priority,
    needs: Array.isArray(needs) ? needs.filter((one) => typeof one === "string") : [],
    host: typeof host === "string" ? host : null,
    at: typeof at === "string" && Number.isFinite(Date.parse(at)) ? at : null,
  };
}

/** `host`: the machine whose worker made it, and has the cause of a failure in its log. Absent: an older Holdfast wrote it. */
export type FleetAttempt = Attempt & { readonly host?: string };

/** undefined: the text is not of an attempt. */
export function parseAttempt(text: string | undefined): FleetAttempt | undefined {
  const { failures, startedAt, endedAt, entries, host } = asRecord(parseJson(text ?? ""));
  if (typeof failures !== "number" || typeof startedAt !== "string") return undefined;
  return {
    failures,
    startedAt,
    endedAt: typeof endedAt === "string" ? endedAt : null,
    entries: typeof entries === "number" ? entries : null,
    ...(typeof host === "string" ? { host } : {}),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The key of an entry: several stores can share a queue. */
export function entryKey(store: string, run: string): string {
  return `${store}/${run}`;
}

export function parseEntryKey(key: string): { readonly store: string; readonly run: string } {
  const at = key.lastIndexOf("/");
  return { store: key.slice(0, Math.max(0, at)), run: key.slice(at + 1) };
}

/** A worker that has this label has a clone whose runs are in the store. */
export function storeLabel(store: string): string {
  return `store:${store}`;
}

export function jobOf(store: string, run: string, submission: Submission): Job {
  const { queue, repository, priority, needs, host } = submission;
  const all = new Set([...needs, ...(host === null ? [] : [hostLabel(host)]), storeLabel(store)]);
  return { run: entryKey(store, run), queue, repository, priority, needs: [...all].toSorted() };
}

export function hostLabel(host: string): string {
  return `host:${host}`;
}

/** A submitted run, as the store has it. */
export interface FleetRun {
  readonly run: string;
  readonly status: RunStatus;
  /** Number of journal entries. */
  readonly entries: number;
  readonly submission: Submission;
  /** The last attempt of any worker. */
  readonly attempt: FleetAttempt | undefined;
}

export type FleetVerdict =
  | Verdict
  /** Nothing is left to do for workers. */
  | { readonly kind: "end"; readonly why: string };

/** Whether a worker continues the run now, later, or only after a user or another process has done something. `now`: by the clock of the store. */
export function judgeRun(run: FleetRun, now: number): FleetVerdict {
  const verdict = byStatus(run, now);
  if (verdict.kind === "end") return verdict;
  // The first attempt whose worker died costs no delay: another worker continues at once.
  const { attempt } = run;
  const counts = attempt !== undefined && (attempt.endedAt !== null || attempt.failures > 1);
  return afterAttempt(verdict, run, counts ? attempt : undefined, now);
}

function byStatus({ run, status, submission }: FleetRun, now: number): FleetVerdict {
  switch (status.kind) {
    case "running":
      return { kind: "skip", why: `process ${status.holder.pid} on ${status.holder.host} executes it` };
    case "queued":
      if (status.holder !== null) return { kind: "skip", why: `process ${status.holder.pid} executes it` };
      return submission.at !== null && Date.parse(submission.at) > now
        ? { kind: "wait", until: submission.at, why: "it was submitted for that time" }
        : { kind: "start", why: "it was submitted" };
    case "crashed":
      return { kind: "start", why: "its process died" };
    case "paused":
      return status.started
        ? { kind: "skip", why: `it is paused: holdfast submit ${run}` }
        : { kind: "skip", why: "its start was interrupted; repeat the command that submitted it" };
    case "waiting":
      return byWait(run, { ...status, due: status.until !== null && Date.parse(status.until) <= now });
    case "saved":
      return { kind: "end", why: "no workflow executes it" };
    case "done":
    case "failed":
    case "aborted":
      return { kind: "end", why: "it has ended" };
  }
}

/** What becomes of an entry. null: the run was removed, or taken out of the queue. */
export function planNext(run: FleetRun | null, now: number): Next {
  if (run === null) return { kind: "ended" };
  const verdict = judgeRun(run, now);
  switch (verdict.kind) {
    case "end":
      return { kind: "ended" };
    case "start":
      return { kind: "wake", at: 0 };
    case "wait":
      return { kind: "wake", at: Date.parse(verdict.until) };
    case "skip":
      return { kind: "signal" };
  }
}

/** Whether an attempt delays the next one, and so must be stored. */
export function keepsAttempt(attempt: Attempt, exit: Exit | null, status: RunStatus): boolean {
  return attempt.failures > 0 || exit === "held" || isPolled(status);
}

export type Correction =
  | { readonly kind: "submit"; readonly job: Job; readonly at: number | null }
  | { readonly kind: "signal"; readonly run: string }
  | { readonly kind: "wakeAt"; readonly run: string; readonly at: number }
  | { readonly kind: "cancel"; readonly run: string };

/**
 * What makes the queue agree with one store. `entries` were read before `runs`: a run and its submission are in the store before their entry.
 * The entry of a worker that works is left to that worker.
 */
export function planReconciliation(facts: {
  readonly store: string;
  readonly entries: readonly Entry[];
  /** The submitted runs that have not ended. */
  readonly runs: readonly FleetRun[];
  readonly now: number;
}): readonly Correction[] {
  const { store, now } = facts;
  const own = new Map(
    facts.entries.flatMap((entry) => (parseEntryKey(entry.run).store === store ? [[entry.run, entry]] : [])),
  );
  const known = new Set<string>();
  const corrections = facts.runs.flatMap((run): readonly Correction[] => {
    const job = jobOf(store, run.run, run.submission);
    const verdict = judgeRun(run, now);
    if (verdict.kind === "end") return [];
    known.add(job.run);
    const entry = own.get(job.run);
    if (entry?.state === "active") return [];
    const until = verdict.kind === "wait" ? Date.parse(verdict.until) : null;
    const submit = { kind: "submit", job, at: until } as const;
    // A run that waits for its user gets an entry when it can continue.
    if (entry === undefined) return verdict.kind === "skip" ? [] : [submit];
    if (!isSameJob(entry, job)) return [{ kind: "cancel", run: job.run }, submit];
    if (verdict.kind === "skip" || (entry.wakeAt !== null && entry.wakeAt <= now)) return [];
    if (until !== null)
      return entry.wakeAt === null || entry.wakeAt > until ? [{ kind: "wakeAt", run: job.run, at: until }] : [];
    // A time that was known passes by the clock of the queue. Anything else that lets the run continue is news.
    return entry.wakeAt === null || run.status.kind !== "waiting" ? [{ kind: "signal", run: job.run }] : [];
  });
  const gone = [...own.values()].filter(({ run, state }) => state === "waiting" && !known.has(run));
  return [...corrections, ...gone.map(({ run }) => ({ kind: "cancel", run }) as const)];
}

function isSameJob(entry: Job, job: Job): boolean {
  return (
    entry.queue === job.queue &&
    entry.repository === job.repository &&
    entry.priority === job.priority &&
    entry.needs.toSorted().join("\n") === job.needs.join("\n")
  );
}

/** How many attempts failed in a row. The one under way is not among them. */
export function failuresOf(
  run: Pick<FleetRun, "status" | "entries" | "attempt">,
  { state }: Pick<Entry, "state">,
): number {
  if (run.attempt === undefined) return 0;
  const failures = failuresNow(run, run.attempt);
  return state === "active" && run.attempt.endedAt === null ? Math.max(0, failures - 1) : failures;
}

/** Why an entry is not executed, and how often it failed; null: it is active, or its time has not come, and no attempt has failed. */
export function whyWaiting(
  entry: Entry,
  facts: QueueFacts & {
    readonly failures: number | null;
    /** The machine of the last attempt; null: it is not known. */
    readonly host?: string | null;
  },
): string | null {
  const { failures, status, host = null } = facts;
  const why = whyNotNow(entry, facts);
  if (failures === null || failures === 0 || (entry.state === "waiting" && status !== null && isHeld(status)))
    return why;
  if (failures >= MAX_FAILURES && entry.wakeAt === null && entry.state === "waiting")
    return exhaustedText(parseEntryKey(entry.run).run, failures);
  // The host of an active entry is that of the attempt under way.
  const where = host === null || entry.state === "active" ? "" : `, the last one on ${host}`;
  const failed = `${failuresText(failures)}${where}`;
  return why === null ? failed : `${failed}; ${why}`;
}

interface QueueFacts {
  readonly entries: readonly Entry[];
  readonly workers: readonly WorkerEntry[];
  readonly limits: DispatchLimits;
  readonly now: number;
  /** Of the entry's run; null: its store is not read here. */
  readonly status: RunStatus | null;
}

function whyNotNow(entry: Entry, facts: QueueFacts): string | null {
  const { entries, limits, now, status } = facts;
  if (entry.state === "active") return null;
  // The process of a worker that was killed, or one that a user started: the entry waits until it stops.
  if (status !== null && isHeld(status)) return `process ${status.holder.pid} on ${status.holder.host} executes it`;
  if (entry.wakeAt === null && status?.kind === "paused")
    return `it is paused: holdfast submit ${parseEntryKey(entry.run).run}`;
  if (entry.wakeAt === null)
    return status === null ? "its run waits for you, or another process executes it" : "its run waits for you";
  if (entry.wakeAt > now) return null;
  const workers = facts.workers.filter(({ draining }) => !draining);
  const lacks = lackOf(entry.needs, workers);
  if (lacks !== null) return lacks;
  const active = (kind: "queue" | "repository"): number =>
    entries.filter((one) => one.state === "active" && one[kind] === entry[kind]).length;
  if (active("queue") >= (limits.queues?.[entry.queue] ?? limits.perQueue ?? Infinity))
    return `the limit of queue ${entry.queue} is reached`;
  if (active("repository") >= (limits.repositories?.[entry.repository] ?? limits.perRepository ?? Infinity))
    return `the limit of repository ${entry.repository} is reached`;
  const full = Object.entries(limits.labels ?? {}).find(
    ([label, limit]) =>
      entry.needs.includes(label) &&
      entries.filter((one) => one.state === "active" && one.needs.includes(label)).length >= limit,
  );
  if (full !== undefined) return `the limit of ${full[0].replace(":", " ")} is reached`;
  const able = workers.filter(({ labels }) => entry.needs.every((need) => labels.includes(need)));
  return able.every(({ busy, slots }) => busy >= slots) ? "all slots are in use" : "a worker takes it soon";
}

/** What no worker has of all that a run needs; null: a worker has it. */
export function lackOf(needs: readonly string[], all: readonly WorkerEntry[]): string | null {
  const workers = all.filter(({ draining }) => !draining);
  if (workers.length === 0) return "no worker has joined";
  const lacks = workers.map(({ labels }) => needs.filter((need) => !labels.includes(need)));
  const [least = []] = lacks.toSorted((a, b) => a.length - b.length);
  return least.length === 0 ? null : `no worker has ${least.join(", ")}`;
}
