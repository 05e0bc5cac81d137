// Leases: who may write a run, and who has one of the limited slots.

import { join } from "node:path";
import { type ProcessIdentity, isSameKernel, livenessOf, processIdentity, randomId } from "@holdfast/platform/identity";
import { readProcessLock } from "@holdfast/platform/process-lock";
import { type JsonObject, deepFreeze } from "../json.ts";
import {
  type Lease,
  type LeaseOwner,
  type LeasePlan,
  type OwnerLiveness,
  planLease,
  priorityKey,
  readPriority,
} from "../lease.ts";
import type { Run } from "../run.ts";
import { chooseSlot, claimOf } from "../store-commit.ts";
import { type SlotClaim, leaseHeld, runNotFound } from "../store.ts";
import { createRun } from "./changes.ts";
import { ownerRecord, readLeases } from "./records.ts";
import { FACT, getMeta } from "./schema.ts";
import { canonicalJson } from "../values.ts";
import { type Handle, type Head, type Job, type Writing, headUnder, holds, ownRow } from "./write.ts";

/*
 * Which handles made here can still write. Threads of one process, and copies of this module in one thread, know nothing of each other's
 * handles, so every token says where it was made: about the others nothing is concluded.
 */
const HERE = randomId();
const open = new Set<string>();

export function openToken(): string {
  const token = `${HERE}-${randomId()}`;
  open.add(token);
  return token;
}

/** The handle was closed, or refuses to write for ever: what it held is free. */
export function endToken(token: string): void {
  open.delete(token);
}

/** A lock file for each handle that has taken a lease, named by its token, and for each process that prepares a run. */
export function lockDirectory(directory: string): string {
  return join(directory, "alive");
}

/**
 * Whether the owner of a lease is alive, by its lock file and its pid. `directory`: the store's; null: the store has none, and only the pid
 * counts. A handle of our own that has ended is dead although its process lives. `shared`: several machines use the database. Two of them
 * can have one name, so another boot proves a death only where the owner's lock file is: then it is a machine's own earlier boot.
 */
export function ownerLiveness(
  owner: LeaseOwner,
  { directory, shared }: { readonly directory: string | null; readonly shared: boolean },
  self: ProcessIdentity = processIdentity(),
): OwnerLiveness {
  if (owner.token.startsWith(`${HERE}-`) && !open.has(owner.token)) return "dead";
  const lock = directory === null ? "absent" : readProcessLock(lockDirectory(directory), owner.token);
  return shared && lock === "absent" && !isSameKernel(owner, self) ? "unknown" : livenessOf(owner, self, lock);
}

export function placeOf({
  directory,
  driver,
}: Pick<Handle, "directory" | "driver">): Parameters<typeof ownerLiveness>[1] {
  return { directory, shared: driver.shared };
}

const PUT =
  "INSERT INTO leases (run, epoch, token, host, pid, started, boot, label, taken, heartbeat, slot) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET epoch = excluded.epoch, token = excluded.token, host = excluded.host, pid = excluded.pid, started = excluded.started, boot = excluded.boot, label = excluded.label, taken = excluded.taken, heartbeat = excluded.heartbeat, slot = excluded.slot";

export function putLease(writing: Writing, head: Head, lease: Lease): void {
  const { token, host, pid, started, boot, label } = lease.owner;
  const { epoch, takenAt, heartbeatAt, slot = null } = lease;
  writing.tx.run(PUT, [head.number, epoch, token, host, pid, started, boot, label, takenAt, heartbeatAt, slot]);
}

