import { append } from "./append.ts";
import type { MemoryRun, MemoryWorld } from "./world.ts";
import { chooseSlot } from "../../core/lease/choose-slot.ts";
import { deepFreeze } from "../../core/deep-freeze.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Lease, LeaseOwner } from "../../core/lease/lease.ts";
import { planLease } from "../../core/lease/plan-lease.ts";
import type { LeasePlan } from "../../core/lease/plan-lease.ts";
import { priorityKey, readPriority } from "../../core/run/priority.ts";
import { leaseHeld, leaseLost } from "../../core/refusals.ts";
import type { SlotWish } from "../../ports/store.ts";
import { livenessOf } from "../../system/process-identity.ts";

export function takeLease(
  world: MemoryWorld,
  run: MemoryRun,
  params: {
    readonly owner: LeaseOwner;
    readonly now: number;
    readonly staleAfterMs: number;
    readonly slot: SlotWish | undefined;
    /** Called when nothing refuses it, before anything is written: the run may not be there yet. */
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
  world: MemoryWorld,
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

export function releaseLease(world: MemoryWorld, run: MemoryRun, claim: Claim): void {
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
