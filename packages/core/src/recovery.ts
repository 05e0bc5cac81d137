// Chooses the checkpoint that a run resumes from: the newest intact one, or the one that the user chose.

import { HoldfastError } from "@holdfast/platform/error";
import type { CoreAdapters } from "./adapters.ts";
import type { Checkpoint, CheckpointSummary } from "./checkpoint.ts";
import type { Finding } from "./findings.ts";
import type { ResumeFrom } from "./resume-plan.ts";
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
 * intact: starting again would silently lose everything. Throws TREE_MISSING if another machine may have the files of the newest one:
 * they are not damaged, and the user decides whether to continue without them.
 */
export async function findStart(params: {
  readonly adapters: CoreAdapters;
  readonly run: string;
  /** Use only this checkpoint, never another one. */
  readonly chosen?: number;
  /** Pass over checkpoints whose files are not here, although another machine may have them. */
  readonly passOver?: boolean;
}): Promise<Start> {
  const { adapters, run, chosen, passOver = adapters.ownsRefs } = params;
  if (chosen !== undefined) return await startAt(adapters, run, chosen);
  const damaged: Finding[] = [];
  for await (const summary of allCheckpoints(adapters.store, run)) {
    const read = await readWhole(adapters, summary);
    if (read.kind === "damaged") {
      if (read.problem === NOT_RESTORABLE && !passOver) throw filesElsewhere(summary);
      damaged.push(damageFinding(summary, read.problem));
      continue;
    }
    const { checkpoint } = read;
    if (damaged.length === 0) return { kind: "found", from: { kind: "newest" }, checkpoint, findings: [] };
    const from = { kind: "newest_intact", sequence: summary.sequence, why: "newer ones are damaged" } as const;
    return { kind: "found", from, checkpoint, findings: damaged };
  }
  const [newest] = damaged;
  if (newest === undefined) return { kind: "none" };
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: `None of the ${damaged.length} checkpoints of run ${run} can be used: ${String(newest.actual)}`,
    hint: "Run `holdfast verify` to see what is damaged. Nothing was changed, and nothing is started again.",
    data: { run, checkpoints: damaged.length },
  });
}

export function filesElsewhere({ run, id }: Pick<CheckpointSummary, "run" | "id">): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `The files of checkpoint ${id} are not in this repository; the machine that took it may have them`,
    hint: `Run \`holdfast store push ${run}\` there, then the same command again. To continue without them, choose an older checkpoint of \`holdfast list ${run}\`: \`holdfast resume ${run}@N\`.`,
    data: { run, checkpoint: id },
  });
}

function damageFinding({ id, sequence, digest }: CheckpointSummary, problem: string): Finding {
  const summary = `Checkpoint ${id} is damaged and was passed over: ${problem}`;
  return { kind: "store_damaged", summary, expected: { sequence, digest }, actual: problem };
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
