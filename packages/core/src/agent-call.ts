// Runs one agent call as a durable step: attempts, adoption of results that a dead process left, and the reaction to failures.
import { type StoredResult, answerFile, ownResult, readResult, storeResult } from "./agent-log.ts";
import {
  type ActiveCall,
  type CallAttempt,
  agentText,
  askAboutCheckoutChange,
  MAX_TOOLS,
  askAboutFailedAttempt,
  askAboutUnknownUsage,
  beginCall,
  checkoutBefore,
  checkoutText,
  chooseCallAgent,
  compareCheckouts,
  concludeCall,
  forgetCheckout,
  openCheckout,
  readFailedAttempt,
  storeFailedAttempt,
  watchCheckout,
} from "./agent-result.ts";
import { type OpenedSession, dropSession, keepSession, openSession, sessionOf } from "./agent-session.ts";
import type { Agent, AgentEvent, AgentOutcome, SessionPlace } from "./agent.ts";
import { Conversation, storeConversation, storedConversation } from "./conversation.ts";
import { type FailureDecision, decideFailure, fractionOf } from "./error-policy.ts";
import type { NewEntry, StepAdopted, StepInterrupted } from "./journal.ts";
import { NO_ERRORS, type RecordTokens, type RunningStep, restOfDelay } from "./position.ts";
import { prepareWorktree } from "./prepare-worktree.ts";
import { recordAgentCall, recordAgentEntry } from "./record-run.ts";
import { EventRecorder } from "./recorded-calls.ts";
import { type BeganAt, beganAt, keepBranch, restoreRunFiles, revertChanges } from "./restore-files.ts";
import { clearStaleLocks } from "./resume.ts";
import { type RunSession, emitNote } from "./run-session.ts";
import { enterSideWorktree, requireOpen } from "./side-worktrees.ts";
import { NOTHING, type Resource, assumedNotice, reachedBy, spentOf, unkeptLimit } from "./budget.ts";
import {
  type OpenSideWorktree,
  type StageExecution,
  withTimer,
  attemptOf,
  beginStep,
  failStep,
  markOf,
  titled,
} from "./step.ts";
import { assumeUnknown, exceededBy, waitForBudget, priced, startWaiting } from "./waiting.ts";
import { own } from "./state.ts";
import type { AgentCall, AgentReport } from "./workflow.ts";

/**
 * Runs one agent call as a step: reserve the budget, record the start, run the agent, settle. A failure at the provider
 * is retried here and counted per call. The agent's own outcome, good or bad, is the step's result.
 */
export async function runAgent(execution: StageExecution, call: AgentCall): Promise<AgentReport> {
  const { runSession } = execution;
  const sideWorktree = call.sideWorktree === undefined ? null : requireOpen(execution, call.sideWorktree);
  const known = execution.claim(call.name);
  if (known !== undefined) {
    runSession.emit({ kind: "step_finished", step: call.name, replayed: true, ...titled(call) });
    // The previous process may have died after the journal entry and before this cleanup.
    forgetFiles(runSession, call.name);
    readFailedAttempt(execution, call);
    // The engine recorded this value when the call concluded.
    const recorded = known as AgentReport;
    await askAfterCall(execution, call, recorded);
    return recorded;
  }
  const report = await makeCall(execution, call, sideWorktree);
  await askAfterCall(execution, call, report);
  return report;
}

/** Questions about a recorded result: a later process that finds the result asks the same. */
async function askAfterCall(execution: StageExecution, call: AgentCall, report: AgentReport): Promise<void> {
  await askAboutCheckoutChange(execution, call, report);
  await askAboutUnknownUsage(execution, call, report);
}

