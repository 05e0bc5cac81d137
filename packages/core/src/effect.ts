// Performs one side effect of a stage: record the intent, look it up at the target, act, record the receipt.
import { HoldfastError } from "@holdfast/platform/error";
import { runMark } from "./adapters.ts";
import {
  type Effect,
  type EffectIntended,
  type EffectSettled,
  type Lookup,
  PUBLISH_CONSENT,
  approvalQuestion,
  approvalStep,
  checkIntent,
  currentKey,
  decideEffect,
  effectKey,
  isApprovalStep,
  isUndone,
  publishQuestion,
} from "./effects.ts";
import { delayAt, fractionOf } from "./error-policy.ts";
import type { NewEntry } from "./journal.ts";
import { type Json, isJsonObject, sha256 } from "./json.ts";
import { reasonOf } from "./progress.ts";
import type { RunSession } from "./run-session.ts";
import { parseAddress } from "./run.ts";
import { type StageExecution, saveBefore } from "./step.ts";
import { startWaiting, waitHere } from "./waiting.ts";
import { own } from "./state.ts";

import { canonicalJson, capture } from "./values.ts";
import type { EffectOutcome, EffectSpec } from "./workflow.ts";

/** Delays between lookups if the target gives no clear answer. After the last one, the run waits for the user. */
const LOOK_AGAIN_MS = [1_000, 5_000, 15_000];

/** How long a run waits for a target that does not answer and names no time, after the error policy's retries are used up. */
const WAIT_MS = 300_000;

/**
 * Order: commit the intent, look it up, act, commit the receipt. The outcome, a failure included, is also a step of the
 * stage attempt, so a stage that runs again gets the same outcome.
 */
export async function runEffect(execution: StageExecution, spec: EffectSpec<Json>): Promise<EffectOutcome<Json>> {
  const { runSession } = execution;
  const step = effectStep(spec);
  // A finished step that the stage does not request again looks like a changed workflow.
  const consent = execution.recall(PUBLISH_CONSENT);
  for (const name of Object.keys(runSession.attempt.steps).filter(isApprovalStep)) execution.recall(name);
  const known = execution.claim(step);
  const intent = intentOf(execution, spec);
  const before = own(runSession.state.effects, intent.key);
  // The engine recorded this value below. It does not count once the user undid the effect.
  if (known !== undefined && (before !== undefined || !(await wasUndone(runSession, spec, known))))
    return known as EffectOutcome<Json> & Json;
  return await execution.busy(async () => {
    const risk = {
      trigger: spec.risk === undefined ? "before_external" : "before_risky",
      name: spec.risk ?? `${spec.kind} on ${spec.target}`,
    } as const;
    await requireConsent(execution, spec, consent);
    const isTriedBefore = before?.state.kind === "intended" || before?.state.kind === "unknown";
    checkIntent(before, intent);
    if (before?.state.kind === "done") {
      return await conclude(execution, step, { kind: "done", receipt: before.state.receipt }, []);
    }
    if (before === undefined || before.state.kind === "failed") {
      await requireApproval(execution, spec);
      await saveBefore(runSession, {
        ...risk,
        entries: (held) => [{ kind: "effect.intended", body: withBefore(intent, held) }],
      });
      runSession.emit({ kind: "effect", key: intent.key, what: "intended" });
    }
    return await perform(execution, { step, key: intent.key, spec, isTriedBefore });
  });
}

/**
 * A stage attempt after a restore holds results of earlier attempts, whose effects have other keys. The first attempt of
 * a fork holds those of its parent, which may have undone them before or after the fork.
 */
