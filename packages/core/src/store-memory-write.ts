// The writing operations of the memory store, and the state that its handles share.

import { livenessOf, randomId } from "@holdfast/platform/identity";
import type { EncodedValue } from "./chunks.ts";
import type { CheckpointParent, CheckpointSummary, Planes } from "./checkpoint.ts";
import type { Effect } from "./effects.ts";
import { type EntryKind, type JournalEntry, birthDigest, checkpointBody, entryHash } from "./journal.ts";
import { type Digest, type Json, type JsonObject, deepFreeze, sha256 } from "./json.ts";
import { type Lease, type LeaseOwner, type LeasePlan, planLease, priorityKey, readPriority } from "./lease.ts";
import type { Run } from "./run.ts";
import type { StoredSignal } from "./signal.ts";
import type { RunFold } from "./status.ts";
import {
  type CapturedCheckpoint,
  type CapturedCommit,
  checkSequence,
  chooseSlot,
  foldEffects,
  foldRunEntries,
} from "./store-commit.ts";
import {
  type Committed,
  type Drop,
  type SlotClaim,
  type Tombstone,
  checkpointNotFound,
  dropConflict,
  leaseHeld,
  leaseLost,
  sequenceConflict,
} from "./store.ts";
import { canonicalJson } from "./values.ts";