export function takeLease(
  handle: Handle,
  params: {
    readonly run: string;
    readonly label: string;
    readonly staleAfterMs: number;
    readonly over: number | undefined;
    readonly slot: SlotClaim | undefined;
    /** Makes the run unless it is there; absent: it must be. */
    readonly born: Omit<Run, "createdAt"> | undefined;
  },
): Job<Lease> {
  return async (writing) => {
    const { run, born } = params;
    const found = born === undefined ? writing.findHead(run) : createRun(handle, born).plan(writing);
    if (found === undefined && born === undefined) throw runNotFound(run);
    const held = found?.lease ?? null;
    const moment = writing.now();
    const plan = planLease({
      epoch: found?.epoch ?? 0,
      held,
      token: handle.token,
      liveness: held === null ? "dead" : ownerLiveness(held.owner, placeOf(handle), handle.identity),
      now: moment.ms,
      staleAfterMs: params.staleAfterMs,
      over: params.over,
    });
    if (plan.kind === "refuse") throw leaseHeld(plan.lease);
    const slot = await slotFor(handle, writing, plan, { ...params, now: moment.ms });
    const head = found ?? (born === undefined ? undefined : await createRun(handle, born).make(writing));
    if (head === undefined) throw runNotFound(run);
    const withSlot = slot === undefined ? {} : { slot };
    if (plan.kind === "held_by_us") {
      if (plan.lease.slot === slot) return plan.lease;
      const moved: Lease = deepFreeze({ ...plan.lease, ...withSlot });
      putLease(writing, head, moved);
      writing.remember({ ...head, lease: moved });
      return moved;
    }
    const lease: Lease = deepFreeze({
      run,
      epoch: plan.epoch,
      owner: { token: handle.token, ...handle.identity, label: params.label },
      takenAt: moment.iso,
      heartbeatAt: moment.iso,
      ...withSlot,
    });
    putLease(writing, head, lease);
    const from = plan.from === null ? null : { ...ownerRecord(plan.from), heartbeatAt: plan.from.heartbeatAt };
    const body: JsonObject = { owner: ownerRecord(lease), from };
    writing.append(
      { ...head, lease, epoch: lease.epoch },
      ownRow("lease.taken", body, canonicalJson(body), lease.epoch),
      handle.now(),
    );
    return lease;
  };
}

/** Decided over the leases of all runs, in the transaction that takes the lease. */
async function slotFor(
  handle: Handle,
  { tx }: Writing,
  plan: Exclude<LeasePlan, { readonly kind: "refuse" }>,
  params: {
    readonly run: string;
    readonly slot: SlotClaim | undefined;
    readonly staleAfterMs: number;
    readonly now: number;
  },
): Promise<Lease["slot"]> {
  const { slot: wish, run, now, staleAfterMs } = params;
  if (wish === undefined) return plan.kind === "held_by_us" ? plan.lease.slot : undefined;
  const priorityOf = async (id: string): Promise<number> => readPriority(await getMeta(tx, FACT + priorityKey(id)));
  const slots = (await readLeases(tx)).filter((lease) => lease.slot !== undefined);
  const others = await Promise.all(
    slots.map(async (lease) => ({
      lease,
      liveness: ownerLiveness(lease.owner, placeOf(handle), handle.identity),
      priority: await priorityOf(lease.run),
    })),
  );
  return chooseSlot({ run, plan, wish, priority: await priorityOf(run), others, now, staleAfterMs });
}

export function renewLease(handle: Handle, lease: Lease): Job<Lease> {
  const claim = claimOf(lease);
  return async (writing) => {
    const head = headUnder(handle, writing, claim);
    const renewed: Lease = deepFreeze({ ...(head.lease ?? lease), heartbeatAt: writing.now().iso });
    writing.tx.run("UPDATE leases SET heartbeat = ? WHERE run = ?", [renewed.heartbeatAt, head.number]);
    writing.remember({ ...head, lease: renewed });
    return renewed;
  };
}

/** A lease that is not held any more is left alone. */
export function releaseLease(handle: Handle, lease: Lease): Job<void> {
  const claim = claimOf(lease);
  return async (writing) => {
    const head = writing.head(lease.run);
    if (!holds(handle, head, claim)) return;
    writing.tx.run("DELETE FROM leases WHERE run = ?", [head.number]);
    const body: JsonObject = { owner: ownerRecord(lease) };
    writing.append(
      { ...head, lease: null },
      ownRow("lease.released", body, canonicalJson(body), lease.epoch),
      handle.now(),
    );
  };
}
