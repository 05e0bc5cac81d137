import type { CheckpointId } from "./checkpoint/checkpoint.ts";
import { HoldfastError } from "./error.ts";
import type { Lease } from "./lease/lease.ts";
import type { SlotLease } from "./lease/plan-slot.ts";

/** What every store refuses, in the same words. */

export function runNotFound(run: string): HoldfastError {
  return new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: `There is no run ${run} in this store`,
    hint: "List the runs to see which ones there are.",
    data: { run },
  });
}

export function runExists(run: string): HoldfastError {
  return new HoldfastError({
    code: "RUN_EXISTS",
    message: `The run ${run} exists already and was created for something else`,
    hint: "Choose another id, or continue the run that is there.",
    data: { run },
  });
}

export function checkpointNotFound(id: CheckpointId): HoldfastError {
  return new HoldfastError({
    code: "CHECKPOINT_NOT_FOUND",
    message: `There is no checkpoint ${id}`,
    hint: "List the run's checkpoints to see which ones there are.",
    data: { checkpoint: id },
  });
}

export function checkpointDropped(params: {
  readonly id: CheckpointId;
  readonly droppedAt: string;
  readonly why: string;
}): HoldfastError {
  return new HoldfastError({
    code: "CHECKPOINT_DROPPED",
    message: `The checkpoint ${params.id} was dropped on ${params.droppedAt}: ${params.why}`,
    hint: "Its place in the journal is kept; choose a checkpoint that is still there.",
    data: { checkpoint: params.id, droppedAt: params.droppedAt, why: params.why },
  });
}

export function leaseHeld(lease: Lease): HoldfastError {
  const { owner } = lease;
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `The run ${lease.run} is being written by ${owner.label} (process ${owner.pid} on ${owner.host})`,
    hint: "Wait until it ends, or stop it; a dead owner's lease is taken over without asking.",
    retry: "later",
    data: { run: lease.run, owner, epoch: lease.epoch, heartbeatAt: lease.heartbeatAt },
  });
}

export function loopLimit(params: {
  readonly run: string;
  readonly limit: number | null;
  readonly working: readonly SlotLease[];
  readonly ahead: readonly SlotLease[];
}): HoldfastError {
  const { run, limit, working, ahead } = params;
  const who = working.map(({ lease }) => `${lease.run} (pid ${lease.owner.pid} on ${lease.owner.host})`);
  const queue = ahead.length === 0 ? "" : `; ${ahead.map(({ lease }) => lease.run).join(", ")} will be next`;
  return new HoldfastError({
    code: "LOOP_LIMIT",
    message: `${run} must wait: ${limit === 1 ? "one loop" : `${limit ?? 0} loops`} may be at work here at once, now ${who.join(", ") || "none"}${queue}`,
    hint: "Wait for a place with --wait, go over the limit with --force, or raise `loops.max` in holdfast.config.yaml. `holdfast loops` shows them all.",
    retry: "later",
    data: { run, limit, working: working.map(brief), waiting: ahead.map(brief) },
  });
}

function brief({ lease, priority }: SlotLease): object {
  const { pid, host } = lease.owner;
  return { run: lease.run, pid, host, priority, since: lease.takenAt, heartbeatAt: lease.heartbeatAt };
}

export function leaseLost(params: {
  readonly run: string;
  readonly epoch: number;
  readonly current: Lease | null;
}): HoldfastError {
  const { current } = params;
  const why = current === null ? "it was released" : `${current.owner.label} holds epoch ${current.epoch} now`;
  return new HoldfastError({
    code: "LEASE_LOST",
    message: `The lease on ${params.run} with epoch ${params.epoch} is not valid any more: ${why}`,
    hint: "Nothing was written. Take the lease again and replay the journal before going on.",
    data: { run: params.run, epoch: params.epoch, current },
  });
}

export function sequenceConflict(params: {
  readonly run: string;
  readonly expected: number;
  readonly next: number;
}): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `The next checkpoint of ${params.run} is ${params.next}, not ${params.expected}`,
    hint: "Read the run's newest checkpoint and try again on top of it.",
    data: params,
  });
}

export function effectConflict(params: { readonly run: string; readonly why: string }): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `An effect of ${params.run} does not fit its ledger: ${params.why}`,
    hint: "Use another key for another payload, and record an intent before its outcome.",
    data: params,
  });
}

export function tagExists(params: {
  readonly run: string;
  readonly name: string;
  readonly sequence: number;
}): HoldfastError {
  return new HoldfastError({
    code: "TAG_EXISTS",
    message: `The tag ${params.name} of ${params.run} already names checkpoint ${params.sequence}`,
    hint: "Choose another name, or ask for the tag to be moved.",
    data: params,
  });
}

export function dropConflict(params: { readonly id: CheckpointId; readonly why: string }): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `The checkpoint ${params.id} cannot be dropped: ${params.why}`,
    hint: "Nothing was dropped. Remove the tag first, or leave this checkpoint out.",
    data: { checkpoint: params.id, why: params.why },
  });
}

export function storeClosed(location: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `The store ${location} is closed`,
    hint: "Open it again.",
    data: { location },
  });
}

/** Made, and killed before its first checkpoint. */
export function notBegun(run: string): HoldfastError {
  return new HoldfastError({
    code: "NOTHING_TO_RESUME",
    message: `Run ${run} has not begun: it has no checkpoint`,
    hint: `Start it anew with \`holdfast run\` and the same words, or end it: \`holdfast abort ${run}\`.`,
    data: { run },
  });
}
