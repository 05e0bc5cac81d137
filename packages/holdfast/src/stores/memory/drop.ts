import { append } from "./append.ts";
import type { MemoryRun, MemoryWorld } from "./world.ts";
import { deepFreeze } from "../../core/deep-freeze.ts";
import { checkpointNotFound, dropConflict } from "../../core/refusals.ts";
import { checkSequence } from "../../core/checkpoint/store-arguments.ts";
import type { Drop, Tombstone } from "../../ports/store.ts";

/** All checks first: when it throws, nothing was dropped. */
export function drop(
  world: MemoryWorld,
  run: MemoryRun,
  params: { readonly drops: readonly Drop[]; readonly at: string },
): readonly Tombstone[] {
  const fresh = new Map<number, string>();
  for (const { sequence, why } of params.drops) {
    const id = `${run.run.id}@${checkSequence(sequence)}` as const;
    if (!run.checkpoints.has(sequence)) {
      if (!run.tombstones.has(sequence)) throw checkpointNotFound(id);
      continue;
    }
    if (sequence === run.sequence) throw dropConflict({ id, why: "it is the newest of its run" });
    const names = [...run.tags].filter(([, tagged]) => tagged === sequence).map(([name]) => name);
    if (names.length > 0) throw dropConflict({ id, why: `it carries the tag ${names.join(", ")}` });
    if (!fresh.has(sequence)) fresh.set(sequence, why);
  }
  for (const [sequence, why] of fresh) {
    const found = run.checkpoints.get(sequence);
    if (found === undefined) continue;
    const { entry, digest, trigger, createdAt } = found.summary;
    run.tombstones.set(
      sequence,
      deepFreeze({ run: run.run.id, sequence, entry, digest, trigger, createdAt, droppedAt: params.at, why }),
    );
    run.checkpoints.delete(sequence);
  }
  if (fresh.size > 0) {
    const drops = [...fresh].map(([sequence, why]) => ({ sequence, why }));
    append(world, run, { kind: "checkpoint.dropped", body: { drops }, epoch: 0, at: params.at });
  }
  const wanted = new Set(params.drops.map(({ sequence }) => sequence));
  return Object.freeze(
    [...run.tombstones.values()].filter(({ sequence }) => wanted.has(sequence)).sort((a, b) => a.sequence - b.sequence),
  );
}
