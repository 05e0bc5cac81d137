import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";
import type { Planes } from "../../core/checkpoint/checkpoint.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { Committed, NewCheckpoint, Store } from "../../ports/store.ts";

export interface SamplePlanes {
  readonly values?: JsonObject;
  readonly stage?: string;
  readonly iteration?: number;
  readonly score?: number | null;
  readonly tree?: string;
}

/** Planes that hold little but what a case is about. */
export function samplePlanes(params: SamplePlanes = {}): Planes {
  const empty = emptyPlanes({ workflow: "sample", stage: params.stage ?? "work" });
  return {
    ...empty,
    position: { ...empty.position, iteration: params.iteration ?? 1, score: params.score ?? null },
    context: { ...empty.context, values: params.values ?? {} },
    files: params.tree === undefined ? null : sampleFiles(params.tree),
    inputs: { ...empty.inputs, task: "sample" },
  };
}

function sampleFiles(tree: string): NonNullable<Planes["files"]> {
  return {
    tree,
    commit: "c".repeat(40),
    ref: "refs/holdfast/sample/1",
    worktree: "/sample",
    head: null,
    branch: null,
    base: null,
    artifacts: [],
    artifactCount: 0,
    skipped: [],
    nested: [],
    index: null,
    operation: null,
  };
}

export async function leasedRun(store: Store, run = "sample"): Promise<Lease> {
  await store.createRun({ id: run, workflow: "sample", work: { kind: "none" } });
  return store.takeLease({ run, label: "sample writer" });
}

export function save(
  store: Store,
  lease: Lease,
  params: SamplePlanes & Partial<Omit<NewCheckpoint, "planes">> = {},
): Promise<Committed> {
  const { values, stage, iteration, score, tree, ...rest } = params;
  const planes = samplePlanes({
    ...(values === undefined ? {} : { values }),
    ...(stage === undefined ? {} : { stage }),
    ...(iteration === undefined ? {} : { iteration }),
    ...(score === undefined ? {} : { score }),
    ...(tree === undefined ? {} : { tree }),
  });
  return store.commit({ lease, checkpoint: { trigger: "manual", ...rest, planes } });
}
