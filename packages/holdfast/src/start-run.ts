/** Starts and resumes runs: acquires lease and slot, applies the plan, and executes the workflow. */
import type { Adapters } from "@holdfast/core/adapters";
import type { ExecutionConfig } from "@holdfast/core/checkpoint";
import { type OptionsChange, beginRun, birthOf, raiseLimits } from "@holdfast/core/control-run";
import { executeRun, outcomeOfEnded, rejectWaitingRun } from "@holdfast/core/execute";
import { type Finding, defaultFindingPolicy } from "@holdfast/core/findings";
import { type AcquiredLease, type SlotRequest, acquireLease, holdSlot } from "@holdfast/core/hold-lease";
import { type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Budget } from "@holdfast/core/position";
import { type ProgressListener, type RunOutcome, Stopped } from "@holdfast/core/progress";
import { recordBranch } from "@holdfast/core/remove-run";
import type { RestoreStep } from "@holdfast/core/restore";
import { type ResumeCheck, applyResumeCheck, checkResume } from "@holdfast/core/resume";
import type { Answers, ResumePlan } from "@holdfast/core/resume-plan";
import { type RunSummary, isEnded, isFailedOrAborted } from "@holdfast/core/run";
import { newestUsable } from "@holdfast/core/store";
import type { Workflow } from "@holdfast/core/workflow";
import type { Workspace } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import { applyLimits } from "./change-limits.ts";
import type { StartPlan } from "./plan-start.ts";
import { findRequest } from "./run-status.ts";

export interface ExecuteOptions {
  /** When aborted, the work stops at a safe point, everything is saved, and the outcome is "interrupted". */
  readonly signal: AbortSignal;
  readonly listen: ProgressListener | undefined;
  /** The longest time this process works on the run, in milliseconds. After it the run waits on "session". */
  readonly sessionMs: number | undefined;
  /** The slot to acquire; null: the workflow has no concurrency limit. */
  readonly slot: SlotRequest | null;
}

export interface RunReport {
  readonly run: string;
  readonly outcome: RunOutcome;
  /** The work had ended before: this is the outcome of that run, and nothing was done. */
  readonly earlier?: true;
}

/** The outcome of a run that has ended. */
export async function earlierReport(adapters: Adapters, run: RunSummary): Promise<RunReport> {
  const outcome = await outcomeOfEnded(adapters, run);
  if (outcome === null) throw new TypeError(`run ${run.id} has not ended`);
  return { run: run.id, outcome, earlier: true };
}

/**
 * The reason of a done run is that of its last stage, which a fork shares with its parent. Either may have undone the pull request since, so
 * a report of it says so.
 */
export async function reportUndone({ store }: Pick<Adapters, "store">, report: RunReport): Promise<RunReport> {
  const { run, outcome } = report;
  if (outcome.kind !== "done") return report;
  const { checkpoint } = await newestUsable(store, run);
  const request = await findRequest(store, run, checkpoint?.planes);
  if (request?.undone !== true) return report;
  return { ...report, outcome: { kind: "done", reason: `Pull request #${request.number} was undone: ${request.url}` } };
}

/**
 * Creates the planned run with its first checkpoint and executes nothing. Calling it again after a kill at any point completes the same run.
 * `mark` is called when the run exists, before its first checkpoint.
 */
export async function createRun(adapters: Adapters, plan: StartPlan, mark: () => Promise<void>): Promise<void> {
  const { id, work, workflow, config, inputs, limit, labels } = plan;
  const begun = { adapters, workflow, work, inputs, config, labels, limit };
  const { first: _, ...birth } = birthOf(begun);
  const hasFiles = plan.place !== null && adapters.workspaces !== null;
  // Held throughout: of two processes that create it at once, one creates the worktree and the other gets LEASE_HELD.
  await using _lease = await acquireLease(adapters, id, undefined, birth);
  await mark();
  await beginRun({ ...begun, id, workspace: hasFiles ? await createWorktree(adapters, plan) : undefined });
}

