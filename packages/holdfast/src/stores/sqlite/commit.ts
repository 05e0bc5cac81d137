import type { Moment } from "./append.ts";
import type { Effects } from "./effects.ts";
import { type Job, WorkFirst } from "./group-commit.ts";
import type { Handle } from "./handle.ts";
import type { Head } from "./witness/heads.ts";
import { headUnder } from "./leases.ts";
import type { CheckpointColumns } from "./log.ts";
import { PacksForgotten, type WriterMode } from "./pack/packs.ts";
import { foldOf } from "./runs.ts";
import { checkpointId, summaryOf } from "./summary.ts";
import {
  type CapturedCheckpoint,
  type CapturedCommit,
  type CapturedPlanes,
  type RunMemory,
  foldEffects,
  foldRunEntries,
} from "@holdfast/core/store-commit";
import { checkpointBodyText } from "@holdfast/core/journal";
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import { type Effect, concernsEffect } from "@holdfast/core/effects";
import type { Digest } from "@holdfast/core/json";
import { type Committed, runNotFound, sequenceConflict } from "@holdfast/core/store";
import { type RunFold, concernsRun } from "@holdfast/core/status";
import { encode } from "@holdfast/core/values/encode";

/** Effects and the run's state have tables of their own, and chunks may be swept: such commits look before they write. */
function rowsOnlyOf({ entries, checkpoint }: CapturedCommit): number | undefined {
  if (checkpoint !== null && checkpoint.planes.kind !== "text") return undefined;
  for (const { kind } of entries) if (concernsEffect(kind) || concernsRun(kind)) return undefined;
  return entries.length + (checkpoint === null ? 0 : 1);
}

const NO_EFFECTS: readonly Effect[] = [];

interface CommitPlan {
  readonly head: Head;
  readonly effects: readonly Effect[];
  /** null: as it was. */
  readonly fold: RunFold | null;
  readonly moment: Moment;
}

export function commit(
  handle: Handle,
  effects: Effects,
  captured: CapturedCommit,
  memory: RunMemory,
): Job<CommitPlan, Committed> {
  const rowsOnly = rowsOnlyOf(captured);
  if (rowsOnly !== undefined) {
    return {
      rowsOnly,
      plan: () => planRows(handle, captured),
      apply: (plan) => apply(handle, effects, { captured, memory, plan, mode: NOT_IN_CHUNKS }),
    };
  }
  /** The bulk of a large state is written before the commit, without the write lock. */
  let mode: WriterMode = {
    kind: "row",
    tooLarge() {
      mode = { kind: "packs" };
      throw new WorkFirst(() => writeAhead(handle, captured.checkpoint));
    },
  };
  return {
    plan() {
      const { head, moment } = planRows(handle, captured);
      return {
        head,
        effects: ledger(effects, captured, { head, moment }),
        fold: runFold(handle, captured, { head, moment }),
        moment,
      };
    },
    apply: (plan) => apply(handle, effects, { captured, memory, plan, mode }),
  };
}

/** Small planes are one text: no chunks are written. */
const NOT_IN_CHUNKS: WriterMode = {
  kind: "row",
  tooLarge() {
    throw new Error("a small state has no chunks");
  },
};

function planRows(handle: Handle, captured: CapturedCommit): CommitPlan {
  const head = headUnder(handle, captured.lease);
  const expected = captured.checkpoint?.sequence ?? null;
  if (expected !== null && expected !== head.sequence + 1) {
    throw sequenceConflict({ run: head.run.id, expected, next: head.sequence + 1 });
  }
  return { head, effects: NO_EFFECTS, fold: null, moment: handle.now() };
}

function apply(
  handle: Handle,
  effects: Effects,
  params: {
    readonly captured: CapturedCommit;
    readonly memory: RunMemory;
    readonly plan: CommitPlan;
    readonly mode: WriterMode;
  },
): Committed {
  const { captured, plan, mode } = params;
  const { moment } = plan;
  const { epoch } = captured.lease;
  let { head } = plan;
  for (const entry of captured.entries) {
    head = handle.append.entry(head, { kind: entry.kind, body: entry.text, epoch }, moment);
  }
  if (plan.fold !== null) handle.runs.setFold(head.no, plan.fold);
  for (const effect of plan.effects) effects.put(head.no, effect);
  if (captured.checkpoint === null) return Object.freeze({ entry: head.entry, head: head.hash, checkpoint: null });
  const saved = saveCheckpoint(handle, head, { checkpoint: captured.checkpoint, epoch, moment, mode });
  if (saved.summary.size.logical <= SMALL) params.memory.small = true;
  return Object.freeze({ entry: saved.head.entry, head: saved.head.hash, checkpoint: saved.summary });
}

