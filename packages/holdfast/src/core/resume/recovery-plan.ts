import { worst } from "./finding.ts";
import type { Finding, FindingPolicy } from "./finding.ts";
import type { Candidate, PassedOver, RecoveryPlan, Strategy } from "./recovery.ts";
import type { RunState } from "../run/run.ts";

/**
 * Chooses the checkpoint to go back to, and says why, and why not the others. Damaged ones are passed over aloud: each is
 * named in the plan and becomes a finding. A chosen one is never silently exchanged for another.
 */
export function planRecovery(params: {
  readonly run: string;
  readonly strategy: Strategy;
  /** Every checkpoint of the run that is not dropped, in any order. */
  readonly candidates: readonly Candidate[];
  readonly state: RunState;
  readonly findings: readonly Finding[];
  readonly policy: FindingPolicy;
  /** Take up a run that has ended. Needs a chosen checkpoint. */
  readonly force: boolean;
}): RecoveryPlan {
  const { strategy, state } = params;
  const reopens = params.force && strategy.kind === "chosen";
  if (!reopens) {
    const ended = planEnded(params.run, state);
    if (ended !== null) return ended;
  }
  const newestFirst = params.candidates.toSorted((a, b) => b.checkpoint.sequence - a.checkpoint.sequence);
  const choice = choose(strategy, newestFirst);
  switch (choice.kind) {
    case "unusable":
      return { kind: "refused", why: choice.why, hint: `Run \`holdfast list ${params.run}\` and choose another one.` };
    case "none":
      return { kind: "nothing", why: noneLeft(params.run, choice.passedOver), passedOver: choice.passedOver };
    case "found": {
      const findings = [...params.findings, ...choice.damage, ...effectFinding(choice.candidate)];
      return {
        kind: "restore",
        checkpoint: choice.candidate.checkpoint.id,
        why: choice.why,
        passedOver: choice.passedOver,
        findings,
        verdict: worst(findings, params.policy),
        reopens: reopens && (state.kind === "done" || state.kind === "fatal"),
      };
    }
  }
}

type Choice =
  | {
      readonly kind: "found";
      readonly candidate: Candidate;
      readonly why: string;
      readonly passedOver: readonly PassedOver[];
      readonly damage: readonly Finding[];
    }
  | { readonly kind: "none"; readonly passedOver: readonly PassedOver[] }
  | { readonly kind: "unusable"; readonly why: string };

function choose(strategy: Strategy, newestFirst: readonly Candidate[]): Choice {
  switch (strategy.kind) {
    case "chosen":
      return chooseChosen(strategy.sequence, newestFirst);
    case "last":
      return chooseNewest(newestFirst);
  }
}

function chooseChosen(sequence: number, candidates: readonly Candidate[]): Choice {
  const candidate = candidates.find((one) => one.checkpoint.sequence === sequence);
  if (candidate === undefined) return { kind: "unusable", why: `There is no checkpoint ${sequence} in this run` };
  const damage = damageOf(candidate);
  if (damage !== null)
    return { kind: "unusable", why: `Checkpoint ${candidate.checkpoint.id} cannot be used: ${damage}` };
  return { kind: "found", candidate, why: "it was chosen", passedOver: [], damage: [] };
}

/** The newest that is whole; those before it are named with what is wrong. */
function chooseNewest(newestFirst: readonly Candidate[]): Choice {
  const passedOver: PassedOver[] = [];
  const damage: Finding[] = [];
  for (const candidate of newestFirst) {
    const why = damageOf(candidate);
    if (why === null) return { kind: "found", candidate, why: whyNewest(passedOver), passedOver, damage };
    passedOver.push({ checkpoint: candidate.checkpoint.id, why });
    damage.push(damageFinding(candidate));
  }
  return { kind: "none", passedOver };
}

function whyNewest(passedOver: readonly PassedOver[]): string {
  return passedOver.length === 0 ? "it is the newest" : "it is the newest that is whole";
}

function damageOf(candidate: Candidate): string | null {
  return candidate.intact ? null : (candidate.problem ?? "it is damaged");
}

function damageFinding(candidate: Candidate): Finding {
  return {
    kind: "store_damaged",
    summary: `Checkpoint ${candidate.checkpoint.id} is damaged and was passed over: ${damageOf(candidate)}`,
    expected: { sequence: candidate.checkpoint.sequence, digest: candidate.checkpoint.digest },
    actual: candidate.problem,
  };
}

function effectFinding(candidate: Candidate): readonly Finding[] {
  if (candidate.effectsReconcilable) return [];
  const summary = `An effect after ${candidate.checkpoint.id} cannot be looked up, so going on could do it twice`;
  return [{ kind: "effect_unknown", summary, expected: true, actual: false }];
}

function planEnded(run: string, state: RunState): RecoveryPlan | null {
  switch (state.kind) {
    case "open":
    case "parked":
      return null;
    case "done":
      return { kind: "done", why: `Run ${run} is done since ${state.at}` };
    case "fatal":
      return {
        kind: "refused",
        why: `Run ${run} ended at ${state.at}: ${state.reason}`,
        hint: `Choose where to begin again: \`holdfast resume ${run}@SEQUENCE --force\`.`,
      };
  }
}

function noneLeft(run: string, passedOver: readonly PassedOver[]): string {
  return passedOver.length === 0
    ? `Run ${run} has no checkpoint yet`
    : `None of the ${passedOver.length} checkpoints of run ${run} is whole`;
}