async function makeCall(
  execution: StageExecution,
  call: AgentCall,
  sideWorktree: OpenSideWorktree | null,
): Promise<AgentReport> {
  const { runSession } = execution;
  return await execution.busy(async () => {
    const trying = beginCall(execution, call, sideWorktree);
    if (sideWorktree !== null) sideWorktree.busy = call.name;
    try {
      const { abort } = own(runSession.attempt.errors, call.name) ?? {};
      if (abort !== undefined) runSession.halt.abort(abort);
      for (;;) {
        await askAboutFailedAttempt(execution, trying);
        await waitOut(execution, call.name);
        const tried = await tryOnce(execution, trying);
        const report = tried.outcome.kind === "completed" ? tried : await afterFailedTry(execution, trying, tried);
        if (report === null) continue;
        await reportDenial(runSession, report.outcome);
        const concluded = await concludeCall(execution, trying, report);
        forgetFiles(runSession, call.name);
        return concluded;
      }
    } finally {
      if (sideWorktree !== null) sideWorktree.busy = null;
    }
  });
}

/** Deletes the files that hold a call's state until the journal has its result. */
function forgetFiles(runSession: RunSession, step: string): void {
  answerFile(runSession, step).remove();
  forgetCheckout(runSession, step);
}

/** Reports a denied tool call, and how to allow it, in the journal and the live view. The summary reads it from the result. */
async function reportDenial(runSession: RunSession, outcome: AgentOutcome): Promise<void> {
  if (outcome.kind !== "failed" || outcome.cause !== "permission_denied") return;
  await emitNote(runSession, `Denied: ${outcome.message}${outcome.hint === null ? "" : `. ${outcome.hint}`}`);
}

/** Waits for the rest of the delay before the next attempt. The delay is on record, perhaps by a process that has died. */
async function waitOut({ runSession }: StageExecution, name: string): Promise<void> {
  const { adapters, halt } = runSession;
  const { errors } = runSession.attempt;
  const rest = restOfDelay(own(errors, name) ?? NO_ERRORS, adapters.clock.now());
  // Between two attempts the call is not in progress. If no other step runs either, the run can stop safely here.
  const isQuiet = (): boolean => Object.keys(runSession.attempt.running).length === 0;
  if (rest > 0) {
    const signal = isQuiet() ? AbortSignal.any([halt.signal, halt.wished]) : halt.signal;
    await adapters.wait(rest, signal).catch((error: unknown) => {
      halt.checkWish();
      throw error;
    });
  }
  if (isQuiet()) halt.checkWish();
}

async function tryOnce(execution: StageExecution, trying: ActiveCall): Promise<CallAttempt> {
  const { runSession } = execution;
  const { call, files, sideWorktree } = trying;
  execution.check();
  const adopted = await adoptAnswer(execution, trying);
  if (adopted !== null) return await afterCall(execution, trying, adopted);
  if (sideWorktree !== null)
    trying.workspace = await enterSideWorktree(execution, sideWorktree, {
      continues: Object.hasOwn(runSession.attempt.sessions, call.name),
    });
  await prepareWorktree(execution, trying.workspace);
  await waitIfRefused(execution, trying);
  const opened = await openSession(execution, trying);
  // Such a call cannot end at a limit. Its estimate is reserved, so that the limit is passed by one call at most.
  if (!trying.agent.capabilities.usage && call.estimate === undefined)
    trying.estimate = (await assumeUnknown(runSession, trying.agent.capabilities)) ?? NOTHING;
  const { estimate } = trying;
  execution.check();
  const exceeded = exceededBy(runSession, estimate);
  // No await may come between this check and the entry that reserves the estimate. A parallel call must see the reservation.
  if (exceeded !== null) return await waitForBudget(execution, exceeded);
  const { counted } = opened;
  const beside = sideWorktree === null ? {} : { sideWorktree: sideWorktree.name };
  const answer = answerFile(runSession, call.name);
  // Remove it before the step starts. Otherwise the result of an older attempt could be adopted for this one.
  answer.remove();
  const sent = opened.prompt.includes(call.prompt) ? {} : { sent: opened.prompt };
  const start = {
    files,
    estimate,
    ...(counted === null ? {} : { counted }),
    ...sent,
    ...beside,
  };
  await beginStep(execution, call.name, start, call.title);
  const outputs = runSession.adapters.outputs(trying.workspace.root);
  // Remove stale output files, so that the engine does not collect them as output of this call.
  for (const path of call.collect ?? []) await outputs.remove(path);
  execution.check();
  trying.checkout ??= await openCheckout(runSession, trying);
  execution.check();
  const began = runSession.adapters.clock.now();
  const before = beganAt(runSession);
  const talk = talkOf(execution, trying);
  const events = new EventRecorder();
  const attempt = attemptOf(execution, call.name);
  const hold = async (session?: string | null): Promise<void> =>
    storeConversation(runSession, call, await talk.plane(session));
  let called: Called;
  try {
    called = await withTimer(execution, () => callAgent(execution, trying, { talk, opened, events }), hold);
  } catch (error) {
    throw await failStep(execution, call.name, error);
  }
  const { outcome, reached } = called;
  const milliseconds = Math.max(0, runSession.adapters.clock.now() - began);
  // A call that was stopped has no result to adopt.
  if (runSession.halt.cause === undefined && reached.length === 0)
    storeResult(answer, {
      agent: trying.agent.name,
      model: trying.model,
      attempt,
      tokens: 0,
      tools: [...trying.tools],
      ended: { outcome, milliseconds },
    });
  return await afterCall(execution, trying, { outcome, reached, opened, before, attempt, events, milliseconds, hold });
}

