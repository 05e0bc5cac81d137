import { createRun } from "./create-run.ts";
import type { Job } from "./group-commit.ts";
import type { Handle } from "./handle.ts";
import { ownerLiveness } from "./handle-tokens.ts";
import type { Head } from "./witness/heads.ts";
import type { Facts } from "./facts.ts";
import { type LeaseClaim, chooseSlot, claimOf } from "@holdfast/core/store-commit";
import { type JsonObject, deepFreeze } from "@holdfast/core/json";
import { type Lease, type LeasePlan, planLease, priorityKey, readPriority } from "@holdfast/core/lease";
import { type SlotClaim, leaseHeld, leaseLost, runNotFound } from "@holdfast/core/store";
import type { Run } from "@holdfast/core/run";

type Taking = Exclude<LeasePlan, { readonly kind: "refuse" }>;

interface TakePlan {
  readonly plan: Taking;
  readonly slot: Lease["slot"];
  /** Makes the run first, unless it is there; null: it must be. */
  readonly bear: (() => void) | null;
}

export function takeLease(
  handle: Handle,
  facts: Pick<Facts, "get">,
  params: {
    readonly run: string;
    readonly label: string;
    readonly staleAfterMs: number;
    readonly slot: SlotClaim | undefined;
    readonly born: Omit<Run, "createdAt"> | undefined;
  },
): Job<TakePlan, Lease> {
  return {
    plan() {
      const bear = birthOf(handle, params.born);
      // Straight from the row: a heartbeat does not change the stamp, so a remembered head may have an old one.
      const row = handle.runs.byId(params.run);
      if (row === undefined && bear === null) throw runNotFound(params.run);
      const held = row?.lease ?? null;
      const plan = planLease({
        epoch: row?.epoch ?? 0,
        held,
        token: handle.token,
        liveness: held === null ? "dead" : ownerLiveness(held.owner, handle.identity),
        now: handle.now().ms,
        staleAfterMs: params.staleAfterMs,
      });
      if (plan.kind === "refuse") throw leaseHeld(plan.lease);
      const wish = params.slot;
      if (wish === undefined) return { plan, bear, slot: plan.kind === "held_by_us" ? plan.lease.slot : undefined };
      const priorityOf = (run: string): number => readPriority(facts.get(priorityKey(run)));
      const slot = chooseSlot({
        run: params.run,
        plan,
        wish,
        priority: priorityOf(params.run),
        others: handle.runs.leases().map((lease) => ({
          lease,
          liveness: ownerLiveness(lease.owner, handle.identity),
          priority: priorityOf(lease.run),
        })),
        now: handle.now().ms,
        staleAfterMs: params.staleAfterMs,
      });
      return { plan, bear, slot };
    },
    apply({ plan, bear, slot }) {
      bear?.();
      const place = slot === undefined ? {} : { slot };
      if (plan.kind === "held_by_us") {
        if (plan.lease.slot === slot) return plan.lease;
        const moved: Lease = deepFreeze({ ...plan.lease, ...place });
        handle.runs.setLease(handle.heads.of(params.run).no, moved);
        return moved;
      }
      const moment = handle.now();
      const lease: Lease = deepFreeze({
        run: params.run,
        epoch: plan.epoch,
        owner: { token: handle.token, ...handle.identity, label: params.label },
        takenAt: moment.iso,
        heartbeatAt: moment.iso,
        ...place,
      });
      const head = handle.heads.of(params.run);
      handle.runs.setLease(head.no, lease);
      const from = plan.from === null ? null : { ...ownerRecord(plan.from), heartbeatAt: plan.from.heartbeatAt };
      const body: JsonObject = { owner: ownerRecord(lease), from };
      handle.append.outside(
        { ...head, lease, epoch: lease.epoch },
        { kind: "lease.taken", body, epoch: lease.epoch },
        moment,
      );
      return lease;
    },
  };
}

function birthOf(handle: Handle, born: Omit<Run, "createdAt"> | undefined): TakePlan["bear"] {
  if (born === undefined) return null;
  const birth = createRun(handle, born);
  const there = birth.plan();
  return () => void birth.apply(there);
}

export function renewLease(handle: Handle, lease: Lease): Job<Head, Lease> {
  const claim = claimOf(lease);
  return {
    plan: () => headUnder(handle, claim),
    apply(head) {
      const moment = handle.now();
      const renewed: Lease = deepFreeze({ ...lease, heartbeatAt: moment.iso });
      handle.runs.setHeartbeat(head.no, moment.ms);
      return renewed;
    },
  };
}

export function releaseLease(handle: Handle, lease: Lease): Job<Head | null, void> {
  const claim = claimOf(lease);
  return {
    plan() {
      const head = handle.heads.of(lease.run);
      return holds(handle, head, claim) ? head : null;
    },
    apply(head) {
      if (head === null) return;
      handle.runs.setLease(head.no, null);
      const body: JsonObject = { owner: ownerRecord(lease) };
      handle.append.outside(
        { ...head, lease: null },
        { kind: "lease.released", body, epoch: lease.epoch },
        handle.now(),
      );
    },
  };
}

/** The run's head, when this handle may write it under that lease; else LEASE_LOST. */
export function headUnder(handle: Handle, claim: LeaseClaim): Head {
  const head = handle.heads.of(claim.run);
  if (!holds(handle, head, claim)) throw leaseLost({ run: claim.run, epoch: claim.epoch, current: head.lease });
  return head;
}

/** A lease belongs to the handle that took it: heads are remembered per handle, so nobody else may write under it. */
function holds(handle: Handle, head: Head, claim: LeaseClaim): boolean {
  return claim.token === handle.token && head.epoch === claim.epoch && head.lease?.owner.token === claim.token;
}

/** Without the token: it is nobody's business. */
function ownerRecord(lease: Lease): JsonObject {
  const { host, pid, started, boot, label } = lease.owner;
  return { host, pid, started, boot, label, epoch: lease.epoch };
}
