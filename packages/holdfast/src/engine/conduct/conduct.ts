import { HoldfastError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Store } from "../../ports/store.ts";
import { advance, finishRun } from "./advance.ts";
import { answerRequests } from "../orders/answer-requests.ts";
import type { Workflow } from "../definition.ts";
import { Aborted, Halt, Stopped } from "../halt.ts";
import { followOrders } from "../orders/follow-orders.ts";
import { holdLease } from "../lease/hold-lease.ts";
import type { HeldLease } from "../lease/hold-lease.ts";
import { leaveInOrder } from "./interrupt.ts";
import { keepAside } from "../asides/keep-aside.ts";
import type { RunOutcome } from "../outcome.ts";
import { obeyOrder } from "../orders/obey-order.ts";
import { hasRoom, parkOnDisk } from "./park-on-disk.ts";
import type { ProgressListener } from "../progress-event.ts";
import { runStage } from "../stage/run-stage.ts";
import type { RunSession } from "./run-session.ts";
import { saveByClock } from "../stage/save-unasked.ts";
import { limitSession } from "./session.ts";
import { loadRun } from "./load-run.ts";
import { mayGoOn, takeUp } from "../resume/take-up.ts";
import { refuseRolledBack } from "../save/newer-refs.ts";
import type { WorkParts } from "../work-parts.ts";
import { knownRun } from "../known-run.ts";

export interface ConductParams<S extends JsonObject> {
  readonly parts: WorkParts;
  /** Its id. */
  readonly run: string;
  readonly workflow: Workflow<S>;
  /** Aborted: work stops in order, and the outcome is "interrupted". */
  readonly signal: AbortSignal;
  readonly listen?: ProgressListener;
  /** Worked on for this long, work stops in order and the run is parked on "session": the next one goes on. */
  readonly sessionMs?: number;
  /**
   * Only wake it: carry it on if it is still parked until this very time. LEASE_HELD otherwise: somebody else woke it, and whatever became of it since
   * is none of a sleeper's business.
   */
  readonly wakes?: string;
  /** Go on although the workflow's definition is not the one that the run began with. */
  readonly allowChanged?: boolean;
}

/**
 * Carries a run on until it is done, fatal, parked or interrupted. Takes the lease (LEASE_HELD while another process has
 * it) and lets go of it. A run that is done is a success that changes nothing; a fatal one is RUN_FATAL with its own
 * reason. What a stage throws passes through: the run stays open and everything finished is kept. LEASE_LOST: somebody
 * took the run over; work has stopped, nothing more was written, and what was not saved is kept aside as a run of its own.
 */
export async function conduct<S extends JsonObject>(params: ConductParams<S>): Promise<RunOutcome> {
  const { parts, run } = params;
  const found = await knownRun(parts.store, run);
  checkAsleep(found, params.wakes);
  const ended = await endedOutcome(parts, found);
  if (ended !== null) return ended;
  await refuseRolledBack(parts, run);
  const held = holdOnce(parts.store, run);
  try {
    await using lease = await holdLease(parts, run);
    // Somebody may have carried it on before the lease was ours.
    const summary = await knownRun(parts.store, run);
    checkAsleep(summary, params.wakes);
    const meanwhile = await endedOutcome(parts, summary);
    if (meanwhile !== null) return meanwhile;
    const ordered = await obeyOrder(parts, lease.lease, summary);
    if (ordered !== null) return ordered;
    const { state } = summary;
    const { position } = await loadRun(parts, run);
    // Without room the work would be done, and paid for, only to fail again.
    const isFull = state.kind === "parked" && state.on === "disk" && !(await hasRoom(parts, run));
    if (state.kind === "parked" && (isFull || !mayGoOn({ state, position, now: parts.clock.now() }))) {
      const { on, reason, until } = state;
      return { kind: "parked", on, reason, until };
    }
    return await carry(summary, lease).catch((error: unknown) => parkOnDisk(parts, lease.lease, error));
  } finally {
    held();
  }

  async function carry(summary: RunSummary, lease: HeldLease): Promise<RunOutcome> {
    const { workflow, listen, allowChanged = false } = params;
    const writer = await takeUp({ parts, summary, lease: lease.lease, workflow, listen, allowChanged });
    lease.onLost((error) => writer.halt.stop(error));
    return await work(writer, params, lease.lease.epoch).catch(async (error: unknown) => {
      throw isLost(error) ? await keepAside(writer, lease.lease, error) : error;
    });
  }
}