/** Checked before each attempt, because a rebase or the agent's last call may have changed what this call would execute. */
async function waitIfRefused(execution: StageExecution, trying: ActiveCall): Promise<void> {
  const at = { agent: agentText(trying), worktree: trying.workspace.root };
  const reason = (await execution.runSession.adapters.refuseCall?.(at)) ?? null;
  if (reason !== null) await startWaiting(execution, { for: "you", reason, until: null });
}

interface Called {
  readonly outcome: AgentOutcome;
  /** Limits for which the engine stopped the call, by the usage that the agent streamed. */
  readonly reached: readonly Resource[];
}

interface Ended extends Called {
  readonly opened: Pick<OpenedSession, "session" | "forkAt" | "prompt">;
  readonly before: BeganAt;
  readonly attempt: number;
  readonly events: EventRecorder;
  readonly milliseconds: number;
  readonly hold: (session: string | null) => Promise<void>;
}

/** Work between the end of the agent process and the journal entry about it. */
async function afterCall(execution: StageExecution, trying: ActiveCall, ended: Ended): Promise<CallAttempt> {
  const { runSession } = execution;
  const { call, files } = trying;
  const { outcome, reached, opened, before, attempt, events, milliseconds, hold } = ended;
  if (outcome.kind === "failed") await clearLocks(runSession, call.name);
  if (files) await keepBranch(runSession, call.name, before.files);
  // Serialized with side worktrees: one that opens now must not contain changes that this call was not allowed to make.
  else await execution.inTurn(() => revertChanges(runSession, before));
  const was = trying.checkout ?? null;
  const now = was === null ? null : await watchCheckout(runSession, trying.workspace.root);
  const checkout = compareCheckouts(was, now);
  if (outcome.kind === "failed") storeFailedAttempt(runSession, call.name, { before: was, after: now });
  if (checkout !== null) await emitNote(runSession, checkoutText(call, checkout));
  const who = { agent: trying.agent.name, model: trying.model };
  const { agent, model } = trying;
  const take = await recordAgentCall(runSession, {
    call,
    agent,
    model,
    attempt,
    opened,
    events,
    before: before.files,
    milliseconds,
  });
  const usage = priced(runSession, outcome.usage, who);
  const spent = spentOf(usage);
  const notice = assumedNotice(runSession.budget, usage, agent);
  if (notice !== null) await reportLimit(runSession, notice);
  await hold(outcome.session ?? (opened.forkAt === null ? opened.session : null));
  execution.open();
  // The agent reported its usage, so that is recorded. Everything else is treated as after a crash.
  const interrupted: StepInterrupted = { stageAttempt: runSession.attempt.number, step: call.name, spent };
  if (runSession.halt.cause !== undefined) {
    await runSession.append({ kind: "step.interrupted", body: interrupted }).catch(() => undefined);
    throw runSession.halt.cause;
  }
  if (reached.length > 0) {
    await runSession.append({ kind: "step.interrupted", body: interrupted });
    return await waitForBudget(execution, reached);
  }
  const unkept = unkeptLimit(runSession.budget.limit, usage, agent.capabilities.usage);
  return { outcome: { ...outcome, usage }, session: opened.session, spent, milliseconds, take, checkout, unkept };
}

