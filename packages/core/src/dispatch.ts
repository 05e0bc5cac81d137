/*
 * The contract of a dispatch: it knows which runs must be executed and when, and hands each to one worker at a time.
 *
 * A dispatch is no source of truth. It keeps names and times; what a run has done and must do next is in its journal, and the epoch of the run's
 * lease keeps a stale worker out. So a lost dispatch loses no run: submit all unfinished runs again.
 */

export interface Job {
  /** Also the key: a run has at most one entry, however often it is submitted. */
  readonly run: string;
  /** Runs that share one limit. Agents that use up the quota of one provider belong to one queue. */
  readonly queue: string;
  readonly repository: string;
  /** Higher first; of equal ones the older entry. */
  readonly priority: number;
  /** Labels that a worker must have, all of them: an agent it can start, a version of a workflow that it knows. */
  readonly needs: readonly string[];
}

/** What becomes of an entry when its work returns. An entry that waits holds no slot. */
export type Next =
  | { readonly kind: "ended" }
  /** Epoch milliseconds, by the clock of the database. */
  | { readonly kind: "wake"; readonly at: number }
  /** Only a signal continues it. */
  | { readonly kind: "signal" }
  /** This worker cannot execute the run. A worker with these labels can. */
  | { readonly kind: "needs"; readonly labels: readonly string[] };

/**
 * Executes a run until it ends or waits. The signal is aborted when the entry is cancelled or has gone to another worker; then the result is
 * ignored. After a crash of the worker the same job is executed again elsewhere.
 */
export type Work = (job: Job, signal: AbortSignal) => Promise<Next>;

export interface Entry extends Job {
  readonly state: "waiting" | "active";
  /** When a waiting entry becomes due, in epoch milliseconds. 0: it is due. null: when it is signalled. */
  readonly wakeAt: number | null;
  /** The worker of an active entry. */
  readonly worker: string | null;
}

export interface WorkerEntry {
  readonly id: string;
  readonly host: string;
  readonly labels: readonly string[];
  readonly slots: number;
  readonly busy: number;
  readonly version: string;
  readonly draining: boolean;
  /** By the clock of the database alone. */
  readonly heartbeatAgeMs: number;
}

export interface NewWorker {
  readonly labels: readonly string[];
  /** How many entries it executes at once, of all queues together. */
  readonly slots: number;
  /** For lists. Compatibility is a matter of labels. */
  readonly version: string;
}

export interface Membership {
  readonly id: string;
  /** Takes nothing new, waits until active work has returned, and leaves. */
  drain(): Promise<void>;
  /** Resolves when this process gets no work any more, although it has entries. Drain, so that others get them, and start a new process. */
  readonly failed: Promise<Error>;
}

/** How many entries may be active at once. All workers of a dispatch need the same limits. */
export interface DispatchLimits {
  readonly perQueue?: number;
  readonly perRepository?: number;
  /** Queues and repositories with a limit of their own. */
  readonly queues?: Readonly<Record<string, number>>;
  readonly repositories?: Readonly<Record<string, number>>;
  /** Of the entries that need a label, such as one of an agent, in whatever queue they are. */
  readonly labels?: Readonly<Record<string, number>>;
}

export interface Dispatch {
  /** "known": the run has an entry already, which stays as it is. `at`: not before this time. */
  submit(job: Job, at?: number): Promise<"submitted" | "known">;
  /** Removes the entry. false: there is none. */
  cancel(run: string): Promise<boolean>;
  /** Makes a waiting entry due. The work of an active one is repeated once after it has returned. false: there is no entry. */
  signal(run: string): Promise<boolean>;
  /** Sets when a waiting entry becomes due. false: there is none, or it is active and its work decides. */
  wakeAt(run: string, at: number): Promise<boolean>;
  /** In the order in which due entries are executed. */
  list(): Promise<readonly Entry[]>;
  workers(): Promise<readonly WorkerEntry[]>;
  join(worker: NewWorker, work: Work): Promise<Membership>;
  /** Aborts active work of this handle, waits until it has returned, and leaves. */
  close(): Promise<void>;
}

/**
 * Key in the store's metadata: how a run was submitted, as JSON. It is written before the first checkpoint of the run, so a submitted
 * run that can be executed can always be entered in a dispatch again. "": the run was taken out.
 */
export function submissionKey(run: string): string {
  return `submitted/${run}`;
}
