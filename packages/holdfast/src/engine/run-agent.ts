import { NOTHING } from "../core/budget.ts";
import { HoldfastError } from "../core/error.ts";
import type { NewEntry } from "../core/journal.ts";
import type { Amounts } from "../core/position.ts";
import type { Agent, AgentEvent, AgentOutcome } from "../ports/agent.ts";
import type { Workspace } from "../ports/workspace.ts";
import { chooseAgent } from "./agent-choice.ts";
import { concludeCall } from "./agent-report.ts";
import { askedOf, noteAgent, takeAgent } from "./record/record-agent.ts";
import { Hearing } from "./record/tape.ts";
import { playStep } from "./replay/play-step.ts";
import type { Tried } from "./agent-report.ts";
import { giveUpSession, keepSession, openSession, sessionOf } from "./agent-session.ts";
import type { OpenedSession } from "./agent-session.ts";
import { enterAside, requireOpen } from "./asides.ts";
import type { OpenAside } from "./asides.ts";
import { keepTalk, keptTalk } from "./kept-talk.ts";
import { parkRun } from "./park.ts";
import { planAgentFailure } from "./plan-agent-failure.ts";
import type { FailurePlan } from "./plan-agent-failure.ts";
import { putFilesBack } from "./put-files-back.ts";
import { attemptOf, beginStep, failStep, markOf } from "./run-step.ts";
import { failEntry } from "./step-entries.ts";
import { beganAt, keepBranch, takeBackChanges } from "./right-place.ts";
import { limitNotice, priced, reserveOrPark, settleSpent, spentOf } from "./spending.ts";
import type { AgentCall, AgentReport } from "./stage-context.ts";
import type { RunWriter } from "./run-writer.ts";
import type { Player } from "./replay/player.ts";
import type { Stay } from "./stay.ts";
import { Talk } from "./talk.ts";
import { withTimer } from "./with-timer.ts";

/**
 * One call of an agent as a step: reserve → started → run → settle. What fails at the provider is tried again here, on
 * the call's own count; what the agent itself came to, good or bad, is the step's result.
 */
export async function runAgent(stay: Stay, call: AgentCall): Promise<AgentReport> {
  const { writer } = stay;
  const aside = call.aside === undefined ? null : requireOpen(stay, call.aside);
  const known = stay.claim(call.name);
  if (known !== undefined) {
    writer.tell({ kind: "step_finished", step: call.name, replayed: true });
    // Recorded by us, when the call was concluded.
    return known as AgentReport;
  }
  return await stay.busy(async () => {
    if (writer.parts.player !== undefined) return await playCall(stay, call, writer.parts.player);
    const trying = tryingOf(stay, call, aside);
    if (aside !== null) aside.busy = call.name;
    try {
      for (;;) {
        const tried = await tryOnce(stay, trying);
        const report = tried.outcome.kind === "completed" ? tried : await retryOrPark(stay, trying, tried);
        if (report !== null) return await concludeCall(stay, trying, report);
      }
    } finally {
      if (aside !== null) aside.busy = null;
    }
  });
}

/** As it was recorded, of a workflow that asks for the same. */
async function playCall(stay: Stay, call: AgentCall, player: Player): Promise<AgentReport> {
  const { config, iteration } = stay.writer;
  const { provider: agent, model } = chooseAgent(call.model, config);
  player.asked(stay.writer, call.name, askedOf(call, { agent, model, iteration, mask: player.mask }));
  // Recorded by us, when the call was concluded.
  return (await playStep(stay, call.name)) as AgentReport;
}

interface Trying {
  readonly call: AgentCall;
  readonly agent: Agent;
  readonly model: string | null;
  /** Of an aside, as the try found or made it. */
  workspace: Workspace;
  /** Does it change the run's own? */
  readonly files: boolean;
  readonly aside: OpenAside | null;
  readonly estimate: Amounts;
  /** Has a session been given up since this process took the call up? */
  gaveUp: boolean;
}