/**
 * Removes git locks that a failed agent left behind. Its process tree has ended, and a lock would block git for
 * Holdfast and the next attempt. It does nothing while another call runs, because a lock in a side worktree may belong
 * to that call.
 */
async function clearLocks(runSession: RunSession, step: string): Promise<void> {
  if (Object.keys(runSession.attempt.running).some((name) => name !== step)) return;
  const cleared = await clearStaleLocks(runSession.adapters, runSession.run.id, runSession.state.files);
  if (cleared !== null) await emitNote(runSession, cleared);
}

/**
 * Adopts the result of a call that had finished when its process died, so that the call is not paid for twice. null:
 * there is no result, it belongs to another attempt or agent, or the files that belong to it are gone.
 */
async function adoptAnswer(execution: StageExecution, trying: ActiveCall): Promise<Ended | null> {
  const { runSession } = execution;
  const { call, agent, model, sideWorktree } = trying;
  const { name } = call;
  const begun = own(runSession.attempt.lost, name);
  if (begun === undefined) return null;
  const attempt = attemptOf(execution, name);
  const wasKept = runSession.answered.delete(name);
  if (sideWorktree?.isKept === false || readResult(answerFile(runSession, name))?.filesGone === true) return null;
  // The agent stores its session record under the directory in which it worked.
  if (sideWorktree !== null) trying.workspace = await enterSideWorktree(execution, sideWorktree, { continues: true });
  const stored = ownResult(execution, name, { agent: agent.name, model, attempt });
  const ended = (wasKept ? stored?.ended : null) ?? (await endedInRecord(execution, trying, begun));
  if (ended === null) {
    if (!wasKept) return null;
    // The files were kept for a result that cannot be adopted. An agent without a session restarts from the call's first files.
    if (trying.files && !Object.hasOwn(runSession.attempt.sessions, name))
      await restoreRunFiles(runSession, {
        to: begun.base,
        trigger: "error_recovery",
        why: `what ${name} left half-done`,
        finish: () => [],
      });
    return null;
  }
  for (const tool of stored?.tools ?? []) trying.tools.add(tool);
  trying.checkout = checkoutBefore(runSession, name);
  const text = `${agent.name} had finished ${name} when Holdfast ended; its result is adopted`;
  const body: StepAdopted = { stageAttempt: runSession.attempt.number, step: name };
  await runSession.append({ kind: "step.adopted", body }, { kind: "note", body: { text } });
  runSession.emit({ kind: "note", text });
  const talk = talkOf(execution, trying);
  return {
    outcome: ended.outcome,
    reached: [],
    opened: { session: sessionOf(execution, call), forkAt: null, prompt: begun.sent ?? call.prompt },
    before: beganAt(runSession),
    attempt,
    events: new EventRecorder(),
    milliseconds: ended.milliseconds,
    hold: async (session) => storeConversation(runSession, call, await talk.plane(session)),
  };
}

/** Adds a journal note, because the user must revoke the secret: an agent's output also reaches its provider. */
async function reportMasked(runSession: RunSession, step: string, lines: number): Promise<void> {
  const text = `The agent of ${step} printed what looks like a secret (${lines} ${lines === 1 ? "line" : "lines"}). It is masked as *** in everything that Holdfast keeps or publishes.`;
  await emitNote(runSession, text);
}

/**
 * Finds the result of a turn that ended after Holdfast died, in the agent's own record. The record must answer this
 * prompt and show more tokens than at the start of the call. Otherwise it could be an older turn with the same prompt.
 */
async function endedInRecord(
  { runSession }: StageExecution,
  { call, agent, workspace }: ActiveCall,
  begun: RunningStep,
): Promise<StoredResult["ended"]> {
  const session = own(runSession.attempt.sessions, call.name) ?? null;
  if (session === null || begun.counted === undefined) return null;
  const { now, text } = await turnOf(agent, { session, cwd: workspace.root }, begun.sent ?? call.prompt);
  if (now === null || text === null) return null;
  const inputTokens = now.input - begun.counted.input;
  const outputTokens = now.output - begun.counted.output;
  if (inputTokens + outputTokens <= 0) return null;
  const usage = { inputTokens, outputTokens, microUsd: null };
  return { outcome: { kind: "completed", text, session, usage }, milliseconds: 0 };
}

