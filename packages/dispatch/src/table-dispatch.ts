/* The dispatch over a database and a delivery. The database decides; the delivery brings each turn to the process of its worker. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Dispatch, DispatchLimits, Job, Membership, NewWorker, Next, Work } from "@holdfast/core/dispatch";
import { checkArgument } from "@holdfast/core/options";
import type { Driver, ReadTransaction, WriteTransaction } from "@holdfast/core/store-sql/driver";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { processIdentity, randomId } from "@holdfast/platform/identity";
import {
  type Current,
  EXCLUSIVE,
  type OwnWorker,
  type Turn,
  applyPlan,
  beat,
  delayEntry,
  deleteEntry,
  finishTurn,
  insertEntry,
  readCurrent,
  readEntries,
  readJob,
  readPlan,
  readTurns,
  readWorkers,
  releaseTurns,
  removeWorker,
  signalEntry,
  timeOf,
} from "./tables.ts";

export interface Delivery {
  /** Begins to receive. Returns the address of this process, which no other process has or will have. */
  start(execute: (turn: string) => Promise<void>): Promise<string>;
  /** Brings a turn to its address. Is repeated for the same turn. */
  deliver(turn: Turn): Promise<void>;
  /** Removes what is left of turns and processes that are gone. */
  tidy(readCurrent: () => Promise<Current>): Promise<void>;
  stop(): Promise<void>;
}

export interface DispatchParams {
  readonly limits?: DispatchLimits;
  readonly timings?: Partial<Timings>;
  /** Gets the errors of background work, which is tried again. */
  readonly onProblem?: (error: unknown) => void;
}

export interface Timings {
  /** How often a process looks for work. */
  readonly lookMs: number;
  readonly heartbeatMs: number;
  /** A worker whose heartbeat is older is dead. */
  readonly deadMs: number;
  readonly tidyMs: number;
}

/** After this many deliveries in a row that throw, one look each, this process cannot receive any more. */
const MOST_FAILED = 10;

const TIMINGS: Timings = { lookMs: 1000, heartbeatMs: 5000, deadMs: 30_000, tidyMs: 60_000 };

interface Member {
  readonly worker: NewWorker & { readonly id: string };
  readonly work: Work;
  drained: Promise<void> | null;
}

interface Execution {
  readonly controller: AbortController;
  readonly done: Promise<void>;
}