/** Calling it again with the same plan after a kill at any point continues the same run. */
export async function startRun(adapters: Adapters, plan: StartPlan, watching: ExecuteOptions): Promise<RunReport> {
  const { id, work, workflow, config, inputs, limit, labels } = plan;
  const { slot } = watching;
  const begun = { adapters, workflow, work, inputs, config, labels, limit };
  // A worktree is created under the lease. Without one, the run is created with its lease and its first checkpoint.
  const hasFiles = plan.place !== null && adapters.workspaces !== null;
  const { first, ...bare } = birthOf(begun);
  const birth = hasFiles ? bare : { ...bare, first };
  // A queued run may get a pause signal or be killed. It is created before it waits, so that it can be resumed like any
  // other run.
  const waits = slot?.whenFull === "wait";
  if (waits) await begin();
  if (slot !== null) return await withSlot(adapters, id, { ...slot, birth }, execute);
  // The lease is held throughout, so other processes never see a run that was started and abandoned.
  await using lease = await acquireLease(adapters, id, undefined, birth);
  return await execute({ waited: false, lease });

  async function execute(held: LeasedWork): Promise<RunReport> {
    const report = await executeHeld(held);
    // Nothing undoes a run under the lease with which it was created.
    return held.lease?.created === undefined ? await reportUndone(adapters, report) : report;
  }

  async function executeHeld({ waited, lease }: LeasedWork): Promise<RunReport> {
    if (hasFiles && !waits) await begin();
    // Another process may have finished the work since it was planned.
    const found = lease?.created?.run ?? (await adapters.store.getRun(id));
    if (found !== undefined && isEnded(found.state)) return await earlierReport(adapters, found);
    if (waited) {
      const asked = { answers: AS_IT_IS_NOW, from: undefined, force: false, limit: {}, limits: {}, change: null };
      const request = { run: id, workflow, config, ...asked };
      return await continueRun(adapters, request, await planResumeRun(adapters, request), watching, []);
    }
    const outcome = await executeRun({
      adapters,
      run: id,
      workflow,
      ...(lease === undefined || found === undefined ? {} : { begun: { lease, run: found } }),
      signal: watching.signal,
      ...(watching.listen === undefined ? {} : { listen: watching.listen }),
      ...(watching.sessionMs === undefined ? {} : { sessionMs: watching.sessionMs }),
    });
    return { run: id, outcome };
  }

  /**
   * Acquires the lease before it creates the worktree. Of two processes that start at once, one creates it and the
   * other gets LEASE_HELD.
   */
  async function begin(): Promise<void> {
    await using _lease = await acquireLease(adapters, id, undefined, birth);
    if (hasFiles) await beginRun({ ...begun, id, workspace: await createWorktree(adapters, plan) });
  }
}

/** `waited`: no slot was free at first, so the plan may be outdated. `lease`: held throughout; undefined: the caller acquired none. */
interface LeasedWork {
  readonly waited: boolean;
  readonly lease?: AcquiredLease;
}

/** Nothing was done yet, so the current text of the issue counts without a question. */
const AS_IT_IS_NOW: Answers = {
  issue_title_changed: "accept",
  issue_body_changed: "accept",
  issue_labels_changed: "accept",
  issue_comments_changed: "accept",
};

async function createWorktree(adapters: Adapters, plan: StartPlan): Promise<Workspace | undefined> {
  const { place, id } = plan;
  if (place === null || adapters.workspaces === null) return undefined;
  await recordBranch(adapters, { run: id, branch: place.branch, base: place.base?.commit ?? null });
  return await adapters.workspaces.create({
    run: id,
    path: place.worktree,
    branch: place.branch,
    ...(place.base === null ? {} : { base: place.base.commit }),
  });
}

export interface ResumeRequest {
  readonly run: string;
  readonly workflow: Workflow;
  /** What the resumed run would use. */
  readonly config: ExecutionConfig;
  readonly answers: Answers;
  /** Sequence of the checkpoint to go back to. */
  readonly from: number | undefined;
  readonly force: boolean;
  readonly limit: Partial<Budget["limit"]>;
  /** New limits of the run's workflow, by the name of their flag. */
  readonly limits: JsonObject;
  /** What these limits change, as planned; null: nothing. */
  readonly change: OptionsChange | null;
  /** See ExecuteParams. */
  readonly wakes?: string;
}

