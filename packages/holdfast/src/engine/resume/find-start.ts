import type { Checkpoint, CheckpointSummary } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import { defaultFindingPolicy } from "../../core/resume/finding.ts";
import type { Finding } from "../../core/resume/finding.ts";
import type { Candidate } from "../../core/resume/recovery.ts";
import { planRecovery } from "../../core/resume/recovery-plan.ts";
import type { ResumeFrom } from "../../core/resume/resume-plan.ts";
import { allCheckpoints } from "../upkeep/all-checkpoints.ts";
import type { Parts } from "../parts.ts";

/** Where a run can be taken up. `findings` name what was passed over. */
export type Start =
  | { readonly kind: "none" }
  | {
      readonly kind: "found";
      readonly from: ResumeFrom;
      readonly checkpoint: Checkpoint;
      readonly findings: readonly Finding[];
    };

/**
 * The newest checkpoint, or the newest whole one with the damaged ones named. A run that has checkpoints and none that is whole
 * throws STORE_CORRUPT: to begin anew then would be to lose everything without a word.
 */
export async function findStart(params: {
  readonly parts: Parts;
  readonly run: string;
  /** Only this one; never exchanged for another. */
  readonly chosen?: number;
}): Promise<Start> {
  const { parts, run, chosen } = params;
  if (chosen !== undefined) return await startAt(parts, run, chosen);
  const candidates: Candidate[] = [];
  for await (const summary of allCheckpoints(parts.store, run)) {
    const read = await readWhole(parts, summary);
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

async function startAt(parts: Parts, run: string, sequence: number): Promise<Start> {
  const checkpoint = await parts.store.getCheckpoint({ run, sequence });
  const read = await readWhole(parts, checkpoint);
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

export const NOT_HERE = "its git objects are not in this repository";

/** Its planes and its git objects, or what is wrong with them. */
export async function readWhole(parts: Parts, { run, sequence, quarantined }: CheckpointSummary): Promise<Read> {
  if (quarantined) return { kind: "damaged", problem: "it was set aside as damaged" };
  try {
    const checkpoint = await parts.store.getCheckpoint({ run, sequence });
    const { files } = checkpoint.planes;
    const here = files === null || parts.workspaces === null || (await parts.workspaces.has(files));
    return here ? { kind: "whole", checkpoint } : { kind: "damaged", problem: NOT_HERE };
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
    state: { kind: "open" },
    findings: [],
    policy: defaultFindingPolicy,
    force: false,
  });
  return plan.kind === "restore" ? plan.findings : [];
}