/** Before a waker does anything, and again when the lease is its own: of several at once, one finds the run asleep. */
export function checkAsleep({ id, state }: Pick<RunSummary, "id" | "state">, wakes: string | undefined): void {
  if (wakes === undefined || (state.kind === "parked" && state.until === wakes)) return;
  throw new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${id} was taken up by somebody else while it was waited for`,
    hint: `See where it stands: \`holdfast status ${id}\`.`,
    retry: "later",
    data: { run: id },
  });
}

function isLost(error: unknown): error is HoldfastError {
  return error instanceof HoldfastError && error.code === "LEASE_LOST";
}

async function work<S extends JsonObject>(
  writer: RunSession,
  params: ConductParams<S>,
  epoch: number,
): Promise<RunOutcome> {
  const { signal, workflow } = params;
  const interrupt = (): void => writer.halt.stop(new Stopped({ kind: "interrupted" }, { saved: false }));
  signal.addEventListener("abort", interrupt);
  if (signal.aborted) interrupt();
  const session = limitSession(writer, params.sessionMs);
  const orders = followOrders(writer);
  try {
    await using _requests = answerRequests(writer, epoch);
    await using _following = orders;
    await using _clock = saveByClock(writer);
    for (;;) {
      writer.halt.checkWish();
      const { stage, iteration, visit } = writer.position;
      writer.tell({ kind: "stage_entered", stage, iteration, visit: visit.number });
      const stageWork = Object.hasOwn(workflow.stages, stage) ? workflow.stages[stage] : undefined;
      const ends = Object.hasOwn(workflow.shape.ends, stage);
      if (stageWork === undefined) return await finishRun(writer, workflow, null);
      const result = await runStage(writer, { workflow, work: stageWork }).catch((error: unknown) => {
        if (!(error instanceof Aborted)) throw error;
        writer.halt = new Halt();
        if (signal.aborted) interrupt();
        return { event: "fatal", reason: error.message };
      });
      const outcome = ends ? await finishRun(writer, workflow, result) : await advance(writer, workflow, result);
      if (outcome !== null) return outcome;
    }
  } catch (error) {
    if (!(error instanceof Stopped)) throw error;
    const outcome = await leaveInOrder(writer, error);
    await orders.settled(error);
    return outcome;
  } finally {
    session.end();
    signal.removeEventListener("abort", interrupt);
  }
}

/** null: it has not ended. */
export async function outcomeOfEnded(parts: Pick<WorkParts, "store">, summary: RunSummary): Promise<RunOutcome | null> {
  const { state, id } = summary;
  switch (state.kind) {
    case "open":
    case "parked":
      return null;
    case "done": {
      const latest = await parts.store.latest(id);
      return { kind: "done", reason: latest?.planes.position.reason ?? `done since ${state.at}` };
    }
    case "fatal":
      return { kind: "fatal", reason: state.reason };
  }
}

async function endedOutcome(parts: WorkParts, summary: RunSummary): Promise<RunOutcome | null> {
  const { state, id } = summary;
  if (state.kind !== "fatal") return await outcomeOfEnded(parts, summary);
  throw new HoldfastError({
    code: "RUN_FATAL",
    message: `Run ${id} ended at ${state.at}: ${state.reason}`,
    hint: `Choose where to begin again: \`holdfast resume ${id}@SEQUENCE --force\`.`,
    data: { run: id, reason: state.reason },
  });
}

/** Runs that this process carries, by store. A lease serves its handle, and so does not keep two callers of one apart. */
const conducted = new WeakMap<Store, Set<string>>();

function holdOnce(store: Store, run: string): () => void {
  const runs = conducted.get(store) ?? new Set<string>();
  conducted.set(store, runs);
  if (runs.has(run)) {
    throw new HoldfastError({
      code: "LEASE_HELD",
      message: `The run ${run} is being carried on by this very process`,
      hint: "Wait until that call has ended.",
      retry: "later",
      data: { run },
    });
  }
  runs.add(run);
  return () => void runs.delete(run);
}