/** Runs the pre-flight checks. Changes nothing, except that it may fetch. */
export async function planResumeRun(adapters: Adapters, request: ResumeRequest): Promise<ResumeCheck> {
  const { run, workflow, config, answers, force, from, change } = request;
  return await checkResume({
    adapters,
    run,
    current: { definition: workflow.definition, config },
    policy: defaultFindingPolicy,
    freshness: workflow.freshness,
    answers,
    force,
    change,
    ...(from === undefined ? {} : { chosen: from }),
  });
}

/**
 * Applies the plan, then continues the run. A blocking finding is thrown as an error; a question is an outcome. A run
 * that had to wait for a slot is planned `again`, because issue, branch and files may have changed by then.
 */
export async function resumeRun(
  adapters: Adapters,
  request: ResumeRequest,
  { planned, again }: { readonly planned: ResumeCheck; readonly again: () => Promise<ResumeCheck> },
  watching: ExecuteOptions,
): Promise<RunReport> {
  const { run, wakes } = request;
  rejectWaitingRun(planned.run, wakes);
  throwIfBlocked(run, planned);
  // A run that has ended, or that needs a decision first, occupies no slot.
  const slot = outcomeOf(planned) === null ? watching.slot : null;
  const report = await withSlot(adapters, run, slot, async ({ waited }) => {
    if (!waited) return await continueRun(adapters, request, planned, watching);
    const now = await again();
    return await continueRun(adapters, request, now, watching, planned.findings);
  });
  return await reportUndone(adapters, report);
}

/** Called with the slot held, if the run needs one. */
async function continueRun(
  adapters: Adapters,
  request: ResumeRequest,
  planned: ResumeCheck,
  watching: Omit<ExecuteOptions, "slot">,
  reported: readonly Finding[] = planned.findings,
): Promise<RunReport> {
  const { run, workflow, from, limit, limits, wakes } = request;
  const known = new Set(reported.map(({ summary }) => summary));
  for (const { summary } of planned.findings) if (!known.has(summary)) emitNote(adapters, run, watching, summary);
  throwIfBlocked(run, planned);
  const waits = forgeWait(adapters, planned);
  const ended = waits === null ? outcomeOf(planned) : null;
  // A run that needs an answer first keeps its limits too. Other limits may reopen it, so they come before the rest.
  const changed = ended === null ? await applyLimits(adapters, { run, limits, from, top: planned.top }) : null;
  for (const { step, outcome, text } of await apply(adapters, { ...planned, top: changed ?? planned.top }))
    if (outcome !== "skipped") emitNote(adapters, run, watching, `restore, ${step}: ${text}`);
  if (ended !== null) return { run, outcome: ended };
  if (Object.keys(limit).length > 0) await raiseLimits({ adapters, run, limit });
  if (waits !== null) return { run, outcome: await waitForForge(adapters, run, waits) };
  const outcome = await executeRun({
    adapters,
    run,
    workflow,
    signal: watching.signal,
    ...(watching.listen === undefined ? {} : { listen: watching.listen }),
    ...(watching.sessionMs === undefined ? {} : { sessionMs: watching.sessionMs }),
    ...(wakes === undefined ? {} : { wakes }),
  });
  return { run, outcome };
}

type Waiting = Extract<RunOutcome, { readonly kind: "waiting" }>;

/**
 * If only an unreachable forge prevents the resume, how the run waits, so that `--wait` and supervisors try again. null:
 * another reason, or a question to the user is open, which a new wait would replace.
 */
function forgeWait(adapters: Adapters, { run: { state }, plan }: ResumeCheck): Waiting | null {
  if (plan.kind !== "ask" || (state.kind === "waiting" && state.decision !== undefined)) return null;
  const asked = plan.judgements.filter(({ verdict }) => verdict === "ask").map(({ finding }) => finding);
  const waits = asked.map(({ kind, actual }) => (kind === "forge_unreachable" && isJsonObject(actual) ? actual : null));
  const [first] = waits;
  if (first === undefined || first === null || waits.includes(null)) return null;
  // A longer wait for something else is kept: after the shorter one the run would continue too early.
  if (state.kind === "waiting" && state.for !== "forge" && Date.parse(state.until ?? "") > adapters.clock.now()) {
    const { for: what, reason, until } = state;
    return { kind: "waiting", for: what, reason, until };
  }
  const until =
    typeof first["until"] === "string" ? first["until"] : new Date(adapters.clock.now() + ASK_AGAIN_MS).toISOString();
  const reason = typeof first["reason"] === "string" ? first["reason"] : plan.why;
  return { kind: "waiting", for: "forge", reason, until };
}