async function wasUndone({ state, run, adapters }: RunSession, spec: EffectSpec<Json>, known: Json): Promise<boolean> {
  const { kind, target } = spec;
  const receipt = canonicalJson((isJsonObject(known) && known["receipt"]) ?? null);
  const undid = (effect: Effect): boolean =>
    isUndone(effect) && effect.kind === kind && canonicalJson(effect.state.receipt) === receipt;
  if (Object.values(state.effects).some((effect) => undid(effect) && effect.target === target)) return true;
  // The target of a parent's effect may name the parent's branch.
  for (let parent = run.forkedFrom; parent !== null;) {
    const source = await adapters.store.getRun(parseAddress(parent.id).run ?? "");
    if (source === undefined) return false;
    if ((await adapters.store.listEffects(source.id)).some(undid)) return true;
    parent = source.forkedFrom;
  }
  return false;
}

export function effectStep({ purpose }: Pick<EffectSpec<Json>, "purpose">): string {
  return `effect:${purpose}`;
}

/** A fork or a rerun asks before its first external effect, whichever command or program executes it. */
async function requireConsent(
  execution: StageExecution,
  { kind, target }: EffectSpec<Json>,
  answer: Json | undefined,
): Promise<void> {
  const { runSession } = execution;
  const decision = publishQuestion(runSession.run, {
    effects: Object.keys(runSession.state.effects).length,
    kind,
    target,
  });
  if (answer === "stop") return runSession.halt.abort(`You did not let it ${kind} on ${target}`);
  if (answer === undefined && decision !== null)
    await startWaiting(execution, { for: "you", reason: decision.question, until: null, decision });
}

/** Asks before effects of chosen kinds. No intent exists before the answer, so a kill leaves a waiting run and nothing in flight. */
async function requireApproval(execution: StageExecution, spec: EffectSpec<Json>): Promise<void> {
  const { runSession } = execution;
  const { kind, target, about } = spec;
  const approval = { ...approvalOf(spec, runSession.attempt.number), run: runSession.run.id };
  const answer = execution.recall(approvalStep(approval));
  if (answer === "stop") return runSession.halt.abort(`You did not approve ${kind} on ${target}`);
  if (answer !== undefined) return;
  const asked = { ...approval, ...(about === undefined ? {} : { about }) };
  const decision = approvalQuestion(runSession.adapters.approve ?? [], asked);
  if (decision !== null)
    await startWaiting(execution, { for: "you", reason: decision.question, until: null, decision });
}

/** What the user approves about this effect in this stage attempt. */
export function approvalOf(
  { kind, target, payload }: Pick<EffectSpec<Json>, "kind" | "target" | "payload">,
  stageAttempt: number,
): Parameters<typeof approvalStep>[0] {
  return { kind, target, payload: sha256(canonicalJson(capture(payload))), stageAttempt };
}

interface Performing {
  readonly step: string;
  readonly key: string;
  readonly spec: EffectSpec<Json>;
  /** An attempt by this process or by one that has died. Its request may still be in progress at the target. */
  readonly isTriedBefore: boolean;
}

/**
 * Looks up, then acts, and repeats as often as the error policy retries. After a temporary failure it always looks up
 * again before it acts.
 */
async function perform(execution: StageExecution, first: Performing): Promise<EffectOutcome<Json>> {
  const { step, key } = first;
  let performing = first;
  for (let failures = 1; ; failures += 1) {
    const effect = own(execution.runSession.state.effects, key);
    if (effect === undefined) throw new TypeError(`effect ${key} was not recorded`);
    const decision = decideEffect({ state: effect.state, lookup: await lookUpSettled(execution, performing) });
    switch (decision.action) {
      case "adopt":
        return await settle(execution, step, { key, outcome: "done", adopted: true, receipt: decision.receipt });
      case "ask":
        return await askPerson(execution, performing, decision.why);
      case "wait":
        await waitOrPark(execution, performing, { why: decision.why, until: decision.until, failures });
        break;
      case "act": {
        execution.check();
        const acted = await act(execution, performing);
        if (acted.kind !== "later") return acted;
        performing = { ...performing, isTriedBefore: true };
        await waitOrPark(execution, performing, { why: acted.why, until: acted.until, failures });
        break;
      }
    }
  }
}

