import type { Log } from "./log.ts";
import { asHoldfastError, isBusy, isCollision, losesTrust } from "./sqlite-errors.ts";
import type { Transactions } from "./transactions.ts";
import { HoldfastError } from "@holdfast/platform/error";

/** One write, inside a transaction. What `plan` throws refuses this job alone; what `apply` throws undoes the group. */
export interface Job<Plan, Result> {
  /** Reads and decides; changes nothing. */
  plan(): Plan;
  apply(plan: Plan): Result;
  /** How many rows of the log it writes, if that is all it does; absent for any other job. */
  readonly rowsOnly?: number | undefined;
}

/** Thrown by a job that wants to do long work without the write lock first; it is applied again afterwards. */
export class WorkFirst extends Error {
  readonly work: () => void;

  constructor(work: () => void) {
    super("long work to be done outside the transaction");
    this.work = work;
  }
}

export interface GroupCommit {
  /** Jobs commit in the order of these calls; those that wait together share one transaction and one sync. */
  submit<Plan, Result>(job: Job<Plan, Result>): Promise<Result>;
  /** Settles when everything submitted so far has. */
  idle(): Promise<void>;
}

interface Pending {
  readonly job: Job<unknown, unknown>;
  resolve(result: unknown): void;
  reject(error: HoldfastError): void;
  /** What to tell the caller once the commit is durable. */
  answer: Answer;
}

type Answer =
  | { readonly kind: "none" }
  | { readonly kind: "done"; readonly result: unknown }
  | { readonly kind: "refused"; readonly error: HoldfastError };

const NO_ANSWER: Answer = { kind: "none" };

class Doubt extends Error {}

/** Its `then` is a microtask at a fraction of the price of queueMicrotask, which tracks each one for async hooks. */
export const SETTLED = Promise.resolve();

/** Longest stretch of commits without letting the event loop turn: timers, signals and input must get their share. */
const TURN_EVERY_MS = 10;

