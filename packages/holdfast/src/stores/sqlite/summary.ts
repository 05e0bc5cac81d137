import type { CheckpointColumns } from "./log.ts";
import { checkpointBodyText, entryHash } from "@holdfast/core/journal";
import type { CheckpointId, CheckpointParent, CheckpointSummary } from "@holdfast/core/checkpoint";
import { HoldfastError } from "@holdfast/platform/error";
import type { Digest, Hasher } from "@holdfast/core/json";

/** What is known of a checkpoint besides its columns. */
export interface CheckpointPlace {
  readonly run: string;
  readonly entry: number;
  readonly epoch: number;
  readonly createdAt: string;
  readonly hash: Digest;
}

/** What is kept beside the journal and may change. */
export interface CheckpointMarks {
  readonly tags: readonly string[];
  readonly quarantined: boolean;
}

export function summaryOf(
  place: CheckpointPlace,
  columns: CheckpointColumns,
  marks: CheckpointMarks,
  parent = parentOf(place.run, columns),
): CheckpointSummary {
  const { run } = place;
  const { tags, quarantined } = marks;
  return Object.freeze({
    id: checkpointId(run, columns.sequence),
    run,
    sequence: columns.sequence,
    entry: place.entry,
    parent,
    trigger: columns.trigger,
    name: columns.name,
    createdAt: place.createdAt,
    stage: columns.stage,
    iteration: columns.iteration,
    score: columns.score,
    tree: columns.tree,
    tags: tags.length === 0 ? NO_TAGS : Object.freeze([...tags]),
    size: Object.freeze({ logical: columns.logical, added: columns.added }),
    digest: place.hash,
    quarantined,
  });
}

const NO_TAGS: readonly string[] = Object.freeze([]);

/** As a rule the checkpoint before; a fork's first names another run's. */
export function parentOf(run: string, columns: CheckpointColumns): CheckpointParent | null {
  if (columns.parent === null) return null;
  const id = columns.origin === null ? checkpointId(run, columns.sequence - 1) : parseCheckpointId(columns.origin);
  return Object.freeze({ id, digest: columns.parent });
}

/** STORE_CORRUPT when anything in the row was changed: lists are checked too, not only what is read whole. */
export function checkColumns(
  place: CheckpointPlace,
  columns: CheckpointColumns,
  previous: Digest | undefined,
  hasher: Hasher,
): void {
  const { run, entry, epoch, createdAt } = place;
  const body = checkpointBodyText(columns, parentOf(run, columns));
  const link = { run, entry, kind: "checkpoint", at: createdAt, epoch, body } as const;
  if (previous !== undefined && entryHash(previous, link, hasher) === place.hash) return;
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The record of checkpoint ${checkpointId(run, columns.sequence)} does not give its digest`,
    hint: "Run `holdfast verify` to see which checkpoints are still whole.",
    data: { run, sequence: columns.sequence },
  });
}

export function checkpointId(run: string, sequence: number): CheckpointId {
  return `${run}@${sequence}`;
}

function parseCheckpointId(text: string): CheckpointId {
  const at = text.lastIndexOf("@");
  const sequence = Number(text.slice(at + 1));
  if (at > 0 && Number.isSafeInteger(sequence)) return `${text.slice(0, at)}@${sequence}`;
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: `${JSON.stringify(text)} is no checkpoint id`,
    hint: "Run `holdfast verify`.",
  });
}
