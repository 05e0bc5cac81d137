import type { DatabaseSync } from "node:sqlite";
import { bytes, integer } from "../columns.ts";
import type { Handle } from "../handle.ts";
import { createLiveChunks } from "./mark-live.ts";
import { planPack } from "../pack/plan-pack.ts";
import { recompressRows } from "./recompress-rows.ts";
import { createRepack } from "./repack.ts";
import { referredChunk } from "../pack/root-body.ts";
import { asHoldfastError, isBusy } from "../sqlite-errors.ts";
import { sweepBundles } from "./sweep-bundles.ts";
import { sweepFiles } from "./sweep-files.ts";
import type { SweepReport } from "@holdfast/core/store";

export interface SweepParams {
  /** Packs older than this are compressed harder. */
  readonly compressBefore: number | null;
  readonly dryRun: boolean;
}

type Tally = { -readonly [K in keyof SweepReport]: SweepReport[K] };

/** Packs looked at in one transaction, and bytes compressed anew in one: others write in between. */
const SLICE = 64;
const SLICE_BYTES = 2 << 20;
const ROOTS_AT_ONCE = 512;

export async function sweep(handle: Handle, params: SweepParams): Promise<SweepReport> {
  await handle.group.idle();
  const tally: Tally = { chunks: 0, packs: 0, blobs: 0, temporaryFiles: 0, freedBytes: 0, recompressed: 0 };
  const transact = <T>(work: () => T): Promise<T> =>
    patiently(() => (params.dryRun ? handle.transactions.read(work) : writeAndForget(handle, work)));
  try {
    await bundleAll(handle, params, transact);
    await freeChunks(handle, params, tally, transact);
    await freeBundles(handle, params, tally, transact);
    if (params.compressBefore !== null)
      await recompressOld(handle, { before: params.compressBefore, dryRun: params.dryRun }, tally, transact);
    const files = await transact(() => sweepFiles(handle, params.dryRun));
    tally.blobs = files.blobs;
    tally.temporaryFiles = files.temporaryFiles;
    tally.freedBytes += files.freedBytes;
    return Object.freeze(tally);
  } catch (error) {
    throw asHoldfastError(error, handle.layout.directory);
  }
}

type Transact = <T>(work: () => T) => Promise<T>;

/**
 * Marks from every live checkpoint without any lock; then, slice by slice under the write lock, marks what was
 * committed meanwhile and frees what is still unreached. Each slice that frees something raises the generation, so
 * that every handle drops what it remembers of chunks before it saves again. Newest packs go first: a chunk refers only
 * to chunks with smaller ids, so at no moment does one that can still be found refer to one that is gone.
 */
async function freeChunks(handle: Handle, params: SweepParams, tally: Tally, transact: Transact): Promise<void> {
  const { roots, packs, raise } = prepare(handle.db);
  const live = createLiveChunks(handle.packs.source);
  const repack = createRepack(handle);
  let marked = 0;

  function markUpTo(last: number): void {
    for (const row of roots.iterate(marked, last)) {
      const body = bytes(row, "body");
      const referred = referredChunk(body);
      if (referred !== undefined) live.keep(referred);
      live.mark(handle.packs.root(integer(row, "pos"), body));
    }
    marked = last;
  }

  /** Returns the lowest pack it came to; null at the end. */
  function slice(below: number): number | null {
    const rows = packs.all(below, SLICE);
    if (rows.length === 0) return null;
    markUpTo(handle.log.last());
    let freed = false;
    let work = 0;
    let reached = below;
    for (const row of rows) {
      reached = integer(row, "id");
      const plan = planPack(row, live, params.compressBefore);
      if (plan.kind === "keep") continue;
      const done = repack.apply(plan, params.dryRun);
      tally.chunks += done.chunks;
      tally.packs += done.packs;
      tally.freedBytes += done.freedBytes;
      tally.recompressed += done.recompressed;
      freed ||= done.chunks > 0 || done.packs > 0;
      work += done.work;
      if (work > SLICE_BYTES) break;
    }
    if (freed && !params.dryRun) raise.run();
    return reached;
  }

  for (let to = 0, last = handle.log.last(); to < last; await turn()) {
    to = Math.min(to + ROOTS_AT_ONCE, last);
    const until = to;
    handle.transactions.read(() => markUpTo(until));
  }
  for (let below: number | null = Number.MAX_SAFE_INTEGER; below !== null; await turn()) {
    const from: number = below;
    below = await transact(() => slice(from));
  }
}

/** Whatever a killed process left uncompressed, too. */
async function bundleAll(handle: Handle, { dryRun }: SweepParams, transact: Transact): Promise<void> {
  if (dryRun) return;
  while ((await transact(() => handle.bundler.bundle("now"))) === "more") await turn();
}

async function freeBundles(handle: Handle, params: SweepParams, tally: Tally, transact: Transact): Promise<void> {
  for (let below: number | null = Number.MAX_SAFE_INTEGER; below !== null; await turn()) {
    const from: number = below;
    const done = await transact(() => sweepBundles(handle, { ...params, below: from }));
    tally.packs += done.packs;
    tally.freedBytes += done.freedBytes;
    tally.recompressed += done.recompressed;
    below = done.reached;
  }
}

async function recompressOld(
  handle: Handle,
  params: { readonly before: number; readonly dryRun: boolean },
  tally: Tally,
  transact: Transact,
): Promise<void> {
  for (let after: number | null = 0; after !== null; await turn()) {
    const from: number = after;
    const done = await transact(() => recompressRows(handle, { ...params, after: from }));
    tally.recompressed += done.packs;
    tally.freedBytes += done.freedBytes;
    after = done.reached;
  }
}

/** In one breath with the commit: no save of this handle may lean on what it remembers in between. */
function writeAndForget<T>(handle: Handle, work: () => T): T {
  const result = handle.transactions.write(work);
  handle.packs.forget();
  return result;
}

function prepare(db: DatabaseSync) {
  return {
    roots: db.prepare(
      "SELECT pos, body FROM log WHERE pos > ? AND pos <= ? AND sequence IS NOT NULL AND body IS NOT NULL",
    ),
    packs: db.prepare("SELECT id, level, at, slots FROM packs WHERE id < ? ORDER BY id DESC LIMIT ?"),
    raise: db.prepare("UPDATE meta SET value = value + 1 WHERE key = 'generation'"),
  };
}

/** Lets the event loop turn: a sweep is never urgent. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function patiently<T>(work: () => T): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || tries >= 50) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 20 + Math.random() * 80));
  }
}
