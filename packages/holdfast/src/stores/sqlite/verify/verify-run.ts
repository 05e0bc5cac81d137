import type { CheckpointBooks } from "../checkpoints.ts";
import type { Effects } from "../effects.ts";
import type { Handle } from "../handle.ts";
import { journalEntry } from "../journal.ts";
import type { LogRow } from "../log.ts";
import type { RunRow } from "../runs.ts";
import { asHoldfastError } from "../sqlite-errors.ts";
import { parentOf } from "../summary.ts";
import { type Refold, compareFold, createRefold } from "./verify-fold.ts";
import { birthDigest, checkpointBodyText, entryHash } from "@holdfast/core/journal";
import type { Digest } from "@holdfast/core/json";
import { canonicalJson } from "@holdfast/core/values/canonical-json";
import { digestOf } from "@holdfast/core/values/digest-of";
import type { Problem } from "@holdfast/core/store";

export interface RunProgress {
  readonly run: string;
  readonly checked: number;
}

export interface RunVerdict {
  readonly entries: number;
  readonly checkpoints: number;
  readonly chunks: number;
  readonly problems: readonly Problem[];
}

const PAGE = 128;
/** A run with more is lost beyond what a list could tell. */
const MOST_PROBLEMS = 1000;

interface Walk {
  readonly row: RunRow;
  readonly scope: "all" | "journal";
  readonly fold: Refold;
  readonly verified: Map<number, Digest>;
  readonly found: {
    readonly code: Problem["code"];
    readonly entry: number | null;
    readonly sequence: number | null;
    readonly what: string;
  }[];
  entry: number;
  hash: Digest;
  /** The index of entries is damaged where the run's last ones stand. */
  endless: boolean;
  /** Last entry before the first break of the chain. */
  trustedTo: number | null;
  newestIntact: number | null;
  checkpoints: number;
}

/**
 * One run from its birth record to its last entry. After a break the walk goes on from the stored hash, so that each
 * damaged entry is named once and those behind it are not blamed for it.
 */
export function* verifyRun(
  handle: Handle,
  books: CheckpointBooks,
  effects: Effects,
  { no, scope }: { readonly no: number; readonly scope: Walk["scope"] },
): Generator<RunProgress, RunVerdict> {
  const { transactions, layout } = handle;
  let row: RunRow | undefined;
  try {
    row = transactions.read(() => handle.runs.byNumber(no));
  } catch (error) {
    const what = `Run number ${no}: ${asHoldfastError(error, layout.directory).message}`;
    const problem: Problem = {
      code: "STORE_CORRUPT",
      run: null,
      entry: null,
      sequence: null,
      what,
      trustedTo: null,
      newestIntact: null,
    };
    return { entries: 0, checkpoints: 0, chunks: 0, problems: [problem] };
  }
  if (row === undefined) return { entries: 0, checkpoints: 0, chunks: 0, problems: [] };
  const walk: Walk = {
    row,
    scope,
    fold: createRefold(),
    verified: new Map(),
    found: [],
    entry: 0,
    hash: birthDigest(row.run, handle.hasher),
    endless: false,
    trustedTo: null,
    newestIntact: null,
    checkpoints: 0,
  };
  while (nextPage(handle, books, effects, walk) === "more") yield { run: row.run.id, checked: walk.entry };
  return {
    entries: walk.entry,
    checkpoints: walk.checkpoints,
    chunks: walk.verified.size,
    problems: walk.found.map((one) => ({
      ...one,
      run: row.run.id,
      trustedTo: walk.trustedTo ?? walk.entry,
      newestIntact: walk.newestIntact,
    })),
  };
}

function nextPage(handle: Handle, books: CheckpointBooks, effects: Effects, walk: Walk): "more" | "end" {
  try {
    return handle.transactions.read(() => page(handle, books, effects, walk));
  } catch (error) {
    blame(walk, walk.entry, null, asHoldfastError(error, handle.layout.directory).message);
    return "end";
  }
}

/** The comparison with the folded tables happens in the same transaction that saw the run's end, so writers cannot come between. */
function page(handle: Handle, books: CheckpointBooks, effects: Effects, walk: Walk): "more" | "end" {
  // The end stays where it is as long as the read lasts, and looking for it costs as much as an entry.
  let end = lastEntry(handle, walk);
  for (let i = 0; i < PAGE; i++) {
    if (walk.endless) end = lastEntry(handle, walk);
    if (walk.entry >= end || walk.found.length >= MOST_PROBLEMS) {
      if (end === 0) blame(walk, null, null, "It has no journal");
      for (const what of attempt(handle, () => compareFold(handle, books, effects, walk)))
        blame(walk, null, null, what, "fold");
      return "end";
    }
    walk.entry += 1;
    for (const what of attempt(handle, () => checkEntry(handle, books, walk))) blame(walk, walk.entry, null, what);
  }
  return "more";
}