/** Checks everything first: when it throws, nothing was changed. */
export function commit(
  world: MemoryState,
  run: MemoryRun,
  params: { readonly captured: CapturedCommit<null, MemoryPlanes>; readonly token: string; readonly at: string },
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
  world: MemoryState,
  run: MemoryRun,
  params: { readonly checkpoint: CapturedCheckpoint<MemoryPlanes>; readonly epoch: number; readonly at: string },
): CheckpointSummary {
  const { checkpoint, epoch, at } = params;
  const id = run.run.id;
  const { planes, encoded } = checkpoint.planes;
  const fresh = encoded.chunks.filter(({ digest }) => !world.chunks.has(digest));
  for (const { digest } of fresh) world.chunks.add(digest);
  const own: CheckpointParent | null = run.digest === null ? null : { id: `${id}@${run.sequence}`, digest: run.digest };
  const parent = own ?? checkpoint.parent;
  const head = {
    sequence: run.sequence + 1,
    trigger: checkpoint.trigger,
    name: checkpoint.name,
    ...checkpoint.facts,
    logical: encoded.bytes,
    added: fresh.reduce((sum, { text }) => sum + Buffer.byteLength(text), Buffer.byteLength(encoded.root)),
    root: sha256(encoded.root),
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

/** Checks everything first: when it throws, nothing was dropped. */
export function drop(
  world: MemoryState,
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

export function takeLease(
  world: MemoryState,
  run: MemoryRun,
  params: {
    readonly owner: LeaseOwner;
    readonly now: number;
    readonly staleAfterMs: number;
    readonly slot: SlotClaim | undefined;
    /** Called when nothing refuses the lease, before any write: the run may not exist yet. */
    readonly make: () => void;
  },
): Lease {
  const { owner, now } = params;
  const held = run.lease;
  const liveness = held === null ? "dead" : livenessOf(held.owner, owner);
  const plan = planLease({
    epoch: run.epoch,
    held,
    token: owner.token,
    liveness,
    now,
    staleAfterMs: params.staleAfterMs,
  });
  if (plan.kind === "refuse") throw leaseHeld(plan.lease);
  const slot = slotFor(world, run, plan, params);
  params.make();
  const place = slot === undefined ? {} : { slot };
  switch (plan.kind) {
    case "held_by_us":
      if (plan.lease.slot !== slot) run.lease = deepFreeze({ ...plan.lease, ...place });
      return run.lease ?? plan.lease;
    case "take": {
      const at = new Date(now).toISOString();
      const lease: Lease = deepFreeze({
        run: run.run.id,
        epoch: plan.epoch,
        owner: { ...owner },
        takenAt: at,
        heartbeatAt: at,
        ...place,
      });
      run.lease = lease;
      run.epoch = plan.epoch;
      const from = plan.from === null ? null : { ...ownerRecord(plan.from), heartbeatAt: plan.from.heartbeatAt };
      const body: JsonObject = { owner: ownerRecord(lease), from };
      append(world, run, { kind: "lease.taken", body, epoch: plan.epoch, at });
      return lease;
    }
  }
}

function slotFor(
  world: MemoryState,
  run: MemoryRun,
  plan: Exclude<LeasePlan, { readonly kind: "refuse" }>,
  params: Parameters<typeof takeLease>[2],
): Lease["slot"] {
  const { slot: wish, now, staleAfterMs, owner } = params;
  if (wish === undefined) return plan.kind === "held_by_us" ? plan.lease.slot : undefined;
  const priorityOf = (id: string): number => readPriority(world.facts.get(priorityKey(id)));
  const others = [...world.runs.values()].flatMap(({ lease }) =>
    lease?.slot === undefined
      ? []
      : [{ lease, liveness: livenessOf(lease.owner, owner), priority: priorityOf(lease.run) }],
  );
  const { id } = run.run;
  return chooseSlot({ run: id, plan, wish, priority: priorityOf(id), others, now, staleAfterMs });
}

interface Claim {
  readonly lease: Lease;
  readonly token: string;
  readonly at: string;
}

export function renewLease(run: MemoryRun, claim: Claim): Lease {
  if (!holds(run, claim)) throw leaseLost({ run: run.run.id, epoch: claim.lease.epoch, current: run.lease });
  const lease: Lease = deepFreeze({ ...(run.lease ?? claim.lease), heartbeatAt: claim.at });
  run.lease = lease;
  return lease;
}

export function releaseLease(world: MemoryState, run: MemoryRun, claim: Claim): void {
  if (!holds(run, claim)) return;
  run.lease = null;
  append(world, run, {
    kind: "lease.released",
    body: { owner: ownerRecord(claim.lease) },
    epoch: run.epoch,
    at: claim.at,
  });
}

function holds(run: MemoryRun, { lease, token }: Claim): boolean {
  return lease.owner.token === token && run.lease?.owner.token === token && run.epoch === lease.epoch;
}

function ownerRecord(lease: Lease): JsonObject {
  const { host, pid, started, boot, label } = lease.owner;
  return { host, pid, started, boot, label, epoch: lease.epoch };
}

/** Appends an entry with its number and its hash in the chain. */
export function append(
  world: MemoryState,
  run: MemoryRun,
  entry: { readonly kind: EntryKind; readonly body: JsonObject; readonly epoch: number; readonly at: string },
): JournalEntry {
  const { kind, at, epoch, body } = entry;
  const text = canonicalJson(body);
  const previous = run.entries.at(-1)?.hash ?? birthDigest(run.run);
  const link = { run: run.run.id, entry: run.entries.length + 1, kind, at, epoch };
  const hash = entryHash(previous, { ...link, body: text });
  const digest = kind === "checkpoint" ? hash : sha256(text);
  const journal: JournalEntry = deepFreeze({ ...link, body, digest, hash });
  run.entries.push(journal);
  world.log.push(journal);
  return journal;
}

/** The state that the handles of one memory store share. It is lost with the process. */
export interface MemoryState {
  readonly id: string;
  /** In the order of creation. */
  readonly runs: Map<string, MemoryRun>;
  /** Every entry of every run, in the order of commit. */
  readonly log: JournalEntry[];
  readonly facts: Map<string, string>;
  readonly listeners: Set<() => void>;
  /** Digests of the parts of all states, to tell what a save added. */
  readonly chunks: Set<string>;
}

export interface MemoryRun {
  readonly run: Run;
  epoch: number;
  lease: Lease | null;
  readonly entries: JournalEntry[];
  fold: RunFold;
  /** By sequence; without tags and quarantine marks, which reads add. */
  readonly checkpoints: Map<number, MemoryCheckpoint>;
  sequence: number;
  digest: Digest | null;
  readonly tags: Map<string, number>;
  readonly effects: Map<string, Effect>;
  readonly signals: Map<string, StoredSignal>;
  readonly tombstones: Map<number, Tombstone>;
  readonly quarantined: Set<number>;
}

/** The planes of a commit: the frozen value, and how it would be stored. */
export interface MemoryPlanes {
  readonly planes: Planes & Json;
  readonly encoded: EncodedValue;
}

export interface MemoryCheckpoint {
  readonly summary: CheckpointSummary;
  readonly planes: Planes & Json;
  readonly root: Digest;
}

export function createMemoryState(): MemoryState {
  return {
    id: randomId(),
    runs: new Map(),
    log: [],
    facts: new Map(),
    listeners: new Set(),
    chunks: new Set(),
  };
}
