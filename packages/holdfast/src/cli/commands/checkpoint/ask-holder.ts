import type { RunHandle, SaveParams } from "../../../app.ts";
import type { CheckpointSummary, Planes } from "../../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Lease, LeaseOwner } from "../../../core/lease/lease.ts";
import { leaseHeld } from "../../../core/refusals.ts";
import type { Shell } from "../../command.ts";
import { escapeText } from "../../output/escape-text.ts";
import { WAIT_MS, holderText, runHeld, waitForRun } from "../../wait-for-run.ts";

export interface SavedByHolder {
  readonly checkpoint: CheckpointSummary;
  readonly planes: Planes;
  readonly by: Holder;
}

/** Who it is, for people and for programs that stop it; what proves it to the store is nobody else's. */
export type Holder = Pick<LeaseOwner, "label" | "pid" | "host">;

export function holderOf({ label, pid, host }: LeaseOwner): Holder {
  return { label, pid, host };
}

/** A checkpoint by the process that carries the run; null: nobody does, and whoever asks can save. */
export async function askHolder(shell: Shell, handle: RunHandle, params: SaveParams): Promise<SavedByHolder | null> {
  const holder = await handle.holder();
  if (holder === undefined || holder.alive === "dead") return null;
  // What only this process has cannot be asked for; whoever holds the run for a moment lets go of it.
  if (params.values !== undefined || params.files === false) return await waitForTurn(shell, handle, holder.lease);
  const asked = await handle.ask({
    name: params.name ?? null,
    signal: shell.signal,
    patienceMs: WAIT_MS,
    onWaiting: (by) => shell.say(`Waiting for ${escapeText(handle.id)}: held by ${holderText(by)} …`),
  });
  switch (asked.kind) {
    case "free":
      return null;
    case "saved": {
      const { planes } = await handle.get(asked.sequence);
      const [checkpoint] = await handle.list({ before: asked.sequence + 1, limit: 1 });
      if (checkpoint === undefined) throw new TypeError(`checkpoint ${asked.sequence} has no summary`);
      return { checkpoint, planes, by: holderOf(asked.by.owner) };
    }
    case "elsewhere":
      throw elsewhere(handle.id, asked.by);
    case "silent":
      throw runHeld(leaseHeld(asked.by));
    case "failed":
      throw new HoldfastError({
        code: "IO_FAILED",
        message: `${holderText(asked.by)} carries run ${handle.id} and could not save the checkpoint`,
        hint: "Its terminal says why. What was saved before is safe.",
        data: { run: handle.id },
      });
  }
}

async function waitForTurn(shell: Shell, handle: RunHandle, lease: Lease): Promise<null> {
  try {
    await waitForRun(shell, handle);
    return null;
  } catch (error) {
    throw error instanceof HoldfastError && error.code === "LEASE_HELD" ? notOurs(handle.id, lease) : error;
  }
}

function elsewhere(run: string, { owner }: Lease): HoldfastError {
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} is held by ${owner.label} (pid ${owner.pid}) on ${owner.host}, which cannot be asked from here`,
    hint: `Run \`holdfast checkpoint ${run}\` on ${owner.host}.`,
    retry: "later",
    data: { run, owner: { ...owner } },
  });
}

function notOurs(run: string, { owner }: Lease): HoldfastError {
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} is carried by ${owner.label} (pid ${owner.pid} on ${owner.host}), which alone knows its state`,
    hint: "Leave --values and --no-files out: it is then asked for a checkpoint of all that it has.",
    retry: "later",
    data: { run },
  });
}