export function createGroupCommit(params: {
  readonly transactions: Transactions;
  readonly log: Pick<Log, "gather" | "write" | "discard">;
  /** Something is to be done before the next commit, in its transaction. */
  readonly isDue: () => boolean;
  readonly beforeCommit: () => void;
  /**
   * In the same turn as the answers: whoever waits for one has not run yet. "within": not even the call that asked for
   * the commit has returned.
   */
  readonly afterCommit: (when: "within" | "after") => void;
  /** From now on every job is refused. */
  readonly onDistrust: () => void;
  readonly location: string;
  readonly busyMs: number;
}): GroupCommit {
  const { transactions, log, location } = params;
  let queue: Pending[] = [];
  let waiting = false;
  let lastTurn = 0;
  /** Nobody else has been saving: then waiting for company would cost more than it could bring. */
  let alone = true;
  /** A commit was made within the present call stack's turn, and no continuation has run since. */
  let sameTurn = false;
  let busySince: number | undefined;
  let broken: HoldfastError | undefined;
  const idlers: (() => void)[] = [];

  function schedule(): void {
    if (waiting) return;
    waiting = true;
    // nextTick comes after every continuation that is ready now, so savers that wake together are grouped together.
    if (performance.now() - lastTurn < TURN_EVERY_MS) process.nextTick(flush);
    else setImmediate(flushInTurn);
  }

  function flushInTurn(): void {
    lastTurn = performance.now();
    flush();
  }

  function newTurn(): void {
    sameTurn = false;
  }

  function commitAlone(pending: Pending): void {
    sameTurn = true;
    void SETTLED.then(newTurn);
    const group = [pending];
    if (commitTogether(group, "within") === "busy") waitForLock(group);
  }

  /** The commonest of all, one row of a saver that is alone: as `trust`, without the bookkeeping of a group. */
  function commitRow<Plan, Result>(job: Job<Plan, Result>): Promise<Result> {
    sameTurn = true;
    void SETTLED.then(newTurn);
    let result: Result;
    try {
      log.gather("single");
      result = job.apply(job.plan());
      log.write(transactions.writeTrusting);
    } catch (error) {
      log.discard();
      return commitAfter(job, error);
    }
    busySince = undefined;
    params.afterCommit("within");
    return Promise.resolve(result);
  }

  /** A refusal or a taken position is looked at with open eyes. Whatever else went wrong is not tried again: a sync may have failed. */
  function commitAfter<Plan, Result>(job: Job<Plan, Result>, error: unknown): Promise<Result> {
    return new Promise((resolve, reject) => {
      const group: Pending[] = [{ job, resolve, reject, answer: NO_ANSWER }];
      const inDoubt = error instanceof HoldfastError || isCollision(error);
      if ((inDoubt ? commitTogether(group, "within") : settleError(group, error)) === "busy") waitForLock(group);
    });
  }

  function mayCommitAlone(): boolean {
    if (sameTurn) alone = false;
    return alone && !waiting && performance.now() - lastTurn < TURN_EVERY_MS;
  }

  function flush(): void {
    waiting = false;
    const group = queue;
    queue = [];
    alone = group.length === 1;
    if (commitTogether(group) === "busy") waitForLock(group);
    if (queue.length === 0) for (const resolve of idlers.splice(0)) resolve();
  }

  function waitForLock(group: Pending[]): void {
    const now = performance.now();
    busySince ??= now;
    if (now - busySince > params.busyMs) {
      busySince = undefined;
      const error = new HoldfastError({
        code: "STORE_BUSY",
        message: `Another process kept the store ${location} locked for ${params.busyMs} ms`,
        hint: "Nothing was written. Try again; if it stays so, look for a stuck process that has the store open.",
        retry: "later",
        data: { location },
      });
      for (const job of group) job.reject(error);
      return;
    }
    queue = group.concat(queue);
    waiting = true;
    setTimeout(flushInTurn, 5 + Math.random() * 20);
  }

  function commitTogether(group: Pending[], when: "within" | "after" = "after"): "settled" | "busy" {
    if (broken !== undefined) {
      for (const job of group) job.reject(broken);
      return "settled";
    }
    try {
      if (!trust(group)) transact(group);
    } catch (error) {
      return settleError(group, error);
    }
    busySince = undefined;
    for (const pending of group) tell(pending);
    params.afterCommit(when);
    return "settled";
  }

  /**
   * Nobody else wrote, as a rule, so what is remembered is right, and looking would cost more than the write. It is safe
   * to presume so when only rows of the log are written: whoever changed anything a commit depends on has added a row,
   * ours then meets a taken position, and all is done again with open eyes. A refusal, too, is believed only then.
   */
  function trust(group: readonly Pending[]): boolean {
    if (params.isDue()) return false;
    for (const { job } of group) if (job.rowsOnly === undefined) return false;
    // One row is written at once, so if that fails nothing was learned from it.
    const single = group.length === 1 && group[0]?.job.rowsOnly === 1;
    try {
      log.gather(single ? "single" : "together");
      for (const pending of group) attempt(pending, "trusting");
      log.write(transactions.writeTrusting);
      return true;
    } catch (error) {
      if (single) log.discard();
      else transactions.rollback();
      if (error instanceof Doubt || isCollision(error)) return false;
      throw error;
    }
  }

  function transact(group: readonly Pending[]): void {
    transactions.begin();
    try {
      for (const pending of group) attempt(pending, "looking");
      params.beforeCommit();
      transactions.commit();
    } catch (error) {
      transactions.rollback();
      throw error;
    }
  }

  function attempt(pending: Pending, how: "trusting" | "looking"): void {
    const { job } = pending;
    let plan;
    try {
      plan = job.plan();
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      if (how === "trusting") throw new Doubt();
      pending.answer = { kind: "refused", error };
      return;
    }
    pending.answer = { kind: "done", result: job.apply(plan) };
  }

  function tell(pending: Pending): void {
    const { answer } = pending;
    switch (answer.kind) {
      case "done":
        pending.resolve(answer.result);
        return;
      case "refused":
        pending.reject(answer.error);
        return;
      case "none":
        throw new Error("a commit without an answer");
    }
  }

  function settleError(group: Pending[], error: unknown): "settled" | "busy" {
    if (isBusy(error)) return "busy";
    if (error instanceof WorkFirst) return workFirst(group, error);
    return fail(group, error);
  }

  function workFirst(group: Pending[], wish: WorkFirst): "settled" | "busy" {
    try {
      wish.work();
    } catch (error) {
      if (isBusy(error)) return "busy";
      return fail(group, error);
    }
    return commitTogether(group);
  }

  /** Nothing of the group was written. One member may be to blame, so each is tried by itself. */
  function fail(group: Pending[], error: unknown): "settled" | "busy" {
    if (losesTrust(error)) {
      broken = asHoldfastError(error, location);
      params.onDistrust();
    }
    if (group.length === 1 || broken !== undefined) {
      const reason = broken ?? asHoldfastError(error, location);
      for (const job of group) job.reject(reason);
      return "settled";
    }
    for (const [i, job] of group.entries()) {
      if (commitTogether([job]) === "busy") {
        waitForLock(group.slice(i));
        return "settled";
      }
    }
    return "settled";
  }

  return {
    submit(job) {
      const mayNow = mayCommitAlone();
      if (mayNow && job.rowsOnly === 1 && broken === undefined && !params.isDue()) return commitRow(job);
      return new Promise((resolve, reject) => {
        const pending: Pending = { job, resolve, reject, answer: NO_ANSWER };
        if (mayNow) commitAlone(pending);
        else {
          queue.push(pending);
          schedule();
        }
      });
    },
    idle() {
      if (queue.length === 0) return Promise.resolve();
      return new Promise((resolve) => idlers.push(resolve));
    },
  };
}
