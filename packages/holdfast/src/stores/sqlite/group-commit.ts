import { asHoldfastError, isBusy, isCollision, losesTrust } from "./sqlite-errors.ts";
import type { Transactions } from "./transactions.ts";
import { HoldfastError } from "../../core/error.ts";

/** One write, inside a transaction. What `plan` throws refuses this job alone; what `apply` throws undoes the group. */
export interface Job<Plan, Result> {
  /** Reads and decides; changes nothing. */
  plan(): Plan;
  apply(plan: Plan): Result;
  /** How many rows of the log it writes, if that is all it does; absent for any other job. */
  readonly rowsOnly?: number;
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
  readonly rowsOnly: number | undefined;
  /** Returns how to tell the caller once the commit is durable. `refused` instead, when given, for one that refuses. */
  readonly attempt: (refused?: () => never) => () => void;
  readonly reject: (error: HoldfastError) => void;
}

class Doubt extends Error {}

function doubt(): never {
  throw new Doubt();
}

/** Longest stretch of commits without letting the event loop turn: timers, signals and input must get their share. */
const TURN_EVERY_MS = 10;

export function createGroupCommit(params: {
  readonly transactions: Transactions;
  /** Something is to be done before the next commit, in its transaction. */
  readonly isDue: () => boolean;
  readonly beforeCommit: () => void;
  /** In the same turn as the answers: whoever waits for one has not run yet. */
  readonly afterCommit: () => void;
  /** From now on every job is refused. */
  readonly onDistrust: () => void;
  readonly location: string;
  readonly busyMs: number;
}): GroupCommit {
  const { transactions, location } = params;
  let queue: Pending[] = [];
  let waiting = false;
  let lastTurn = 0;
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

  function flush(): void {
    waiting = false;
    const group = queue;
    queue = [];
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

  function commitTogether(group: Pending[]): "settled" | "busy" {
    if (broken !== undefined) {
      for (const job of group) job.reject(broken);
      return "settled";
    }
    let answers: readonly (() => void)[];
    try {
      answers = trust(group) ?? transact(group);
    } catch (error) {
      if (isBusy(error)) return "busy";
      if (error instanceof WorkFirst) return workFirst(group, error);
      return fail(group, error);
    }
    busySince = undefined;
    for (const answer of answers) answer();
    params.afterCommit();
    return "settled";
  }

  /**
   * Nobody else wrote, as a rule, so what is remembered is right, and looking would cost more than the write. It is safe
   * to presume so when only rows of the log are written: whoever changed anything a commit depends on has added a row,
   * ours then meets a taken position, and all is done again with open eyes. A refusal, too, is believed only then.
   */
  function trust(group: readonly Pending[]): readonly (() => void)[] | undefined {
    if (params.isDue() || !group.every((job) => job.rowsOnly !== undefined)) return undefined;
    const [first] = group;
    try {
      // One row is a transaction by itself.
      if (group.length === 1 && first?.rowsOnly === 1) return [first.attempt(doubt)];
    } catch (error) {
      if (error instanceof Doubt || isCollision(error)) return undefined;
      throw error;
    }
    transactions.beginTrusting();
    try {
      const answers = group.map((job) => job.attempt(doubt));
      transactions.commit();
      return answers;
    } catch (error) {
      transactions.rollback();
      if (error instanceof Doubt || isCollision(error)) return undefined;
      throw error;
    }
  }

  function transact(group: readonly Pending[]): readonly (() => void)[] {
    transactions.begin();
    try {
      const answers = group.map((job) => job.attempt());
      params.beforeCommit();
      transactions.commit();
      return answers;
    } catch (error) {
      transactions.rollback();
      throw error;
    }
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
      return new Promise((resolve, reject) => {
        function attempt(refused?: () => never): () => void {
          let plan;
          try {
            plan = job.plan();
          } catch (error) {
            if (!(error instanceof HoldfastError)) throw error;
            refused?.();
            return () => reject(error);
          }
          const result = job.apply(plan);
          return () => resolve(result);
        }
        queue.push({ attempt, reject, rowsOnly: job.rowsOnly });
        schedule();
      });
    },
    idle() {
      if (queue.length === 0) return Promise.resolve();
      return new Promise((resolve) => idlers.push(resolve));
    },
  };
}
