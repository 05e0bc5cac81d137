// How a stage makes its run wait: for the user's answer, for a time, or for its budget.

import { usageError } from "@holdfast/platform/error";
import { type AgentCapabilities, type AgentUsage, knownUsage } from "./agent.ts";
import {
  NOTHING,
  type Paid,
  type Resource,
  assumedUsage,
  costOf,
  exceeded,
  priceOf,
  reserve,
  usedUp,
} from "./budget.ts";
import type { NewEntry, RunContinued, RunWaiting } from "./journal.ts";
import { isJsonObject } from "./json.ts";
import type { Amounts } from "./position.ts";
import { Stopped } from "./progress.ts";
import type { RunSession } from "./run-session.ts";
import { RECHECK, type StageExecution } from "./step.ts";
import type { Decision } from "./workflow.ts";

/**
 * Makes the run wait, in one commit: the reason, the time, and a checkpoint. With the checkpoint, a resume can distinguish later changes
 * from the run's own. `prepare` adds entries to the same commit.
 */
export async function startWaiting(
  execution: StageExecution,
  waiting: RunWaiting,
  prepare: () => readonly NewEntry[] = () => [],
): Promise<never> {
  const { runSession } = execution;
  execution.check();
  checkUntil(waiting.until);
  await execution.busy(() =>
    runSession.save({
      trigger: "session_end",
      name: `waiting for ${waiting.for}`,
      prepare: () => [...prepare(), waitingEntry(waiting)],
    }),
  );
  const { for: what, reason, until } = waiting;
  const outcome = { kind: "waiting", for: what, reason, until } as const;
  runSession.emit(outcome);
  const stopped = new Stopped(outcome, { saved: true });
  runSession.halt.stop(stopped);
  throw stopped;
}

/** Waits in this process. Rejects with the cause when the run must stop, or when the user asks for it. */
export async function waitHere({ adapters, halt }: RunSession, milliseconds: number): Promise<void> {
  await adapters.wait(milliseconds, AbortSignal.any([halt.signal, halt.wished])).catch((error: unknown) => {
    halt.checkWish();
    throw error;
  });
}

export function waitingEntry({ for: what, reason, until, decision }: RunWaiting): NewEntry {
  const body = { for: what, reason, until };
  return { kind: "run.waiting", body: decision === undefined ? body : { ...body, decision } };
}

export function continuedEntry(body: RunContinued): NewEntry {
  return { kind: "run.continued", body: { ...body } };
}

function checkUntil(until: string | null): void {
  if (until === null || Number.isFinite(Date.parse(until))) return;
  throw usageError(`${JSON.stringify(until)} is not a time to wait until`, "Give an ISO 8601 time, or null.");
}

/**
 * The resources that the estimate would exceed; null: the call may start. Its `step.started` entry reserves the estimate, in the same turn.
 */
export function exceededBy({ budget }: RunSession, estimate: Amounts): readonly Resource[] | null {
  const reservation = reserve(budget, estimate);
  return reservation.kind === "exceeded" ? reservation.resources : null;
}

/** Called before a wait: a wait uses up time and nothing else. */
export async function waitForTimeBudget(execution: StageExecution): Promise<void> {
  if (exceeded(execution.runSession.budget).includes("milliseconds")) await waitForBudget(execution, ["milliseconds"]);
}

export async function waitForBudget(execution: StageExecution, resources: readonly Resource[]): Promise<never> {
  return await startWaiting(execution, {
    for: "budget",
    reason: usedUp(execution.runSession.budget, resources),
    until: null,
  });
}

/** Waits for the user's answer and returns it. It remains the same for the rest of the stage attempt. */
export async function decide(execution: StageExecution, decision: Decision): Promise<string> {
  const { question, options, recheck } = decision;
  const name = decisionStep(decision);
  const known = execution.claim(name);
  if (typeof known === "string") return known;
  const waiting: RunWaiting = {
    for: "you",
    reason: question,
    until: null,
    decision: { name, question, options, ...(recheck === true ? { recheck } : {}) },
  };
  return await startWaiting(execution, waiting);
}

/** Name of the step that holds the answer. */
export function decisionStep({ name, recheck }: Pick<Decision, "name" | "recheck">): string {
  return recheck === true ? `${RECHECK}${name}` : name;
}

/** What to hold for a call that was cut off, or is about to start, and whose usage is unknown. Null: the run has no limit that depends on it. */
export async function assumeUnknown(
  runSession: RunSession,
  capabilities?: Pick<AgentCapabilities, "reportsTokens">,
): Promise<Amounts | null> {
  const { limit } = runSession.budget;
  if (limit.tokens === null && limit.microUsd === null) return null;
  let largest = NOTHING;
  for await (const { body } of runSession.adapters.store.readJournal({ run: runSession.run.id })) {
    const { spent } = body;
    if (!isJsonObject(spent)) continue;
    const { tokens, microUsd } = spent;
    largest = {
      ...largest,
      tokens: Math.max(largest.tokens, typeof tokens === "number" ? tokens : 0),
      microUsd: Math.max(largest.microUsd, typeof microUsd === "number" ? microUsd : 0),
    };
  }
  return assumedUsage(limit, largest, runSession.adapters.assumedTokens, capabilities?.reportsTokens === false);
}

/** Prices the usage by the agent's own report, or else by the price table; an unknown price remains null. */
export function priced(runSession: RunSession, reported: AgentUsage, { agent, model }: Paid): AgentUsage {
  const usage = knownUsage(reported);
  const { prices } = runSession.adapters;
  // The model that answered is known better than the default; a price that the user set for the name as given is kept.
  const named = model !== null && priceOf(prices, agent, model) !== null;
  return { ...usage, microUsd: costOf(usage, priceOf(prices, agent, named ? model : (usage.model ?? model))) };
}
