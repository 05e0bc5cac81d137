/**
 * The local worker: looks at the runs of its repositories again and again, and continues those that crashed, that were
 * terminated, or whose wait is over. Each run gets a process of its own, which checks consent and acquires the lease as
 * `holdfast resume` does. A kill of the worker at any point therefore loses nothing and starts nothing twice.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isEnded } from "@holdfast/core/run";
import { openParamsOf } from "../config/effective-config.ts";
import { createConsent } from "../cli/consent.ts";
import { EXITS, type Exit } from "../cli/exit.ts";
import type { Page } from "../cli/output/page.ts";
import type { Holdfast } from "../holdfast.ts";
import {
  type Attempt,
  type WorkDecision,
  type WorkRun,
  EXPECTED_ENTRIES_VARIABLE,
  closeAttempt,
  openAttempt,
  planWork,
  stoppedKey,
  terminatedKey,
  workKey,
} from "./plan-work.ts";
import { type WorkerActivity, countStatuses } from "./worker-health.ts";
import type { WorkerRepository, WorkerState } from "./worker-state.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** The unfinished runs of one repository. */
export interface RepositoryView extends WorkerRepository {
  /** Why its runs cannot be read; null: they can. */
  readonly problem: string | null;
  /** How many runs may work at once (`loops.max`). */
  readonly limit: number | null;
  readonly runs: readonly WorkRun[];
}

export interface LookParams {
  readonly env: Env;
  readonly page: Page;
}