/** Where the end cannot be read any more, as far as the next entry can still be found. */
function lastEntry(handle: Handle, walk: Walk): number {
  const { no } = walk.row;
  try {
    if (!walk.endless) return handle.places.lastEntry(no)?.number ?? 0;
  } catch (error) {
    walk.endless = true;
    const { message } = asHoldfastError(error, handle.layout.directory);
    blame(walk, null, null, `Its last entry cannot be found: ${message}`, "fold");
  }
  try {
    return handle.places.entry(no, walk.entry + 1) === undefined ? walk.entry : walk.entry + 1;
  } catch {
    return walk.entry;
  }
}

function checkEntry(handle: Handle, books: CheckpointBooks, walk: Walk): readonly string[] {
  const { row: run, entry } = walk;
  const pos = handle.places.entry(run.no, entry);
  const row = pos === undefined ? undefined : handle.log.get(pos);
  if (row === undefined) return [`Journal entry ${entry} is gone`];
  const problems: string[] = [];
  if (row.run !== run.no || row.entry !== entry) problems.push(`The place of entry ${entry} holds another entry`);
  const at = new Date(row.at).toISOString();
  const journal = row.checkpoint === null ? journalEntry(handle, run.run.id, row) : null;
  const body =
    row.checkpoint === null
      ? canonicalJson(journal?.body ?? {})
      : checkpointBodyText(row.checkpoint, parentOf(run.run.id, row.checkpoint));
  const link = { run: run.run.id, entry, kind: row.kind, at, epoch: row.epoch, body };
  const previous = walk.hash;
  walk.hash = row.hash;
  const linked = entryHash(previous, link, handle.hasher) === row.hash;
  if (!linked) {
    problems.push(`The chain breaks at entry ${entry}: its hash does not follow from its content and the one before`);
  }
  if (journal !== null) problems.push(...attempt(handle, () => (walk.fold.add(journal), [])));
  else checkCheckpoint(handle, books, walk, row, linked);
  return problems;
}

/**
 * Damage to the planes breaks no chain: it is told of the checkpoint, and the entries behind it stay trusted. But a
 * checkpoint that does not follow from the entry before (`linked`) cannot be proven, and nobody is given it.
 */
function checkCheckpoint(handle: Handle, books: CheckpointBooks, walk: Walk, row: LogRow, linked: boolean): void {
  const columns = row.checkpoint;
  if (columns === null) return;
  const { sequence } = columns;
  const { no } = walk.row;
  for (const what of walk.fold.checkpoint(columns, row)) blame(walk, row.entry, sequence, what);
  if (walk.scope === "journal") return;
  const problems = attempt(handle, () => {
    const root = handle.log.body(row.pos);
    if (root === null) {
      return books.tombstones.get(no, sequence) === undefined
        ? [`The planes of checkpoint ${sequence} are gone without a tombstone`]
        : [];
    }
    walk.checkpoints += 1;
    if (handle.places.mark(no, sequence) !== row.pos) return [`Checkpoint ${sequence} is not where the index says`];
    if (!(root instanceof Uint8Array)) return [`The planes of checkpoint ${sequence} are no bytes`];
    const { packs, hasher } = handle;
    const digest = digestOf({ root: packs.root(row.pos, root), source: packs.source, hasher, verified: walk.verified });
    if (digest !== columns.root) return [`The planes of checkpoint ${sequence} do not give their digest`];
    if (linked && !books.quarantine.has(no, sequence)) walk.newestIntact = sequence;
    return [];
  });
  for (const what of problems) blame(walk, row.entry, sequence, what);
}

/** `about`: a wrong table beside the journal does not make the journal less trustworthy. */
function blame(
  walk: Walk,
  entry: number | null,
  sequence: number | null,
  what: string,
  about: "journal" | "fold" = "journal",
): void {
  if (about === "journal" && sequence === null) walk.trustedTo ??= Math.max((entry ?? 1) - 1, 0);
  if (walk.found.length < MOST_PROBLEMS) walk.found.push({ code: "STORE_CORRUPT", entry, sequence, what });
}

function attempt(handle: Handle, check: () => readonly string[]): readonly string[] {
  try {
    return check();
  } catch (error) {
    return [asHoldfastError(error, handle.layout.directory).message];
  }
}