async function turnOf(
  { sessions, records }: Pick<Agent, "sessions" | "records">,
  at: SessionPlace,
  prompt: string,
): Promise<{ readonly now: RecordTokens | null; readonly text: string | null }> {
  if (records !== undefined) return { now: await records.tokens(at), text: await records.answer(at, prompt) };
  const record = (await sessions?.read(at).catch(() => null)) ?? null;
  if (record === null) return { now: null, text: null };
  const { text } = record;
  return { now: sessions?.tokensIn?.(text) ?? null, text: sessions?.answerIn?.(text, prompt) ?? null };
}

async function reportLimit(runSession: RunSession, text: string): Promise<void> {
  await runSession.append({ kind: "note", body: { text } });
  runSession.emit({ kind: "budget", text });
}

function talkOf(execution: StageExecution, { agent, call, workspace }: ActiveCall): Conversation {
  const report = (text: string): void => execution.runSession.emit({ kind: "note", text });
  return new Conversation(agent, { cwd: workspace.root, session: sessionOf(execution, call), report });
}

async function callAgent(
  execution: StageExecution,
  trying: ActiveCall,
  {
    talk,
    opened,
    events,
  }: { readonly talk: Conversation; readonly opened: OpenedSession; readonly events: EventRecorder },
): Promise<Called> {
  const { runSession } = execution;
  const { call, agent, model, workspace } = trying;
  const { name } = call;
  const log = runSession.adapters.logs.open({
    run: runSession.run.id,
    stageAttempt: runSession.attempt.number,
    step: name,
  });
  const telling: Promise<void>[] = [];
  const answer = answerFile(runSession, name);
  const attempt = attemptOf(execution, name);
  let tokens = 0;
  let reached: readonly Resource[] = [];
  const limit = new AbortController();
  const isRecorded = runSession.adapters.recorder !== undefined;
  const onEvent = (event: AgentEvent): void => {
    if (isRecorded) events.record(event);
    if (event.kind === "process") return;
    if (event.kind === "masked") telling.push(reportMasked(runSession, name, event.lines));
    if (event.kind === "raw") log.append(event.line);
    if (event.kind === "tool" && trying.tools.size < MAX_TOOLS) trying.tools.add(event.name.slice(0, 100));
    if (event.kind === "usage" && event.tokens > 0) {
      tokens += event.tokens;
      storeResult(answer, { agent: agent.name, model, attempt, tokens, tools: [...trying.tools], ended: null });
      const cost = event.total === undefined ? null : priced(runSession, event.total, { agent: agent.name, model });
      runSession.usage.set(name, { tokens, microUsd: cost?.microUsd ?? 0, milliseconds: 0 });
      reached = reachedBy(runSession.budget, runSession.usage.values());
      if (reached.length > 0 && event.isLast !== true) limit.abort();
    }
    if (event.kind === "session" && agent.capabilities.resume) telling.push(keepSession(execution, call, event.id));
    talk.observe(event);
    runSession.emit({ kind: "agent", step: name, event });
  };
  if (opened.note !== null) log.append(`holdfast: ${opened.note}`);
  try {
    const outcome = await agent.run({
      mark: markOf(execution, name),
      cwd: workspace.root,
      prompt: opened.prompt,
      ...(opened.continuation === undefined ? {} : { continuation: opened.continuation }),
      role: call.role,
      model,
      session: opened.session,
      ...(opened.forkAt === null ? {} : { forkAt: opened.forkAt }),
      yolo: call.yolo || runSession.state.position.yolo === true,
      timeoutMs: call.timeoutMs ?? null,
      idleMs: runSession.adapters.agentIdleMs,
      iteration: runSession.state.position.iteration,
      attempt: attempt + (call.triedBefore ?? 0),
      seed: runSession.state.config.seed,
      env: call.env ?? {},
      signal: AbortSignal.any([runSession.halt.signal, limit.signal]),
      onEvent,
    });
    const isStopped = outcome.kind === "failed" && outcome.cause === "interrupted";
    return { outcome, reached: isStopped ? reached : [] };
  } finally {
    runSession.usage.delete(name);
    await Promise.allSettled([...telling, log.close()]);
  }
}