async function waitForForge(adapters: Adapters, run: string, waiting: Waiting): Promise<Waiting> {
  const { kind: _kind, ...body } = waiting;
  if (body.for !== "forge") return waiting;
  await using lease = await acquireLease(adapters, run);
  await adapters.store.commit({ lease: lease.lease, entries: [{ kind: "run.waiting", body }] });
  return waiting;
}

/** When to ask a forge again that named no time. */
const ASK_AGAIN_MS = 15_000;

function emitNote(adapters: Adapters, run: string, { listen }: Pick<ExecuteOptions, "listen">, text: string): void {
  listen?.({ run, at: new Date(adapters.clock.now()).toISOString(), kind: "note", text });
}

/** What prevents a resume before any action: an error is thrown, a question is the returned outcome. null: nothing does. */
export function blockedReport(planned: ResumeCheck): RunReport | null {
  const run = planned.run.id;
  throwIfBlocked(run, planned);
  const outcome = planned.plan.kind === "ask" ? outcomeOf(planned) : null;
  return outcome === null ? null : { run, outcome };
}

async function apply(adapters: Adapters, planned: ResumeCheck): Promise<readonly RestoreStep[]> {
  const { plan } = planned;
  if (plan.kind === "refuse") return [];
  if (plan.actions.length === 0 && plan.judgements.length === 0) return [];
  await using lease = await acquireLease(adapters, planned.run.id);
  return (await applyResumeCheck({ adapters, lease: lease.lease, planned })).steps ?? [];
}

/** null: the run can continue. */
function outcomeOf({ plan, findings }: ResumeCheck): RunOutcome | null {
  switch (plan.kind) {
    case "ask":
      return {
        kind: "ask",
        findings: plan.judgements.filter(({ verdict }) => verdict === "ask").map(({ finding }) => finding),
      };
    case "done":
      return { kind: "done", reason: plan.why };
    case "refuse":
      return { kind: "ask", findings };
    case "resume":
    case "warn":
      return null;
  }
}

function throwIfBlocked(run: string, planned: ResumeCheck): void {
  const { plan } = planned;
  if (plan.kind === "refuse") throw refusal(run, planned, plan);
}

function refusal(
  run: string,
  planned: ResumeCheck,
  plan: Extract<ResumePlan, { readonly kind: "refuse" }>,
): HoldfastError {
  const { why: message, hint } = plan;
  const data = { run, findings: planned.findings };
  const kinds = planned.findings.map(({ kind }) => kind);
  const code =
    isFailedOrAborted(planned.run.state) && planned.findings.length === 0
      ? "RUN_FAILED"
      : kinds.includes("tree_missing")
        ? "TREE_MISSING"
        : "NEEDS_DECISION";
  return new HoldfastError({ code, message, hint, retry: "ask", data });
}

/**
 * Does the work while a slot is held throughout. A signal that arrives while the run is queued becomes its outcome.
 */
async function withSlot(
  adapters: Adapters,
  run: string,
  slot: SlotRequest | null,
  work: (how: LeasedWork) => Promise<RunReport>,
): Promise<RunReport> {
  if (slot === null) return await work({ waited: false });
  let waited = false;
  const onWaiting: SlotRequest["onWaiting"] = (atWork) => {
    waited = true;
    slot.onWaiting(atWork);
  };
  const held = await holdSlot(adapters, run, { ...slot, onWaiting }).catch((error: unknown) => {
    if (error instanceof Stopped) return error;
    throw error;
  });
  if (held instanceof Stopped) return { run, outcome: held.outcome };
  await using lease = held;
  return await work({ waited, lease });
}