/**
 * Handles a temporary failure of the target. If the target names a time, the run waits until then. Otherwise the error
 * policy's delays come first.
 */
async function waitOrPark(
  execution: StageExecution,
  { spec }: Performing,
  trouble: { readonly why: string; readonly until: string | null; readonly failures: number },
): Promise<void> {
  const { adapters } = execution.runSession;
  const { why, until, failures } = trouble;
  const { retry } = adapters.errorPolicy;
  const delay = until === null ? delayAt(retry, failures - 1, fractionOf(adapters.random())) : undefined;
  if (delay === undefined) {
    const reason = `${spec.kind} on ${spec.target} failed for now: ${why}`;
    await startWaiting(execution, {
      for: "forge",
      reason,
      until: until ?? new Date(adapters.clock.now() + WAIT_MS).toISOString(),
    });
    return;
  }
  execution.runSession.emit({ kind: "note", text: `${why}. Trying again in ${Math.ceil(delay / 1000)} s` });
  execution.check();
  await waitHere(execution.runSession, delay);
}

/** The outcome of the act, or a temporary failure of the target. */
type Acted = EffectOutcome<Json> | { readonly kind: "later"; readonly why: string; readonly until: string | null };

async function act(execution: StageExecution, performing: Performing): Promise<Acted> {
  const { step, key, spec } = performing;
  const { halt, acted, adapters, run } = execution.runSession;
  let outcome: EffectOutcome<Json>;
  try {
    outcome = await spec.act(key, { signal: halt.signal, mark: `${runMark(adapters, run.id)}/effect/${spec.purpose}` });
  } catch (error) {
    return await afterThrow(execution, performing, error);
  } finally {
    acted.set(key, adapters.clock.now());
  }
  execution.open();
  return outcome.kind === "done"
    ? await settle(execution, step, { key, outcome: "done", adopted: false, receipt: capture(outcome.receipt) })
    : await settle(execution, step, {
        key,
        outcome: "failed",
        reason: outcome.reason,
        detail: capture(outcome.detail),
      });
}

/** The effect may have happened although act() threw. Only the target knows. */
async function afterThrow(execution: StageExecution, performing: Performing, error: unknown): Promise<Acted> {
  const { step, key, spec } = performing;
  execution.open();
  const later = laterOf(error);
  if (later?.isUndone === true) return { kind: "later", why: later.why, until: later.until };
  await execution.runSession.append({ kind: "effect.unknown", body: { key, reason: reasonOf(error) } });
  execution.runSession.emit({ kind: "effect", key, what: "unknown" });
  execution.check();
  if (later !== null) return { kind: "later", why: later.why, until: later.until };
  const lookup = await lookUp(execution, spec);
  switch (lookup.kind) {
    case "present":
      return await settle(execution, step, { key, outcome: "done", adopted: true, receipt: lookup.receipt });
    case "unknown":
      return await askPerson(execution, performing, `${reasonOf(error)}; ${lookup.reason}`);
    case "absent":
      execution.unclaim(step);
      throw error;
  }
}

/** null: waiting does not help. `isUndone`: the target reports that it has not acted. */
function laterOf(error: unknown): { why: string; until: string | null; isUndone: boolean } | null {
  if (!(error instanceof HoldfastError) || error.retry !== "later") return null;
  const { until, undone } = error.data;
  return { why: error.message, until: typeof until === "string" ? until : null, isUndone: undone === true };
}

async function askPerson(
  execution: StageExecution,
  { key, spec, isTriedBefore }: Performing,
  why: string,
): Promise<never> {
  const isUnknown = isTriedBefore || execution.runSession.acted.has(key);
  const reason = isUnknown
    ? `It is not known whether ${spec.kind} on ${spec.target} has happened: ${why}`
    : `${spec.kind} on ${spec.target} cannot begin: ${why}`;
  return await startWaiting(execution, { for: "you", reason, until: null }, () => [
    { kind: "effect.unknown", body: { key, reason: why } },
  ]);
}