type Decision = Exclude<FailureDecision, { readonly kind: "report" }>;

/**
 * Applies the error policy to a failed attempt: decide, record the decision with the failure, then act. null: try
 * again, with the agent and after the delay that the record names.
 */
async function afterFailedTry(
  execution: StageExecution,
  trying: ActiveCall,
  tried: CallAttempt,
): Promise<CallAttempt | null> {
  const { runSession } = execution;
  const { name } = trying.call;
  const { outcome, spent } = tried;
  if (outcome.kind === "completed") return tried;
  const now = runSession.adapters.clock.now();
  // A fresh session has an empty context. A prompt that is too long by itself fails there again.
  const isSession = outcome.cause === "session_lost" || outcome.cause === "context_too_long";
  const isLost = isSession && tried.session !== null;
  const decision = decideFailure({
    policy: runSession.adapters.errorPolicy,
    agent: trying.agent.name,
    own: trying.own,
    failure: outcome,
    failures: attemptOf(execution, name),
    before: own(runSession.attempt.errors, name),
    now,
    random: fractionOf(runSession.adapters.random()),
    mustAnswer: trying.call.mustAnswer ?? false,
    ...(isLost ? { lostSession: trying.hasDroppedSession ? "again" : "first" } : {}),
  });
  if (decision.kind === "report") return tried;
  const { verdict, errors } = decision;
  const reason = `${outcome.cause}: ${outcome.message}`;
  const fail = (): readonly NewEntry[] => {
    recordAgentEntry(runSession, tried.take, {
      after: null,
      failed: { cause: outcome.cause, message: outcome.message },
    });
    return [execution.failed(name, { reason, spent, verdict, errors })];
  };
  const isSettled = await settleFiles(execution, trying, { decision, isLost, why: outcome.message, fail });
  runSession.emit({ kind: "step_failed", step: name, reason, retryAt: retryTime(decision, now), verdict });
  if (decision.kind === "wait") {
    const { for: what, reason: why, until } = decision;
    return await startWaiting(execution, { for: what, reason: why, until }, () => (isSettled ? [] : fail()));
  }
  if (!isSettled) await runSession.append(...fail());
  if (decision.kind === "abort") runSession.halt.abort(decision.reason);
  if (decision.kind === "fallback") {
    chooseCallAgent(execution, trying);
    trying.hasDroppedSession = false;
  }
  return null;
}

/**
 * Restores the files from the start of this attempt for the next one, unless its session continues. An agent that takes
 * over from another has no session. Returns true when the restore has also recorded the failure. If the run ends here,
 * its files are not changed.
 */
async function settleFiles(
  execution: StageExecution,
  trying: ActiveCall,
  params: {
    readonly decision: Decision;
    readonly isLost: boolean;
    readonly why: string;
    readonly fail: () => readonly NewEntry[];
  },
): Promise<boolean> {
  const { runSession } = execution;
  const { name } = trying.call;
  const { decision, fail } = params;
  const leaves = decision.kind === "fallback";
  if (params.isLost && !leaves) {
    trying.hasDroppedSession = true;
    await dropSession(execution, trying, {
      why: params.why,
      conversation: storedConversation(runSession, trying.call),
      prepare: fail,
    });
    return true;
  }
  const base = own(runSession.attempt.running, name)?.base;
  const continues = Object.hasOwn(runSession.attempt.sessions, name) && !leaves;
  if (!trying.files || continues || base === undefined || decision.kind === "abort") return false;
  await restoreRunFiles(runSession, { to: base, trigger: "error_recovery", why: `${name} failed`, finish: fail });
  return true;
}

function retryTime(decision: Decision, now: number): string | null {
  switch (decision.kind) {
    case "fresh":
    case "fallback":
      return new Date(now).toISOString();
    case "retry":
      return decision.errors.retryAt;
    case "wait":
      return decision.until;
    case "abort":
      return null;
  }
}