function tryingOf(stay: Stay, call: AgentCall, aside: OpenAside | null): Trying {
  const { parts, workspace, config, run } = stay.writer;
  const { provider, model } = chooseAgent(call.model, config);
  if (workspace === undefined) {
    throw new HoldfastError({
      code: "WORKSPACE_MISSING",
      message: `Step ${call.name} of run ${run.id} calls an agent, and the run has no worktree to work in`,
      hint: "Begin the run with a worktree.",
    });
  }
  return {
    call,
    agent: parts.agent(provider),
    model,
    workspace,
    files: aside === null && (call.changesFiles ?? true),
    aside,
    estimate: call.estimate ?? NOTHING,
    gaveUp: false,
  };
}

async function tryOnce(stay: Stay, trying: Trying): Promise<Tried> {
  const { writer } = stay;
  const { call, estimate, files, aside } = trying;
  stay.check();
  if (aside !== null) trying.workspace = await enterAside(stay, aside, { goesOn: writer.sessions.has(call.name) });
  const opened = await openSession(stay, trying);
  stay.check();
  await reserveOrPark(stay, estimate);
  const { counted } = opened;
  const beside = aside === null ? {} : { aside: aside.name };
  await beginStep(stay, call.name, { files, estimate, ...(counted === null ? {} : { counted }), ...beside });
  const outputs = writer.parts.outputs(trying.workspace.root);
  // A stale file must not be taken for this call's.
  for (const path of call.collect ?? []) await outputs.remove(path);
  stay.check();
  const began = writer.parts.clock.now();
  const before = beganAt(writer);
  const talk = talkOf(stay, trying);
  const hearing = new Hearing();
  const attempt = attemptOf(stay, call.name);
  const hold = async (session?: string | null): Promise<void> => keepTalk(writer, call, await talk.plane(session));
  let outcome: AgentOutcome;
  try {
    outcome = await withTimer(stay, () => callAgent(stay, trying, { talk, opened, hearing }), hold);
  } catch (error) {
    throw await failStep(stay, call.name, error);
  }
  const milliseconds = Math.max(0, writer.parts.clock.now() - began);
  if (files) await keepBranch(writer, call.name, before.files);
  else if (aside === null) await takeBackChanges(writer, call.name, before);
  const who = { agent: trying.agent.name, model: trying.model };
  const { agent, model } = trying;
  const take = await takeAgent(writer, {
    call,
    agent,
    model,
    attempt,
    opened,
    hearing,
    before: before.files,
    milliseconds,
  });
  const usage = priced(writer, outcome.usage, who);
  const spent = spentOf(usage);
  const notice = limitNotice(writer.budget, usage, who);
  if (notice !== null) await sayLimit(writer, notice);
  await hold(outcome.session ?? (opened.forkAt === null ? opened.session : null));
  stay.open();
  if (writer.halt.cause !== undefined) {
    // It told what it took, so nothing of that is lost; the rest is as after a crash.
    settleSpent(writer, { estimate, actual: spent });
    const step = writer.running.get(call.name);
    if (step !== undefined) {
      const { counted: _settled, ...rest } = step;
      writer.running.set(call.name, { ...rest, estimate: NOTHING });
    }
    throw writer.halt.cause;
  }
  return { outcome: { ...outcome, usage }, session: opened.session, spent, milliseconds, take };
}

async function sayLimit(writer: RunWriter, text: string): Promise<void> {
  await writer.append({ kind: "note", body: { text } });
  writer.tell({ kind: "budget", text });
}

function talkOf(stay: Stay, { agent, call, workspace }: Trying): Talk {
  const tell = (text: string): void => stay.writer.tell({ kind: "note", text });
  return new Talk(agent, { cwd: workspace.root, session: sessionOf(stay, call), tell });
}

