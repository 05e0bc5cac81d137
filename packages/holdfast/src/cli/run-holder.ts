/** Handles runs that another process holds or prepares: waits for them, finds them and stops them. */
import { setTimeout as sleep } from "node:timers/promises";
import type { RunHandle } from "@holdfast/core/run-handle";
import type { Holder } from "@holdfast/core/status";
import { leaseHeld } from "@holdfast/core/store";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type ProcessIdentity, canSignal, isSuspended, processIdentity } from "@holdfast/platform/identity";
import type { StartingProcess } from "../announce-start.ts";
import type { Holdfast } from "../holdfast.ts";
import type { Shell } from "./command.ts";
import { issueNumber } from "./operands.ts";
import { escapeText } from "./output/text.ts";

/**
 * Another terminal or a hook may hold the run. A save takes milliseconds, so a short wait is better than a failure.
 * This waits in the CLI and not in the engine: Ctrl+C may end the wait, but must not cut off the work after it.
 */
export async function waitForRun(shell: Shell, handle: Pick<RunHandle, "id" | "holder">): Promise<void> {
  const began = performance.now();
  let notified = false;
  for (;;) {
    const holder = await handle.holder();
    if (holder?.alive !== "alive") return;
    const waited = performance.now() - began;
    if (waited > WAIT_MS) throw runHeld(leaseHeld(holder.lease));
    if (waited > NOTE_MS && !notified) {
      notified = true;
      shell.notify(`Waiting for ${handle.id}: held by ${holderText(holder.lease.owner)} …`);
    }
    await sleep(POLL_MS, undefined, { signal: shell.signal });
  }
}

/** Long enough for a save of a large worktree, short enough for a user at a prompt. */
export const WAIT_MS = 5000;
const NOTE_MS = 1000;
const POLL_MS = 50;

/** "holdfast issue-42 (pid 4711 on laptop)". */
export function holderText({ label, pid, host }: Pick<Holder, "label" | "pid" | "host">): string {
  return `${escapeText(label)} (pid ${pid} on ${escapeText(host)})`;
}

/** What a user can do about a process that is suspended and so handles no signal; null: it is not. */
export function suspendedText(owner: ProcessIdentity): string | null {
  if (!isSuspended(owner)) return null;
  return `Process ${owner.pid} is suspended and reacts when it continues: with \`fg\` in its terminal, or \`kill -CONT ${owner.pid}\`.`;
}

/** Adds what the user can do to the store's error, which only names the holder. */
export function runHeld(error: unknown): unknown {
  if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD") return error;
  return new HoldfastError({
    code: "LEASE_HELD",
    message: error.message,
    hint: "Wait until it ends, or stop it. `holdfast checkpoint --run NAME` saves into another run meanwhile.",
    retry: error.retry,
    data: error.data,
    cause: error,
  });
}

/** Does work that needs the run's lease, with the error of `runHeld`. */
export async function explainHolder<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw runHeld(error);
  }
}

/** The same for work of a handle, which then releases its lease. */
export async function releaseAfter<T>(handle: Pick<RunHandle, "close">, work: () => Promise<T>): Promise<T> {
  try {
    return await explainHolder(work);
  } finally {
    await handle.close();
  }
}

/** Processes that prepare the named run, by its id or its issue number; without a name, all of them. */
export async function findStarting(holdfast: Holdfast, typed: string | undefined): Promise<readonly StartingProcess[]> {
  const all = await holdfast.work.starting();
  if (typed === undefined) return all;
  const issue = issueNumber(typed);
  const [, named] = /^issue-(\d+)$/.exec(typed) ?? [];
  return all.filter(({ run, work }) => {
    if (run === typed) return true;
    if (work.kind !== "issue") return false;
    // The id is unknown until planning is done; the first run of an issue is named by its number.
    return work.number === issue || (run === null && String(work.number) === named);
  });
}

/** A name to show; before the record exists there may be no id. */
export function startingName({ run, work, workflow }: StartingProcess): string {
  if (run !== null) return run;
  return work.kind === "issue" ? `issue ${work.number}` : `a run of ${workflow}`;
}

/** The error for a command that needs a run's record. */
export function stillStarting(starting: StartingProcess, why: string): HoldfastError {
  const name = startingName(starting);
  const { work, run } = starting;
  const typed = run ?? (work.kind === "issue" ? String(work.number) : "");
  return usageError(
    `Process ${starting.pid} is still preparing ${name}: ${why}`,
    `Try again once it has started (\`holdfast status${typed === "" ? "" : ` ${typed}`}\`), or end it: \`holdfast stop${typed === "" ? "" : ` ${typed}`}\`.`,
    { pid: starting.pid, run },
  );
}

/**
 * Sends the processes what Ctrl+C would, and waits until each has exited or released the lease that it acquired
 * meanwhile. Returns the run that has a record; null: nothing was started.
 */
export async function stopStarting(
  shell: Shell,
  holdfast: Holdfast,
  found: readonly StartingProcess[],
): Promise<string | null> {
  const pids = new Set(found.map(({ pid }) => pid));
  let run = found.find((starting) => starting.run !== null)?.run ?? null;
  for (const pid of pids) interrupt(pid);
  for (;;) {
    // In this order, because an announcement is removed only when the lease is held.
    const prepared = (await holdfast.work.starting()).find(({ pid }) => pids.has(pid));
    const lease = (await holdfast.store.listLeases()).find(
      ({ owner }) => pids.has(owner.pid) && canSignal(owner, processIdentity()),
    );
    run = lease?.run ?? prepared?.run ?? run;
    const holder = lease === undefined ? undefined : await (await holdfast.run(lease.run)).holder();
    const works = holder !== undefined && holder.alive !== "dead" && pids.has(holder.lease.owner.pid);
    if (prepared === undefined && !works) break;
    await sleep(POLL_MS, undefined, { signal: shell.signal });
  }
  return run === null || (await holdfast.store.getRun(run)) === undefined ? null : run;
}

/**
 * A process that is suspended handles the signal only after SIGCONT, which has no effect on any other. The caller has just
 * checked that the pid still belongs to the same process.
 */
export function interrupt(pid: number): void {
  try {
    process.kill(pid, "SIGINT");
    process.kill(pid, "SIGCONT");
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ESRCH") return;
    throw new HoldfastError({
      code: "IO_FAILED",
      message: `Process ${pid}, which executes the run, could not be stopped`,
      hint: "It may belong to another user; press Ctrl+C in its terminal.",
      cause,
    });
  }
}