/** Reads a repository and changes nothing. A repository that is gone or whose store is damaged is a problem, not an error. */
export async function lookAt(repository: WorkerRepository, params: LookParams): Promise<RepositoryView> {
  const empty = { ...repository, limit: null, runs: [] };
  if (!existsSync(repository.root)) return { ...empty, problem: "the directory is gone" };
  try {
    await using holdfast = await openForReading(repository, params);
    if (holdfast === null) return { ...empty, problem: null };
    const found = (await holdfast.statuses()).filter(({ status }) => !isEnded(status));
    const runs = await Promise.all(
      found.map(async ({ run, status, priority, submitted }): Promise<WorkRun> => ({
        repository: repository.root,
        run: run.id,
        status,
        priority,
        createdAt: run.createdAt,
        entries: run.entries,
        terminated: (await holdfast.store.getMeta(terminatedKey(run.id))) === String(run.entries),
        stopped:
          status.kind === "crashed" &&
          (await holdfast.store.getMeta(stoppedKey(run.id))) === String(status.holder.epoch),
        submitted,
      })),
    );
    return { ...repository, problem: null, limit: holdfast.work.loops.max, runs };
  } catch (error) {
    return { ...empty, problem: messageOf(error) };
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Only settings with the user's consent are in force, as in every command. null: the repository has no store yet. */
async function openForReading({ root, store }: WorkerRepository, { env, page }: LookParams): Promise<Holdfast | null> {
  const consent = createConsent({
    cwd: root,
    env,
    storeFlag: store ?? undefined,
    noConfig: false,
    trustFlag: false,
    lenient: true,
    notify: () => undefined,
    isQuiet: true,
    warn: () => undefined,
    page,
    confirm: async () => "cannot_ask",
  });
  const { config } = await consent.settings();
  const { openHoldfast } = await import("../open.ts");
  try {
    return await openHoldfast({ cwd: root, ...openParamsOf(config), create: false, readOnly: true });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "STORE_ABSENT") return null;
    throw error;
  }
}

/** The decisions about all runs of these repositories. */
export function planViews(
  views: readonly RepositoryView[],
  params: Pick<Parameters<typeof planWork>[0], "history" | "active" | "now">,
): readonly WorkDecision[] {
  return planWork({
    ...params,
    runs: views.flatMap(({ runs }) => runs),
    limits: new Map(views.map(({ root, limit }) => [root, limit])),
  });
}

export type WorkerEvent =
  | { readonly kind: "repository"; readonly repository: string; readonly problem: string | null }
  | WorkDecision
  | { readonly kind: "ended"; readonly repository: string; readonly run: string; readonly exit: Exit | null }
  /** The worker has joined a queue. */
  | ({ readonly kind: "joined" } & JoinedWorker)
  /** Errors of background work, which is tried again. */
  | { readonly kind: "problem"; readonly problem: string }
  /** Takes no new run; its runs save, and go to other workers. */
  | { readonly kind: "draining"; readonly runs: number }
  | { readonly kind: "left" }
  /** The health endpoint answers at this address. */
  | { readonly kind: "health"; readonly url: string };

/** For logs: "error" needs a user, "warn" may. */
export function levelOf(event: WorkerEvent): "info" | "warn" | "error" {
  switch (event.kind) {
    case "repository":
      return event.problem === null ? "info" : "error";
    case "problem":
      return "warn";
    case "ended":
      return event.exit === null ? "warn" : EXIT_LEVELS[event.exit];
    case "start":
    case "wait":
    case "skip":
    case "joined":
    case "draining":
    case "left":
    case "health":
      return "info";
  }
}

const EXIT_LEVELS: Readonly<Record<Exit, ReturnType<typeof levelOf>>> = {
  done: "info",
  failed: "error",
  usage: "error",
  nothing: "info",
  needs_you: "warn",
  held: "info",
  corrupt: "error",
  waiting: "info",
  diverged: "error",
  interrupted: "info",
  terminated: "info",
};

export interface JoinedWorker {
  readonly worker: string;
  /** Where the queue is, without a password. */
  readonly dispatch: string;
  readonly slots: number;
  readonly labels: readonly string[];
}

interface WorkerParams extends LookParams {
  readonly state: WorkerState;
  /** null: those of the list, which is read again each time. */
  readonly repositories: readonly WorkerRepository[] | null;
  /** Look once, and return when the started runs have ended. */
  readonly once: boolean;
  /** The longest time between two looks. */
  readonly lookMs: number;
  readonly activity: WorkerActivity;
  readonly signal: AbortSignal;
  readonly emit: (event: WorkerEvent) => void;
  /** Whether the processes of runs may print their results to this process's output. */
  readonly inherits: boolean;
}

/**
 * Works until the signal, or once. After the signal it sends SIGTERM to the processes that it started, and returns when
 * they have saved their runs. The next worker continues these runs.
 */
export async function runWorker(params: WorkerParams): Promise<void> {
  const { state, signal, once, emit, activity, lookMs } = params;
  const history = new Map(state.history());
  const active = new Map<string, { readonly child: ChildProcess; readonly ended: Promise<void> }>();
  const reported = new Map<string, string>();
  const stop = (): void => {
    activity.draining = true;
    for (const { child } of active.values()) child.kill("SIGTERM");
  };
  signal.addEventListener("abort", stop, { once: true });

  /** Emits what changed since the last look. */
  const report = (event: Extract<WorkerEvent, { readonly kind: "repository" }> | WorkDecision): void => {
    const key = event.kind === "repository" ? event.repository : workKey(event);
    const text = JSON.stringify(event);
    if (reported.get(key) === text) return;
    reported.set(key, text);
    if (event.kind !== "repository" || event.problem !== null) emit(event);
  };

  /** Stores the attempts. A full disk must not end the worker, and with it the runs that it started. */
  const save = (): boolean => {
    try {
      state.saveHistory(history);
      return true;
    } catch (error) {
      report({ kind: "repository", repository: state.directory, problem: messageOf(error) });
      return false;
    }
  };
  const listed = (): readonly WorkerRepository[] => {
    try {
      return state.repositories();
    } catch (error) {
      report({ kind: "repository", repository: state.directory, problem: messageOf(error) });
      return [];
    }
  };

  const begin = (run: WorkRun, repository: WorkerRepository): void => {
    const key = workKey(run);
    const earlier = history.get(key);
    const attempt = openAttempt(run, earlier, Date.now());
    history.set(key, attempt);
    // Stored first: a kill right after the start must not forget the attempt.
    if (!save()) {
      if (earlier === undefined) history.delete(key);
      else history.set(key, earlier);
      return;
    }
    const child = startResume(run, repository, params);
    const ended = (async () => {
      const exit = await exitOf(child);
      const after = (await lookAt(repository, params)).runs.find((one) => one.run === run.run);
      history.set(key, closeAttempt(attempt, { exit, entries: after?.entries ?? null, now: Date.now() }));
      active.delete(key);
      activity.busy = active.size;
      reported.delete(key);
      save();
      emit({ kind: "ended", repository: run.repository, run: run.run, exit });
    })();
    active.set(key, { child, ended });
    activity.busy = active.size;
  };

  for (;;) {
    const repositories = params.repositories ?? listed();
    const views: RepositoryView[] = [];
    for (const repository of repositories) views.push(await lookAt(repository, params));
    if (signal.aborted) break;
    activity.lookedAt = performance.now();
    activity.problems = views.filter(({ root }) => existsSync(root)).flatMap(problemText);
    activity.runs = countStatuses(views.flatMap(({ runs }) => runs.map(({ status }) => status)));
    for (const { root, problem } of views) report({ kind: "repository", repository: root, problem });
    forgetEnded(history, views);
    const decisions = planViews(views, { history, active: new Set(active.keys()), now: Date.now() });
    for (const decision of decisions) {
      if (!active.has(workKey(decision))) report(decision);
      const view = views.find(({ root }) => root === decision.repository);
      const run = view?.runs.find((one) => one.run === decision.run);
      if (decision.kind === "start" && view !== undefined && run !== undefined) begin(run, view);
    }
    if (once) break;
    await pause({
      ms: pauseMs(decisions, Date.now(), lookMs),
      signal,
      ended: [...active.values()].map(({ ended }) => ended),
    });
    if (signal.aborted) break;
  }
  await Promise.all([...active.values()].map(({ ended }) => ended));
  signal.removeEventListener("abort", stop);
}

function problemText({ root, problem }: RepositoryView): readonly string[] {
  return problem === null ? [] : [`cannot look at ${root}: ${problem}`];
}

/** Attempts of runs that ended or were removed are not needed any more. */
function forgetEnded(history: Map<string, Attempt>, views: readonly RepositoryView[]): void {
  const known = new Set(views.flatMap(({ runs }) => runs.map(workKey)));
  const readable = views.filter(({ problem }) => problem === null).map(({ root }) => `${root}\0`);
  for (const key of history.keys())
    if (!known.has(key) && readable.some((prefix) => key.startsWith(prefix))) history.delete(key);
}

/** Until the next run is due, but never longer than a user would wait for a crashed run to continue. */
function pauseMs(decisions: readonly WorkDecision[], now: number, lookMs: number): number {
  const times = decisions.flatMap((one) =>
    one.kind === "wait" && one.until !== null ? [Date.parse(one.until) - now] : [],
  );
  return Math.max(MIN_MS, Math.min(lookMs, ...times));
}

const MIN_MS = 100;

async function pause(params: {
  readonly ms: number;
  readonly signal: AbortSignal;
  readonly ended: readonly Promise<void>[];
}): Promise<void> {
  const waiting = new AbortController();
  const signal = AbortSignal.any([params.signal, waiting.signal]);
  await Promise.race([sleep(params.ms, undefined, { signal }).catch(() => undefined), ...params.ended]);
  waiting.abort();
}

/**
 * Starts `holdfast resume` in its own session, so that Ctrl+C in the worker's terminal does not reach it: the worker
 * sends SIGTERM, and the run counts as terminated, not as stopped by the user.
 */
export function startResume(
  run: Pick<WorkRun, "run" | "entries">,
  repository: WorkerRepository,
  { env, inherits }: Pick<WorkerParams, "env" | "inherits">,
): ChildProcess {
  const [entry = ""] = process.argv.slice(1);
  const store = repository.store === null ? [] : ["--store", repository.store];
  const args = ["resume", run.run, "--quiet", "--cwd", repository.root, ...store];
  const output = inherits ? "inherit" : "ignore";
  return spawn(process.execPath, [...process.execArgv, entry, ...args], {
    cwd: repository.root,
    env: { ...env, [EXPECTED_ENTRIES_VARIABLE]: String(run.entries) },
    detached: true,
    stdio: ["ignore", output, output],
  });
}

/** null: a signal killed it, or it could not be started. */
export function exitOf(child: ChildProcess): Promise<Exit | null> {
  return new Promise((resolve) => {
    child.once("error", () => resolve(null));
    child.once("exit", (status) => resolve(EXIT_KINDS.find((kind) => EXITS[kind].status === status) ?? null));
  });
}

// The keys of a constant record are exactly those of its type.
const EXIT_KINDS = Object.keys(EXITS) as readonly Exit[];