function ledger(
  effects: Effects,
  captured: CapturedCommit,
  { head, moment }: Pick<CommitPlan, "head" | "moment">,
): readonly Effect[] {
  const current = (key: string): Effect | undefined => effects.get(head.no, key);
  return foldEffects({ run: head.run.id, at: moment.iso, entries: captured.entries, after: head.entry, current });
}

function runFold(
  handle: Handle,
  captured: CapturedCommit,
  { head, moment }: Pick<CommitPlan, "head" | "moment">,
): RunFold | null {
  const { run, no, entry } = head;
  const current = (): RunFold => {
    const row = handle.runs.byNumber(no);
    if (row === undefined) throw runNotFound(run.id);
    return foldOf(row);
  };
  return foldRunEntries({ run: run.id, at: moment.iso, entries: captured.entries, after: entry, current });
}

function saveCheckpoint(
  handle: Handle,
  head: Head,
  params: {
    readonly checkpoint: CapturedCheckpoint;
    readonly epoch: number;
    readonly moment: Moment;
    readonly mode: WriterMode;
  },
): { readonly head: Head; readonly summary: CheckpointSummary } {
  const { checkpoint, moment, epoch } = params;
  const stored = storePlanes(handle, checkpoint.planes, params);
  const run = head.run.id;
  const own = head.digest === null ? null : { id: checkpointId(run, head.sequence), digest: head.digest };
  const parent = Object.freeze(own ?? checkpoint.parent);
  const { facts } = checkpoint;
  const columns: CheckpointColumns = {
    sequence: head.sequence + 1,
    trigger: checkpoint.trigger,
    name: checkpoint.name,
    stage: facts.stage,
    iteration: facts.iteration,
    score: facts.score,
    tree: facts.tree,
    origin: own === null && parent !== null ? parent.id : null,
    parent: parent === null ? null : parent.digest,
    root: stored.digest,
    logical: stored.logical,
    added: stored.added,
  };
  const body = checkpointBodyText(columns, parent);
  const next = handle.append.checkpoint(head, { columns, body, root: stored.body, epoch }, moment);
  const place = { run, entry: next.entry, epoch, createdAt: moment.iso, hash: next.hash };
  return { head: next, summary: summaryOf(place, columns, NEW_MARKS, parent) };
}

/** Planes this small may be captured as text the next time. */
const SMALL = 4096;
const NEW_MARKS = { tags: [], quarantined: false };

interface StoredPlanes {
  readonly digest: Digest;
  /** For the checkpoint's row. */
  readonly body: Uint8Array;
  readonly logical: number;
  readonly added: number;
}

function storePlanes(
  handle: Handle,
  planes: CapturedPlanes,
  params: { readonly moment: Moment; readonly mode: WriterMode },
): StoredPlanes {
  const { packs, hasher } = handle;
  if (planes.kind === "text") {
    const body = handle.log.stage(planes.text);
    return { digest: hasher(body), body, logical: body.length, added: body.length };
  }
  const writer = packs.writer({ position: handle.places.next, at: params.moment.ms, mode: params.mode });
  const { digest, root, logicalBytes } = encode({ value: planes.value, memo: packs.memo(), hasher, sink: writer });
  const { body, added } = writer.finish({ digest, bytes: root });
  return { digest, body, logical: logicalBytes, added };
}

/**
 * A state of many megabytes is packed and written before the commit, a pack a transaction, so that memory stays
 * bounded and other writers get their turns. Until the commit nothing refers to it; if a sweep takes it for waste
 * meanwhile, the commit notices and writes it again.
 */
function writeAhead(handle: Handle, checkpoint: CapturedCheckpoint | null): void {
  if (checkpoint === null || checkpoint.planes.kind === "text") return;
  const { packs, hasher, transactions } = handle;
  transactions.read(() => {});
  const mode: WriterMode = { kind: "ahead", transact: (work) => transactions.write(work) };
  const writer = packs.writer({ position: handle.places.next, at: handle.now().ms, mode });
  try {
    encode({ value: checkpoint.planes.value, memo: packs.memo(), hasher, sink: writer });
    writer.flush();
  } catch (error) {
    if (!(error instanceof PacksForgotten)) throw error;
  }
}
