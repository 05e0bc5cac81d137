import { decideFailure } from "../../core/error-policy/decide-failure.ts";
import type { FailureDecision } from "../../core/error-policy/decide-failure.ts";
import { fractionOf } from "../../core/error-policy/delays.ts";
import type { NewEntry } from "../../core/journal/journal.ts";
import { own } from "../../core/state.ts";
import { giveUpSession } from "./agent-session.ts";
import type { Tried } from "./agent-report.ts";
import { keptTalk } from "./kept-talk.ts";
import { parkRun } from "../conduct/park.ts";
import { putFilesBack } from "../restore/put-files-back.ts";
import { noteAgent } from "../record/record-agent.ts";
import { attemptOf } from "../stage/run-step.ts";
import type { Stay } from "../stage/stay.ts";
import { takeAgent } from "./trying.ts";
import type { Trying } from "./trying.ts";

type Decision = Exclude<FailureDecision, { readonly kind: "report" }>;

/**
 * What the error policy says to a failed try: decided by the pure rules, on record with the failure itself, then done. null: try again, with whatever agent
 * and after whatever wait the record names.
 */
export async function afterFailedTry(stay: Stay, trying: Trying, tried: Tried): Promise<Tried | null> {
  const { writer } = stay;
  const { name } = trying.call;
  const { outcome, spent } = tried;
  if (outcome.kind === "completed") return tried;
  const now = writer.parts.clock.now();
  // A fresh session has room again; a prompt that is too long by itself is too long there too.
  const isSession = outcome.cause === "session_lost" || outcome.cause === "context_too_long";
  const isLost = isSession && tried.session !== null;
  const decision = decideFailure({
    policy: writer.parts.errorPolicy,
    agent: trying.agent.name,
    own: trying.own,
    failure: outcome,
    failures: attemptOf(stay, name),
    before: own(writer.errors, name),
    now,
    random: fractionOf(writer.parts.random()),
    mustAnswer: trying.call.mustAnswer ?? false,
    ...(isLost ? { lostSession: trying.gaveUp ? "again" : "first" } : {}),
  });
  if (decision.kind === "report") return tried;
  const { verdict, errors } = decision;
  const reason = `${outcome.cause}: ${outcome.message}`;
  const fail = (): readonly NewEntry[] => {
    noteAgent(writer, tried.take, { after: null, failed: { cause: outcome.cause, message: outcome.message } });
    return [stay.failed(name, { reason, spent, verdict, errors })];
  };
  const isSettled = await settleFiles(stay, trying, { decision, isLost, why: outcome.message, fail });
  writer.tell({ kind: "step_failed", step: name, reason, retryAt: retryTime(decision, now), verdict });
  if (decision.kind === "park") {
    const { on, until } = decision;
    return await parkRun(stay, { on, reason: decision.reason, until }, () => (isSettled ? [] : fail()));
  }
  if (!isSettled) await writer.append(...fail());
  if (decision.kind === "abort") writer.halt.abort(decision.reason);
  if (decision.kind === "fallback") {
    takeAgent(stay, trying);
    trying.gaveUp = false;
  }
  return null;
}

/**
 * The next try begins from the files that this one began from, unless its session goes on: whoever takes over from another has none. True when the failure is
 * on record by that. What a run ends with stays as it is.
 */
async function settleFiles(
  stay: Stay,
  trying: Trying,
  params: {
    readonly decision: Decision;
    readonly isLost: boolean;
    readonly why: string;
    readonly fail: () => readonly NewEntry[];
  },
): Promise<boolean> {
  const { writer } = stay;
  const { name } = trying.call;
  const { decision, fail } = params;
  const leaves = decision.kind === "fallback";
  if (params.isLost && !leaves) {
    trying.gaveUp = true;
    await giveUpSession(stay, trying, { why: params.why, said: keptTalk(writer, trying.call), prepare: fail });
    return true;
  }
  const base = own(writer.running, name)?.base;
  const goesOn = Object.hasOwn(writer.sessions, name) && !leaves;
  if (!trying.files || goesOn || base === undefined || decision.kind === "abort") return false;
  await putFilesBack(writer, { to: base, trigger: "error_recovery", why: `${name} failed`, finish: fail });
  return true;
}

function retryTime(decision: Decision, now: number): string | null {
  switch (decision.kind) {
    case "fresh":
    case "fallback":
      return new Date(now).toISOString();
    case "retry":
      return decision.errors.retryAt;
    case "park":
      return decision.until;
    case "abort":
      return null;
  }
}