export function createDispatch(driver: Driver, delivery: Delivery, params: DispatchParams): Dispatch {
  const { limits = {}, timings = {}, onProblem = () => {} } = params;
  const { lookMs, heartbeatMs, deadMs, tidyMs } = { ...TIMINGS, ...timings };
  const { host } = processIdentity();
  const members = new Map<string, Member>();
  const executions = new Map<string, Execution>();
  /** Since when turns that this process has passed on are known to it. */
  const delivered = new Map<string, number>();
  /** How many deliveries have thrown since the last one that did not. */
  let failures = 0;
  let fail = (_error: Error): void => {};
  const failed = new Promise<Error>((resolve) => (fail = resolve));
  let address: Promise<string> | undefined;
  let looking: Promise<void> | undefined;
  let closing = false;
  let closed: Promise<void> | undefined;
  let beatAt = -Infinity;
  /** Since when each heartbeat of this process was in time. */
  let punctualSince = elapsed();
  let tidiedAt = elapsed();
  let poke = (): void => {};

  async function read<T>(work: (tx: ReadTransaction, now: number) => Promise<T>): Promise<T> {
    try {
      return await driver.read(async (tx) => work(tx, await timeOf(driver, tx)));
    } catch (error) {
      throw driver.toError(error);
    }
  }

  /** After a lost answer the work is done again: every change here can be repeated. */
  async function write<T>(work: (tx: WriteTransaction, now: number) => Promise<T>): Promise<T> {
    try {
      return await driver.write(
        EXCLUSIVE,
        async (tx) => work(tx, await timeOf(driver, tx)),
        async () => "repeat",
      );
    } catch (error) {
      throw driver.toError(error);
    }
  }

  async function change(work: (tx: WriteTransaction) => Promise<boolean>): Promise<boolean> {
    const changed = await write(work);
    poke();
    return changed;
  }

  async function look(own: string): Promise<void> {
    // Work that begins during this look may belong to a turn that it has not read.
    const begun = [...executions];
    const seen = await read(async (tx, now) => ({
      turns: await readTurns(tx),
      plan: await readPlan(tx, now, { limits, deadMs, punctual: false }),
    }));
    let { turns } = seen;
    let assigned: ReadonlySet<string> = new Set();
    if (elapsed() - beatAt >= heartbeatMs || seen.plan.assign.length > 0) {
      const made = await write(async (tx, now) => {
        let isLate = false;
        for (const member of members.values()) isLate = !(await beat(tx, now, rowOf(member, own), deadMs)) || isLate;
        const punctual = !isLate && elapsed() - punctualSince >= deadMs;
        const plan = await readPlan(tx, now, { limits, deadMs, punctual });
        return { isLate, assigned: applyPlan(tx, plan), turns: await readTurns(tx) };
      });
      beatAt = elapsed();
      if (made.isLate) punctualSince = beatAt;
      ({ turns, assigned } = made);
    }
    const current = new Set(turns.map(({ turn }) => turn));
    for (const [turn, { controller }] of begun) if (!current.has(turn)) controller.abort();
    for (const turn of delivered.keys()) if (!current.has(turn)) delivered.delete(turn);
    await deliverAll(turns, (turn) => turn.address === own || assigned.has(turn.turn));
    await releaseLost(turns.filter((turn) => turn.address === own).map(({ turn }) => turn));
    if (elapsed() - tidiedAt < tidyMs) return;
    tidiedAt = elapsed();
    await delivery.tidy(() => read(readCurrent));
  }

  /** The process that assigns a turn passes it on. If it dies before, the worker's own process does. */
  async function deliverAll(turns: readonly Turn[], isOurs: (turn: Turn) => boolean): Promise<void> {
    for (const turn of turns) {
      if (delivered.has(turn.turn) || !isOurs(turn)) continue;
      try {
        await delivery.deliver(turn);
      } catch (error) {
        failures += 1;
        if (failures === MOST_FAILED) fail(deliveryError(error));
        throw error;
      }
      failures = 0;
      delivered.set(turn.turn, elapsed());
    }
  }

  function deliveryError(cause: unknown): HoldfastError {
    return new HoldfastError({
      code: "IO_FAILED",
      message: `The queue in ${driver.location} brings no work to this process: ${cause instanceof Error ? cause.message : String(cause)}`,
      hint: "Start the worker again. It creates tables that are missing.",
      retry: "later",
      cause,
    });
  }

  /** The delivery may lose a turn with a connection. It then becomes another turn. */
  async function releaseLost(own: readonly string[]): Promise<void> {
    const isLost = (turn: string): boolean =>
      !executions.has(turn) && elapsed() - (delivered.get(turn) ?? Infinity) > deadMs;
    if (own.some(isLost)) await write(async (tx) => releaseTurns(tx, own.filter(isLost)));
  }

  async function lookUntilLeft(own: string): Promise<void> {
    while (members.size > 0) {
      let isPoked = false;
      const pause = new AbortController();
      poke = () => {
        isPoked = true;
        pause.abort();
      };
      await look(own).catch(onProblem);
      if (!isPoked) await sleep(lookMs, undefined, { signal: pause.signal }).catch(() => {});
    }
    looking = undefined;
  }

  function rowOf({ worker, drained }: Member, own: string): OwnWorker {
    return { ...worker, host, address: own, draining: drained !== null };
  }

  /** Called by the delivery, perhaps several times for one turn. */
  function execute(turn: string): Promise<void> {
    const known = executions.get(turn);
    if (known !== undefined) return known.done;
    const controller = new AbortController();
    const done = executeOnce(turn, controller.signal).finally(() => {
      executions.delete(turn);
      poke();
    });
    executions.set(turn, { controller, done });
    return done;
  }

  async function executeOnce(turn: string, signal: AbortSignal): Promise<void> {
    const found = await insist(() => read((tx) => readJob(tx, turn)));
    const member = members.get(found?.worker ?? "");
    // Cancelled, taken over, or released when the worker has drained.
    if (found === null || member === undefined || member.drained !== null) return;
    const next = await member
      .work(found.job, signal)
      .then(checkNext)
      .catch((error: unknown) => {
        onProblem(error);
        return { kind: "failed" } as const;
      });
    await insist(() => write((tx, now) => finishTurn(tx, now, turn, next)));
  }

  /**
   * Repeats until the database answers. When this handle is closed, or its workers leave and the others see them as dead by now, it ends: the
   * entry goes to another worker then.
   */
  async function insist<T>(work: () => Promise<T>): Promise<T | null> {
    for (const begun = elapsed(); ;) {
      try {
        return await work();
      } catch (error) {
        onProblem(error);
        const isLeaving = [...members.values()].every(({ drained }) => drained !== null);
        if (closing || (isLeaving && elapsed() - begun > deadMs)) return null;
      }
      await sleep(lookMs);
    }
  }

  async function join(worker: NewWorker, work: Work): Promise<Membership> {
    checkWorker(worker);
    checkArgument("join", "work", work, "function");
    address ??= delivery.start(execute);
    const own = await address;
    const id = `${host}-${randomId().slice(0, 12)}`;
    const member: Member = { worker: { ...worker, id }, work: async (...given) => work(...given), drained: null };
    // Before its row is there: another process may assign a turn to it at once.
    members.set(id, member);
    try {
      await write((tx, now) => beat(tx, now, rowOf(member, own), deadMs));
    } catch (error) {
      members.delete(id);
      throw error;
    }
    if (looking === undefined) {
      punctualSince = elapsed();
      looking = lookUntilLeft(own);
    } else poke();
    return { id, drain: () => drain(member, own), failed };
  }

  function drain(member: Member, own: string): Promise<void> {
    member.drained ??= leave(member, own);
    return member.drained;
  }

  async function leave(member: Member, own: string): Promise<void> {
    const { id } = member.worker;
    const begun = await write(async (tx, now) => {
      await beat(tx, now, { ...rowOf(member, own), draining: true }, deadMs);
      const mine = (await readTurns(tx)).filter(({ worker }) => worker === id).map(({ turn }) => turn);
      releaseTurns(
        tx,
        mine.filter((turn) => !executions.has(turn)),
      );
      return mine.filter((turn) => executions.has(turn));
    });
    await Promise.all(begun.map((turn) => executions.get(turn)?.done));
    // Before its row is removed: a look writes the rows of all members.
    members.delete(id);
    poke();
    await write(async (tx) => removeWorker(tx, id));
  }

  return {
    async submit(job, at) {
      checkJob(job);
      if (at !== undefined) checkTime("submit", at);
      const isNew = await change((tx) => insertEntry(tx, job, at));
      return isNew ? "submitted" : "known";
    },
    async cancel(run) {
      checkName("cancel", "run", run);
      return change((tx) => deleteEntry(tx, run));
    },
    async signal(run) {
      checkName("signal", "run", run);
      return change((tx) => signalEntry(tx, run));
    },
    async wakeAt(run, at) {
      checkName("wakeAt", "run", run);
      checkTime("wakeAt", at);
      return change((tx) => delayEntry(tx, run, at));
    },
    list: () => read(readEntries),
    workers: () => read(readWorkers),
    join,
    close: () => (closed ??= close()),
  };

  async function close(): Promise<void> {
    closing = true;
    for (const { controller } of executions.values()) controller.abort();
    const own = await address?.catch(() => undefined);
    if (own !== undefined) {
      await Promise.all([...members.values()].map((member) => drain(member, own).catch(onProblem)));
      members.clear();
      poke();
      await looking;
      await delivery.stop();
    }
    await driver.close();
  }
}