async function callAgent(
  stay: Stay,
  trying: Trying,
  { talk, opened, hearing }: { readonly talk: Talk; readonly opened: OpenedSession; readonly hearing: Hearing },
): Promise<AgentOutcome> {
  const { writer } = stay;
  const { call, agent, model, workspace } = trying;
  const { name } = call;
  const log = writer.parts.agentLog({ run: writer.run.id, visit: writer.visit, step: name });
  const telling: Promise<void>[] = [];
  const isRecorded = writer.parts.tape !== undefined;
  const onEvent = (event: AgentEvent): void => {
    if (isRecorded) hearing.hear(event);
    if (event.kind === "process") return;
    if (event.kind === "raw") log.append(event.line);
    if (event.kind === "session" && agent.capabilities.resume) telling.push(keepSession(stay, call, event.id));
    talk.hear(event);
    writer.tell({ kind: "agent", step: name, event });
  };
  if (opened.told !== null) log.append(`holdfast: ${opened.told}`);
  try {
    return await agent.run({
      mark: markOf(stay, name),
      cwd: workspace.root,
      prompt: opened.prompt,
      role: call.role,
      model,
      session: opened.session,
      ...(opened.forkAt === null ? {} : { forkAt: opened.forkAt }),
      yolo: call.yolo,
      timeoutMs: call.timeoutMs ?? null,
      idleMs: writer.parts.agentIdleMs,
      iteration: writer.iteration,
      attempt: attemptOf(stay, name) + (call.triedBefore ?? 0),
      seed: writer.config.seed,
      env: call.env ?? {},
      signal: writer.halt.signal,
      onEvent,
    });
  } finally {
    await Promise.allSettled([...telling, log.close()]);
  }
}

/** null: try again. */
async function retryOrPark(stay: Stay, trying: Trying, tried: Tried): Promise<Tried | null> {
  const { writer } = stay;
  const { name } = trying.call;
  const { outcome, spent } = tried;
  if (outcome.kind === "completed") return tried;
  const failures = attemptOf(stay, name);
  const now = writer.parts.clock.now();
  const isLost = outcome.cause === "session_lost" && tried.session !== null;
  const lost = isLost ? ({ lostSession: trying.gaveUp ? "again" : "first" } as const) : {};
  const plan = planAgentFailure({ agent: trying.agent.name, failure: outcome, failures, now, ...lost });
  if (plan.kind === "report") return tried;
  const reason = `${outcome.cause}: ${outcome.message}`;
  const fail = (): readonly NewEntry[] => {
    noteAgent(writer, tried.take, { after: null, failed: { cause: outcome.cause, message: outcome.message } });
    settleSpent(writer, { estimate: trying.estimate, actual: spent });
    writer.running.delete(name);
    return [failEntry(stay, name, { reason, spent })];
  };
  const base = writer.running.get(name)?.base;
  const goesOn = writer.sessions.has(name);
  const back = trying.files && !isLost && !goesOn && base !== undefined;
  if (back) {
    await putFilesBack(writer, { to: base, trigger: "error_recovery", why: `${name} failed`, finish: fail });
  }
  if (isLost) {
    trying.gaveUp = true;
    await giveUpSession(stay, trying, { why: outcome.message, said: keptTalk(writer, trying.call), prepare: fail });
  }
  const isSettled = back || isLost;
  const retryAt = retryTime(plan, now);
  writer.tell({ kind: "step_failed", step: name, reason, retryAt });
  if (plan.kind === "park") {
    const { on, until } = plan;
    return await parkRun(stay, { on, reason: plan.reason, until }, () => (isSettled ? [] : fail()));
  }
  if (!isSettled) await writer.append(...fail());
  if (plan.kind === "retry") await writer.parts.wait(plan.delayMs, writer.halt.signal);
  return null;
}

function retryTime(plan: Exclude<FailurePlan, { readonly kind: "report" }>, now: number): string | null {
  switch (plan.kind) {
    case "fresh":
      return new Date(now).toISOString();
    case "retry":
      return new Date(now + plan.delayMs).toISOString();
    case "park":
      return plan.until;
  }
}
