/**
 * Decides which runs the worker starts now, which later, and which it leaves to the user or to another process. Pure: the
 * caller passes the runs, the time and the history of attempts.
 */
import type { WaitingFor } from "@holdfast/core/run";
import type { RunStatus } from "@holdfast/core/status";
import type { Exit } from "../cli/exit.ts";

/** An unfinished run of a repository that the worker looks after. */
export interface WorkRun {
  /** Root of the repository. */
  readonly repository: string;
  readonly run: string;
  readonly status: RunStatus;
  readonly priority: number;
  readonly createdAt: string;
  /** Number of journal entries. */
  readonly entries: number;
  /** SIGTERM ended its process, and nothing was written since. */
  readonly terminated: boolean;
  /** The user stopped its crashed process: a second Ctrl+C ends it at once. */
  readonly stopped: boolean;
  /** It was submitted: the workers of a queue execute it. */
  readonly submitted: boolean;
}

/** The last attempt of the worker to continue a run. It is stored before the process starts, so a kill leaves it open. */
export interface Attempt {
  /** Consecutive failures. An open attempt is counted in advance. */
  readonly failures: number;
  readonly startedAt: string;
  /** null: the worker did not see its end. */
  readonly endedAt: string | null;
  /** Number of journal entries at its end; null: not known. */
  readonly entries: number | null;
}

export type WorkDecision = { readonly repository: string; readonly run: string; readonly why: string } & (
  | { readonly kind: "start" }
  /** The worker starts it by itself. `until`: when; null: as soon as another run ends. */
  | { readonly kind: "wait"; readonly until: string | null }
  /** The worker does nothing unless its status changes. */
  | { readonly kind: "skip" }
);

export interface WorkFacts {
  readonly runs: readonly WorkRun[];
  readonly now: number;
  readonly history: ReadonlyMap<string, Attempt>;
  /** Keys of runs that a process of this worker continues or prepares. */
  readonly active: ReadonlySet<string>;
  /** By repository: how many runs may work at once, those of other processes included. null: no limit. */
  readonly limits: ReadonlyMap<string, number | null>;
}

/** Identifies a run of any repository. */
export function workKey({ repository, run }: { readonly repository: string; readonly run: string }): string {
  return `${repository}\0${run}`;
}

/** One decision for each run. Runs start by priority, then by age, until the limit of their repository is reached. */
export function planWork(facts: WorkFacts): readonly WorkDecision[] {
  const { runs, active, limits } = facts;
  const working = new Map<string, number>();
  const add = (repository: string): void => void working.set(repository, (working.get(repository) ?? 0) + 1);
  for (const run of runs) if (isWorking(run) || active.has(workKey(run))) add(run.repository);
  return runs.toSorted(inOrder).map((run): WorkDecision => {
    const place = { repository: run.repository, run: run.run };
    const decision: Verdict = active.has(workKey(run)) ? skip("the worker has started it") : decide(run, facts);
    if (decision.kind !== "start") return { ...place, ...decision };
    const limit = limits.get(run.repository) ?? null;
    const count = working.get(run.repository) ?? 0;
    if (limit !== null && count >= limit)
      return { ...place, kind: "wait", until: null, why: `${decision.why}; ${count} of ${limit} runs work already` };
    add(run.repository);
    return { ...place, ...decision };
  });
}

/** A worker that has joined a queue decides nothing about a run by itself. */
export function leaveToQueue({ repository, run, submitted }: WorkRun): WorkDecision {
  const why = submitted ? "`holdfast queue` shows when it continues" : `it was not submitted: holdfast submit ${run}`;
  return { repository, run, ...skip(why) };
}

function isWorking({ status }: WorkRun): boolean {
  return status.kind === "running" || status.kind === "queued";
}

function inOrder(a: WorkRun, b: WorkRun): number {
  return b.priority - a.priority || Date.parse(a.createdAt) - Date.parse(b.createdAt) || (a.run < b.run ? -1 : 1);
}

export type Verdict =
  | { readonly kind: "start"; readonly why: string }
  | { readonly kind: "wait"; readonly until: string; readonly why: string }
  | { readonly kind: "skip"; readonly why: string };

const skip = (why: string): Verdict => ({ kind: "skip", why });
const start = (why: string): Verdict => ({ kind: "start", why });

/** What the status alone allows, then what earlier attempts allow. */
function decide(run: WorkRun, { now, history }: WorkFacts): Verdict {
  return afterAttempt(byStatus(run), run, history.get(workKey(run)), now);
}

/** What earlier attempts allow. */
export function afterAttempt(
  verdict: Verdict,
  run: Pick<WorkRun, "run" | "status" | "entries">,
  attempt: Attempt | undefined,
  now: number,
): Verdict {
  if (verdict.kind !== "start" || attempt === undefined) return verdict;
  const failures = failuresNow(run, attempt);
  if (failures >= MAX_FAILURES) return skip(exhaustedText(run.run, failures));
  const last = Date.parse(attempt.endedAt ?? attempt.startedAt);
  const delay = Math.max(failures === 0 ? MIN_GAP_MS : backOffMs(failures), isPolled(run.status) ? POLL_MS : 0);
  // A time from the future comes from a wrong clock, and must not delay the run for longer than one delay.
  if (now - last >= delay || last > now) return verdict;
  const why = failures === 0 ? verdict.why : `${verdict.why}; ${failuresText(failures)}`;
  return { kind: "wait", until: new Date(last + delay).toISOString(), why };
}

export function failuresText(failures: number): string {
  return `${failures === 1 ? "1 attempt" : `${failures} attempts`} failed`;
}

export function exhaustedText(run: string, failures: number): string {
  return `it failed ${failures} times; to see why: holdfast resume ${run}`;
}

