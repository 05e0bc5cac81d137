import { rowPackOf } from "../pack/chunk-id.ts";
import { checkpointAt } from "../find-checkpoint.ts";
import type { Job } from "../group-commit.ts";
import type { Handle } from "../handle.ts";
import type { Head } from "../witness/heads.ts";
import {
  type Packed,
  SAVE_LEVEL,
  fromRecord,
  isRawRecord,
  isRecord,
  packChunks,
  unpackChunks,
} from "../pack/pack-codec.ts";
import { bundlePart } from "../pack/root-body.ts";
import { checkpointId } from "../summary.ts";
import type { Tags } from "../tags.ts";
import type { Stone, Tombstones } from "./tombstones.ts";
import { deepFreeze } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { type Drop, type Tombstone, checkpointNotFound, dropConflict } from "@holdfast/core/store";

interface DropPlan {
  readonly head: Head;
  /** Of those that are still there. */
  readonly drops: readonly { readonly drop: Drop; readonly pos: number }[];
}

export interface DropBooks {
  readonly tags: Tags;
  readonly tombstones: Tombstones;
}

/** The checkpoint's row stays in the log, so the chain can still be recomputed; its planes go, and its mark. */
export function drop(
  handle: Handle,
  books: DropBooks,
  params: { readonly run: string; readonly drops: readonly Drop[] },
): Job<DropPlan, readonly Tombstone[]> {
  const { tags, tombstones } = books;
  return {
    plan() {
      const head = handle.heads.of(params.run);
      const tagged = tags.bySequence(head.no);
      const drops: { drop: Drop; pos: number }[] = [];
      const seen = new Set<number>();
      for (const wish of params.drops) {
        const id = checkpointId(params.run, wish.sequence);
        const pos = handle.places.mark(head.no, wish.sequence);
        if (pos === undefined) {
          if (tombstones.get(head.no, wish.sequence) === undefined) throw checkpointNotFound(id);
          continue;
        }
        if (wish.sequence === head.sequence) throw dropConflict({ id, why: "it is the newest of its run" });
        const names = tagged.get(wish.sequence);
        if (names !== undefined) throw dropConflict({ id, why: `it carries the tag ${names.join(", ")}` });
        if (!seen.has(wish.sequence)) drops.push({ drop: wish, pos });
        seen.add(wish.sequence);
      }
      return { head, drops };
    },
    apply({ head, drops }) {
      if (drops.length > 0) {
        const moment = handle.now();
        for (const { drop: wish, pos } of drops) {
          detachPack(handle, pos);
          handle.log.empty(pos);
          tombstones.put(head.no, { sequence: wish.sequence, pos, at: moment.ms, why: wish.why });
        }
        handle.places.unmark(
          head.no,
          drops.map(({ drop: wish }) => wish.sequence),
        );
        handle.runs.addDropped(head.no, drops.length);
        const body = { drops: drops.map(({ drop: wish }) => ({ sequence: wish.sequence, why: wish.why })) };
        handle.append.outside(head, { kind: "checkpoint.dropped", body }, moment);
      }
      const wanted = new Set(params.drops.map((wish) => wish.sequence));
      return tombstonesOf(
        handle,
        head.run.id,
        tombstones.list(head.no).filter((stone) => wanted.has(stone.sequence)),
      );
    },
  };
}

/** Other checkpoints may refer to chunks that this one brought: its pack stays, as one of its own, for sweep to judge. */
function detachPack(handle: Handle, pos: number): void {
  const body = handle.log.body(pos);
  const packed = body instanceof Uint8Array ? packedIn(handle, pos, body) : undefined;
  if (packed !== undefined) handle.packTable.insert(rowPackOf(pos), packed, handle.log.get(pos)?.at ?? 0);
}

function packedIn(handle: Handle, pos: number, body: Uint8Array): Packed | undefined {
  if (isRawRecord(body)) return packChunks(unpackChunks(fromRecord(body)), SAVE_LEVEL);
  if (isRecord(body)) return fromRecord(body);
  if (bundlePart(body) === undefined) return undefined;
  try {
    const chunks = handle.packs.chunks(rowPackOf(pos));
    return chunks === undefined ? undefined : packChunks(chunks, SAVE_LEVEL);
  } catch (error) {
    // What is damaged beyond reading cannot be moved, and must not keep anybody from dropping it.
    if (error instanceof HoldfastError && error.code === "STORE_CORRUPT") return undefined;
    throw error;
  }
}

export function tombstonesOf(handle: Pick<Handle, "log">, run: string, stones: readonly Stone[]): readonly Tombstone[] {
  return deepFreeze(
    stones.map((stone) => {
      const { row, columns } = checkpointAt(handle, stone.pos);
      return {
        run,
        sequence: stone.sequence,
        entry: row.entry,
        digest: row.hash,
        trigger: columns.trigger,
        createdAt: new Date(row.at).toISOString(),
        droppedAt: new Date(stone.at).toISOString(),
        why: stone.why,
      };
    }),
  );
}