/**
 * Looks up the effect when no earlier attempt can still be in progress. Earlier processes were terminated when the run
 * was resumed, so from then on only the target itself can be late.
 */
async function lookUpSettled(execution: StageExecution, { key, spec, isTriedBefore }: Performing): Promise<Lookup> {
  const found = await lookUp(execution, spec);
  if (found.kind !== "absent" || !isTriedBefore) return found;
  const { runSession } = execution;
  const { lateMs = 0 } = spec;
  const passed = runSession.adapters.clock.now() - (runSession.acted.get(key) ?? runSession.began);
  // If the clock was set back, wait the whole time, never more.
  const rest = Math.min(lateMs, lateMs - passed);
  if (rest <= 0) return found;
  runSession.emit({
    kind: "note",
    text: `Waiting ${Math.ceil(rest / 1000)} s: ${spec.target} may still be at ${spec.kind}`,
  });
  execution.check();
  await runSession.adapters.wait(rest, runSession.halt.signal);
  return await lookUp(execution, spec);
}

async function lookUp(execution: StageExecution, spec: EffectSpec<Json>): Promise<Lookup> {
  for (const delay of [...LOOK_AGAIN_MS, null]) {
    const found = await spec.lookUp().catch(unknownBy);
    if (found.kind === "present") return { kind: "present", receipt: capture(found.receipt) };
    // A target that names a time will not answer before it.
    if (found.kind === "absent" || delay === null || typeof found.later?.until === "string") return found;
    execution.check();
    await execution.runSession.adapters.wait(delay, execution.runSession.halt.signal);
  }
  return { kind: "unknown", reason: "the target gave no answer" };
}

function unknownBy(error: unknown): Lookup {
  const later = laterOf(error);
  if (later === null) {
    const hint = error instanceof HoldfastError && error.hint !== undefined ? `. ${error.hint}` : "";
    return { kind: "unknown", reason: `${reasonOf(error)}${hint}` };
  }
  return { kind: "unknown", reason: later.why, later: { until: later.until } };
}

async function settle(execution: StageExecution, step: string, settled: EffectSettled): Promise<EffectOutcome<Json>> {
  execution.open();
  const entry: NewEntry = { kind: "effect.settled", body: settled };
  const outcome: EffectOutcome<Json> =
    settled.outcome === "done"
      ? { kind: "done", receipt: settled.receipt }
      : { kind: "failed", reason: settled.reason, detail: settled.detail ?? null };
  const what = settled.outcome === "failed" ? "failed" : settled.adopted ? "adopted" : "acted";
  const concluded = await conclude(execution, step, outcome, [entry]);
  execution.runSession.emit({ kind: "effect", key: settled.key, what });
  return concluded;
}

async function conclude(
  execution: StageExecution,
  step: string,
  outcome: EffectOutcome<Json>,
  entries: readonly NewEntry[],
): Promise<EffectOutcome<Json>> {
  const result = capture(outcome);
  await execution.runSession.append(...entries, execution.finished(step, { result, spent: null }));
  return outcome;
}

/** Records the checkpoint from before the effect, to which the run can be restored. */
function withBefore(intent: EffectIntended, before: number | null): EffectIntended {
  return before === null ? intent : { ...intent, detail: { ...intent.detail, before } };
}

function intentOf(execution: StageExecution, spec: EffectSpec<Json>): EffectIntended {
  const { run, state, attempt } = execution.runSession;
  const purpose = spec.per === "run" ? spec.purpose : `${spec.purpose}.${attempt.number}`;
  const payload = capture(spec.payload);
  return {
    key: currentKey(state.effects, effectKey({ run: run.id, stage: execution.stage, purpose })),
    kind: spec.kind,
    target: spec.target,
    payload: sha256(canonicalJson(payload)),
    detail: { payload, ...(spec.rollback === "refuse" ? { rollback: spec.rollback } : {}) },
  };
}
