import { append } from "./append.ts";
import type { MemoryRun, MemoryWorld } from "./world.ts";
import { checkpointBody } from "../../core/journal/chain.ts";
import type { CheckpointParent, CheckpointSummary, Planes } from "../../core/checkpoint/checkpoint.ts";
import type { CapturedCheckpoint, CapturedCommit, CapturedPlanes } from "../capture-commit.ts";
import { foldEffects } from "../fold-effects.ts";
import { foldRunEntries } from "../fold-run.ts";
import { deepFreeze } from "../../core/deep-freeze.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import { leaseLost, sequenceConflict } from "../../core/refusals.ts";
import { encode } from "../../core/values/index.ts";
import type { Committed } from "../../ports/store.ts";
import { sha256 } from "../../system/hash.ts";

/** All checks first: when it throws, nothing was changed. */
export function commit(
  world: MemoryWorld,
  run: MemoryRun,
  params: { readonly captured: CapturedCommit; readonly token: string; readonly at: string },
): Committed {
  const { captured, at } = params;
  const { epoch, token } = captured.lease;
  const id = run.run.id;
  if (token !== params.token || run.lease?.owner.token !== token || run.epoch !== epoch) {
    throw leaseLost({ run: id, epoch, current: run.lease });
  }
  const expected = captured.checkpoint?.sequence ?? null;
  if (expected !== null && expected !== run.sequence + 1) {
    throw sequenceConflict({ run: id, expected, next: run.sequence + 1 });
  }
  const { entries } = captured;
  const told = { run: id, at, entries, after: run.entries.length };
  const effects = foldEffects({ ...told, current: (key) => run.effects.get(key) });
  const fold = foldRunEntries({ ...told, current: () => run.fold });
  for (const { kind, body } of entries) append(world, run, { kind, body: body(), epoch, at });
  if (fold !== null) run.fold = fold;
  for (const effect of effects) run.effects.set(effect.key, effect);
  const checkpoint =
    captured.checkpoint === null ? null : save(world, run, { checkpoint: captured.checkpoint, epoch, at });
  const last = run.entries.at(-1);
  return deepFreeze({ entry: last?.entry ?? 0, head: last?.hash ?? "", checkpoint });
}

function save(
  world: MemoryWorld,
  run: MemoryRun,
  params: { readonly checkpoint: CapturedCheckpoint; readonly epoch: number; readonly at: string },
): CheckpointSummary {
  const { checkpoint, epoch, at } = params;
  const id = run.run.id;
  let added = 0;
  const sink = {
    put(digest: string, bytes: Uint8Array): number {
      const known = world.chunks.get(digest);
      if (known !== undefined) return known;
      added += bytes.length;
      world.chunks.set(digest, world.chunks.size);
      return world.chunks.size - 1;
    },
  };
  const planes = valueOf(checkpoint.planes);
  const encoded = encode({ value: planes, memo: world.memo, hasher: sha256, sink });
  const own: CheckpointParent | null = run.digest === null ? null : { id: `${id}@${run.sequence}`, digest: run.digest };
  const parent = own ?? checkpoint.parent;
  const head = {
    sequence: run.sequence + 1,
    trigger: checkpoint.trigger,
    name: checkpoint.name,
    ...checkpoint.facts,
    logical: encoded.logicalBytes,
    added: added + encoded.root.length,
    root: encoded.digest,
  };
  const entry = append(world, run, { kind: "checkpoint", body: checkpointBody(head, parent), epoch, at });
  const { root, logical, added: grown, ...rest } = head;
  const summary: CheckpointSummary = deepFreeze({
    ...rest,
    parent,
    id: `${id}@${head.sequence}`,
    run: id,
    entry: entry.entry,
    createdAt: at,
    tags: [],
    size: { logical, added: grown },
    digest: entry.digest,
    quarantined: false,
  });
  run.checkpoints.set(head.sequence, { summary, planes, root });
  run.sequence = head.sequence;
  run.digest = entry.digest;
  return summary;
}

function valueOf(planes: CapturedPlanes): Planes & Json {
  if (planes.kind === "value") return planes.value;
  throw new HoldfastError({
    code: "INTERNAL",
    message: "The memory store captures values only",
    hint: "Report this defect.",
  });
}