/** Monotonic. */
function elapsed(): number {
  return process.uptime() * 1000;
}

const MAX_NAME = 1000;

function checkName(call: string, name: string, value: unknown): void {
  checkArgument(call, name, value, "text");
  if (typeof value === "string" && value !== "" && value.length <= MAX_NAME && !/\p{Cc}/u.test(value)) return;
  throw usageError(
    `${call} cannot use ${JSON.stringify(value).slice(0, 80)} for ${name}`,
    `Give 1 to ${MAX_NAME} characters without control characters.`,
  );
}

function checkTime(call: string, at: unknown): void {
  checkArgument(call, "at", at, "count");
}

function checkJob(job: Job): void {
  checkArgument("submit", "the job", job, "object");
  for (const name of ["run", "queue", "repository"] as const) checkName("submit", name, job[name]);
  checkArgument("submit", "needs", job.needs, "texts");
  for (const label of job.needs) checkName("submit", "needs", label);
  if (!Number.isSafeInteger(job.priority))
    throw usageError(`submit cannot use ${String(job.priority)} for priority`, "Give a whole number.");
}

function checkWorker(worker: NewWorker): void {
  checkArgument("join", "the worker", worker, "object");
  checkArgument("join", "labels", worker.labels, "texts");
  for (const label of worker.labels) checkName("join", "labels", label);
  checkArgument("join", "slots", worker.slots, "count");
  checkName("join", "version", worker.version);
}

/** What work returns comes from the caller. */
function checkNext(next: Next): Next {
  checkArgument("work", "its result", next, "object");
  if (next.kind === "wake") checkTime("work", next.at);
  if (next.kind === "needs") for (const label of next.labels) checkName("work", "labels", label);
  return next;
}
