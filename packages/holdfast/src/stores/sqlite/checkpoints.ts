import { type CheckpointPlace, checkColumns, checkpointId, summaryOf } from "./summary.ts";
import { type FoundCheckpoint, checkpointAt, findCheckpoint } from "./find-checkpoint.ts";
import type { Handle } from "./handle.ts";
import type { Quarantine } from "./verify/quarantine.ts";
import { asHoldfastError } from "./sqlite-errors.ts";
import type { Tags } from "./tags.ts";
import type { Tombstones } from "./sweep/tombstones.ts";
import type { Checkpoint, CheckpointSummary, Planes } from "@holdfast/core/checkpoint";
import { HoldfastError } from "@holdfast/platform/error";
import type { Digest, Json } from "@holdfast/core/json";
import type { LogRow } from "./log.ts";
import type { Run } from "@holdfast/core/run";
import { type PlaneFacts, planeFacts } from "@holdfast/core/store-commit";
import { decode } from "@holdfast/core/values/decode";
import type { CheckpointQuery } from "@holdfast/core/store";

export interface CheckpointBooks {
  readonly tags: Tags;
  readonly tombstones: Tombstones;
  readonly quarantine: Quarantine;
}

interface RunRef {
  readonly no: number;
  readonly run: Run;
}

export function getCheckpoint(handle: Handle, books: CheckpointBooks, run: RunRef, sequence: number): Checkpoint {
  return readWhole(handle, books, run, findCheckpoint(handle, books.tombstones, run, sequence));
}

/** Passes over the quarantined, which somebody has decided about; never over a damaged one, which nobody has. */
export function latestCheckpoint(handle: Handle, books: CheckpointBooks, run: RunRef): Checkpoint | undefined {
  for (const { number: sequence, pos } of handle.places.marksDown(run.no)) {
    if (!books.quarantine.has(run.no, sequence)) return readWhole(handle, books, run, checkpointAt(handle, pos));
  }
  return undefined;
}

export function listCheckpoints(
  handle: Handle,
  books: CheckpointBooks,
  run: RunRef,
  query: CheckpointQuery,
): readonly CheckpointSummary[] {
  const limit = query.limit ?? Number.POSITIVE_INFINITY;
  const tags = books.tags.bySequence(run.no);
  const damaged = books.quarantine.list(run.no);
  const found: CheckpointSummary[] = [];
  if (limit <= 0) return Object.freeze(found);
  for (const { pos } of handle.places.marksDown(run.no, query.before)) {
    const { row, columns } = checkpointAt(handle, pos);
    if (query.trigger !== undefined && columns.trigger !== query.trigger) continue;
    if (query.stage !== undefined && columns.stage !== query.stage) continue;
    const place = placeOf(run, row);
    checkColumns(place, columns, hashBefore(handle, run, row), handle.hasher);
    const { sequence } = columns;
    found.push(summaryOf(place, columns, { tags: tags.get(sequence) ?? [], quarantined: damaged.has(sequence) }));
    if (found.length >= limit) break;
  }
  return Object.freeze(found);
}

function readWhole(handle: Handle, books: CheckpointBooks, run: RunRef, found: FoundCheckpoint): Checkpoint {
  const { row, columns } = found;
  const { sequence } = columns;
  const tags = books.tags.bySequence(run.no).get(sequence) ?? [];
  const quarantined = books.quarantine.has(run.no, sequence);
  try {
    const planes = readPlanes(handle, run, found);
    return Object.freeze({ ...summaryOf(placeOf(run, row), columns, { tags, quarantined }), planes });
  } catch (error) {
    const told = asHoldfastError(error, handle.layout.directory);
    if (told.code !== "STORE_CORRUPT") throw error;
    throw damagedCheckpoint(run, sequence, newestIntact(handle, books, run, sequence), told);
  }
}

/** Fails closed: every digest from the checkpoint's own down to the last chunk is recomputed. */
function readPlanes(handle: Handle, run: RunRef, { row, columns }: FoundCheckpoint): Planes {
  const { hasher, packs } = handle;
  checkColumns(placeOf(run, row), columns, hashBefore(handle, run, row), hasher);
  const body = handle.log.body(row.pos);
  if (!(body instanceof Uint8Array)) throw corrupt("its planes are gone");
  const planes = decode({
    root: packs.root(row.pos, body),
    source: packs.source,
    memo: packs.memo(),
    check: { hasher, digest: columns.root },
  });
  if (!isPlanes(planes)) throw corrupt("its planes are no object");
  checkFacts(columns, planes);
  return planes;
}

function placeOf(run: RunRef, row: LogRow): CheckpointPlace {
  const { entry, epoch, hash } = row;
  return { run: run.run.id, entry, epoch, createdAt: new Date(row.at).toISOString(), hash };
}

/** undefined when the entry before is gone. A checkpoint is never the first entry. */
function hashBefore(handle: Handle, run: RunRef, row: LogRow): Digest | undefined {
  const pos = handle.places.entry(run.no, row.entry - 1);
  return pos === undefined ? undefined : handle.log.hash(pos);
}

/** The newest below, or above, that reads well; looked for only once damage was met. */
function newestIntact(handle: Handle, books: CheckpointBooks, run: RunRef, damagedSequence: number): number | null {
  let tried = 0;
  for (const { number: sequence, pos } of handle.places.marksDown(run.no)) {
    if (sequence === damagedSequence || books.quarantine.has(run.no, sequence)) continue;
    try {
      readPlanes(handle, run, checkpointAt(handle, pos));
      return sequence;
    } catch {
      tried += 1;
      if (tried >= MOST_TRIES) return null;
    }
  }
  return null;
}

const MOST_TRIES = 100;

function checkFacts(columns: PlaneFacts, planes: Planes): void {
  const facts = planeFacts(planes);
  const same =
    facts.stage === columns.stage &&
    facts.iteration === columns.iteration &&
    facts.score === columns.score &&
    facts.tree === columns.tree;
  if (!same) throw corrupt("its columns differ from its planes");
}

function isPlanes(value: Json): value is Planes & Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) && "position" in value;
}

function corrupt(why: string): HoldfastError {
  return new HoldfastError({ code: "STORE_CORRUPT", message: why });
}

function damagedCheckpoint(run: RunRef, sequence: number, intact: number | null, cause: HoldfastError): HoldfastError {
  const id = checkpointId(run.run.id, sequence);
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The checkpoint ${id} is damaged: ${cause.message}`,
    hint:
      intact === null
        ? "No other checkpoint of the run could be read. Run `holdfast verify`, or restore the store from a backup."
        : `The newest checkpoint that is whole is ${checkpointId(run.run.id, intact)}. Run \`holdfast verify\` to see what else is damaged, and quarantine it.`,
    data: { checkpoint: id, run: run.run.id, sequence, newestIntact: intact },
    cause,
  });
}