/** After this many consecutive failures only the user continues the run. */
export const MAX_FAILURES = 6;
const MIN_GAP_MS = 30_000;
const MAX_GAP_MS = 3_600_000;
/** How often the worker tries a run that waits for something without a known time. */
const POLL_MS = 5 * 60_000;
/** A run that works this long did not fail at once. */
const STABLE_MS = 10 * 60_000;

function backOffMs(failures: number): number {
  return Math.min(MIN_GAP_MS * 2 ** (failures - 1), MAX_GAP_MS);
}

/** Failures do not count if the run worked for long, or if another process has continued it since. */
export function failuresNow(run: Pick<WorkRun, "status" | "entries">, attempt: Attempt): number {
  if (attempt.entries !== null && attempt.entries !== run.entries) return 0;
  if (attempt.endedAt !== null || run.status.kind !== "crashed") return attempt.failures;
  const worked = Date.parse(run.status.holder.heartbeatAt) - Date.parse(attempt.startedAt);
  return worked >= STABLE_MS ? 0 : attempt.failures;
}

function byStatus({ run, status, terminated, stopped, submitted }: WorkRun): Verdict {
  if (submitted) return skip("it was submitted, and a worker that has joined the queue executes it");
  switch (status.kind) {
    case "running":
    case "queued":
      return skip(status.holder === null ? "it was submitted" : `process ${status.holder.pid} executes it`);
    case "crashed":
      if (stopped) return skip("you stopped it");
      return status.certain
        ? start("its process died")
        : skip(`its process is on ${status.holder.host}, which cannot be checked from here`);
    case "paused":
      if (terminated && status.started && status.reason === null) return start("its process was terminated");
      return skip(status.reason === null ? "it was stopped or never started" : "it is paused");
    case "waiting":
      return byWait(run, status);
    case "saved":
      return skip("no workflow executes it");
    case "done":
    case "failed":
    case "aborted":
      return skip("it has ended");
  }
}

/** Whether the worker continues a run that waits like this, now or at its time. */
export function endsByItself({ for: what, question }: Extract<RunStatus, { readonly kind: "waiting" }>): boolean {
  return question === null && WAIT_ENDS[what] === "itself";
}

export function byWait(run: string, status: Extract<RunStatus, { readonly kind: "waiting" }>): Verdict {
  const { for: what, until, due, question } = status;
  if (question !== null) return skip(`it waits for your answer: holdfast approve ${run}`);
  const ends = WAIT_ENDS[what];
  if (ends === "user") return skip(`it waits for ${WAITS_FOR[what]}: holdfast resume ${run}`);
  const why = `it waits for ${WAITS_FOR[what]}`;
  if (until === null || due) return start(why);
  return { kind: "wait", until, why };
}

/** Whether a wait ends by itself, or only by the user. */
const WAIT_ENDS: Readonly<Record<WaitingFor, "itself" | "user">> = {
  you: "user",
  budget: "user",
  session: "user",
  quota: "itself",
  provider: "itself",
  forge: "itself",
  ci: "itself",
  disk: "itself",
};

const WAITS_FOR: Readonly<Record<WaitingFor, string>> = {
  you: "you",
  budget: "a higher budget",
  session: "its next session",
  quota: "quota",
  provider: "the provider",
  forge: "the forge",
  ci: "CI",
  disk: "disk space",
};

export function isPolled(status: RunStatus): boolean {
  return status.kind === "waiting" && status.until === null;
}

/** The attempt to store before the process starts. */
export function openAttempt(
  run: Pick<WorkRun, "status" | "entries">,
  earlier: Attempt | undefined,
  now: number,
): Attempt {
  const failures = earlier === undefined ? 0 : failuresNow(run, earlier);
  return { failures: failures + 1, startedAt: new Date(now).toISOString(), endedAt: null, entries: null };
}

/**
 * The attempt after its process exited. `exit`: null if a signal killed it. A run that another process holds, or that
 * the worker itself stopped, has not failed.
 */
export function closeAttempt(
  attempt: Attempt,
  end: { readonly exit: Exit | null; readonly entries: number | null; readonly now: number },
): Attempt {
  const lasted = end.now - Date.parse(attempt.startedAt);
  const before = lasted >= STABLE_MS ? 0 : attempt.failures - 1;
  return {
    failures: end.exit === null || FAILS[end.exit] === "failed" ? before + 1 : FAILS[end.exit] === "same" ? before : 0,
    startedAt: attempt.startedAt,
    endedAt: new Date(end.now).toISOString(),
    entries: end.entries,
  };
}

const FAILS: Readonly<Record<Exit, "failed" | "same" | "none">> = {
  done: "none",
  waiting: "none",
  failed: "failed",
  usage: "failed",
  nothing: "failed",
  needs_you: "failed",
  corrupt: "failed",
  diverged: "failed",
  held: "same",
  interrupted: "same",
  terminated: "same",
};

/** Key in the store's metadata: the epoch of the lease whose process got Ctrl+C, or whose terminal was closed. */
export function stoppedKey(run: string): string {
  return `stopped/${run}`;
}

/** Key in the store's metadata: how many entries the run had when SIGTERM ended its process. */
export function terminatedKey(run: string): string {
  return `terminated/${run}`;
}

/**
 * The number of journal entries that the worker saw. `resume` refuses if the run has changed since: the user may have
 * paused or answered it in the meantime.
 */
export const EXPECTED_ENTRIES_VARIABLE = "HOLDFAST_EXPECTED_ENTRIES";

/** "yes": a worker of a queue started the process, because the run was submitted. */
export const SUBMITTED_VARIABLE = "HOLDFAST_SUBMITTED";
