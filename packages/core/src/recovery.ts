// Chooses the checkpoint that a run resumes from: the newest intact one, or the one that the user chose.

import { HoldfastError } from "@holdfast/platform/error";
import type { CoreAdapters } from "./adapters.ts";
import type { Checkpoint, CheckpointId, CheckpointSummary } from "./checkpoint.ts";
import { type Finding, type FindingPolicy, type Verdict, defaultFindingPolicy, worst } from "./findings.ts";
import type { ResumeFrom } from "./resume-plan.ts";
import { type RunState, isEnded } from "./run.ts";
import { allCheckpoints } from "./store.ts";

/** Where a run can resume from. `findings` name the checkpoints that were skipped. */
type Start =
  | { readonly kind: "none" }
  | {
      readonly kind: "found";
      readonly from: ResumeFrom;
      readonly checkpoint: Checkpoint;
      readonly findings: readonly Finding[];
    };

/**
 * Returns the newest checkpoint, or the newest intact one with findings for the damaged ones. Throws STORE_CORRUPT if no checkpoint is
 * intact: starting anew would silently lose everything.
 */
export async function findStart(params: {
  readonly adapters: CoreAdapters;
  readonly run: string;
  /** Use only this checkpoint, never another one. */
  readonly chosen?: number;
}): Promise<Start> {
  const { adapters, run, chosen } = params;
  if (chosen !== undefined) return await startAt(adapters, run, chosen);
  const candidates: Candidate[] = [];
  for await (const summary of allCheckpoints(adapters.store, run)) {
    const read = await readWhole(adapters, summary);
    candidates.push(candidateOf(summary, read.kind === "whole" ? null : read.problem));
    if (read.kind === "damaged") continue;
    if (candidates.length === 1)
      return { kind: "found", from: { kind: "newest" }, checkpoint: read.checkpoint, findings: [] };
    const from = { kind: "newest_intact", sequence: summary.sequence, why: "newer ones are damaged" } as const;
    return { kind: "found", from, checkpoint: read.checkpoint, findings: damageFindings(run, candidates) };
  }
  if (candidates.length === 0) return { kind: "none" };
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: `None of the ${candidates.length} checkpoints of run ${run} can be used: ${candidates[0]?.problem ?? ""}`,
    hint: "Run `holdfast verify` to see what is damaged. Nothing was changed, and nothing is begun anew.",
    data: { run, checkpoints: candidates.length },
  });
}

async function startAt(adapters: CoreAdapters, run: string, sequence: number): Promise<Start> {
  const checkpoint = await adapters.store.getCheckpoint({ run, sequence });
  const read = await readWhole(adapters, checkpoint);
  if (read.kind === "whole")
    return { kind: "found", from: { kind: "chosen", sequence }, checkpoint: read.checkpoint, findings: [] };
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: `Checkpoint ${checkpoint.id} cannot be used: ${read.problem}`,
    hint: `See \`holdfast list ${run}\` and choose another one.`,
    data: { run, sequence },
  });
}

type Read =
  | { readonly kind: "whole"; readonly checkpoint: Checkpoint }
  | { readonly kind: "damaged"; readonly problem: string };

export const NOT_RESTORABLE = "its git objects are not in this repository";

/** Reads the planes and checks the git objects, or returns the problem. */
export async function readWhole(
  adapters: CoreAdapters,
  { run, sequence, quarantined }: CheckpointSummary,
): Promise<Read> {
  if (quarantined) return { kind: "damaged", problem: "it is quarantined as damaged" };
  try {
    const checkpoint = await adapters.store.getCheckpoint({ run, sequence });
    const { files } = checkpoint.planes;
    const here = files === null || adapters.workspaces === null || (await adapters.workspaces.has(files));
    return here ? { kind: "whole", checkpoint } : { kind: "damaged", problem: NOT_RESTORABLE };
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "STORE_CORRUPT")
      return { kind: "damaged", problem: error.message };
    throw error;
  }
}

function candidateOf(checkpoint: CheckpointSummary, problem: string | null): Candidate {
  return { checkpoint, intact: problem === null, effectsReconcilable: true, problem };
}

function damageFindings(run: string, candidates: readonly Candidate[]): readonly Finding[] {
  const plan = planRecovery({
    run,
    strategy: { kind: "last" },
    candidates,
    state: { kind: "active" },
    findings: [],
    policy: defaultFindingPolicy,
    force: false,
  });
  return plan.kind === "restore" ? plan.findings : [];
}

/** A rollback that selects a checkpoint from the failure (rollback.ts) passes it as "chosen". */
export type Strategy = { readonly kind: "last" } | { readonly kind: "chosen"; readonly sequence: number };

/** What is known about a checkpoint before the choice. */
export interface Candidate {
  readonly checkpoint: CheckpointSummary;
  readonly intact: boolean;
  /** False when the outcome of an effect after this checkpoint cannot be looked up. */
  readonly effectsReconcilable: boolean;
  /** What is wrong with it; null when it is intact. */
  readonly problem: string | null;
}

interface PassedOver {
  readonly checkpoint: CheckpointId;
  readonly why: string;
}

export type RecoveryPlan =
  | {
      readonly kind: "restore";
      readonly checkpoint: CheckpointId;
      readonly why: string;
      readonly passedOver: readonly PassedOver[];
      readonly findings: readonly Finding[];
      readonly verdict: Verdict;
      /** The run had ended and is reopened by force. */
      readonly reopens: boolean;
    }
  /** The run is done: a resume succeeds and changes nothing. */
  | { readonly kind: "done"; readonly why: string }
  /** The run ended fatally, or the chosen checkpoint cannot be used. */
  | { readonly kind: "refused"; readonly why: string; readonly hint: string }
  | { readonly kind: "nothing"; readonly why: string; readonly passedOver: readonly PassedOver[] };

/**
 * Chooses the checkpoint to restore, with the reasons for it and against the others. Each damaged checkpoint is named in the plan and
 * becomes a finding. A chosen checkpoint is never silently replaced by another.
 */
export function planRecovery(params: {
  readonly run: string;
  readonly strategy: Strategy;
  /** Every checkpoint of the run that retention has not dropped, in any order. */
  readonly candidates: readonly Candidate[];
  readonly state: RunState;
  readonly findings: readonly Finding[];
  readonly policy: FindingPolicy;
  /** Reopen a run that has ended. Needs a chosen checkpoint. */
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
        reopens: reopens && isEnded(state),
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

/** Chooses the newest intact checkpoint and reports the damage of newer ones. */
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
    case "active":
    case "waiting":
    case "paused":
      return null;
    case "done":
      return { kind: "done", why: `Run ${run} is done since ${state.at}` };
    case "failed":
    case "aborted":
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
