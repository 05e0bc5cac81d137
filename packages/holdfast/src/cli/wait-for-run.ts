import { setTimeout as sleep } from "node:timers/promises";
import type { RunHandle } from "../app.ts";
import { HoldfastError } from "../core/error.ts";
import type { Lease } from "../core/lease/lease.ts";
import { leaseHeld } from "../core/refusals.ts";
import type { Shell } from "./command.ts";
import { escapeText } from "./output/escape-text.ts";

/**
 * Two terminals, or a hook beside a person: a save takes milliseconds, so waiting a little beats failing. Waits here
 * and not in the engine, because Ctrl+C may cut this short and must not cut short what follows it.
 */
export async function waitForRun(shell: Shell, handle: Pick<RunHandle, "id" | "holder">): Promise<void> {
  const began = performance.now();
  let said = false;
  for (;;) {
    const holder = await handle.holder();
    if (holder?.alive !== "alive") return;
    const waited = performance.now() - began;
    if (waited > WAIT_MS) throw runHeld(leaseHeld(holder.lease));
    if (waited > NOTE_MS && !said) {
      said = true;
      shell.say(`Waiting for ${handle.id}: held by ${holderText(holder.lease)} …`);
    }
    await sleep(POLL_MS, undefined, { signal: shell.signal });
  }
}

/** Long enough for a save of a large worktree, short enough for somebody at a prompt. */
export const WAIT_MS = 5000;
const NOTE_MS = 1000;
const POLL_MS = 50;

export function holderText({ owner }: Pick<Lease, "owner">): string {
  return `${escapeText(owner.label)} (pid ${owner.pid} on ${escapeText(owner.host)})`;
}

/** The store says who holds it; what can be done about it is known here. */
export function runHeld(error: unknown): unknown {
  if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD") return error;
  return new HoldfastError({
    code: "LEASE_HELD",
    message: error.message,
    hint: "Wait until it ends, or stop it. `holdfast checkpoint --run NAME` saves into another run meanwhile.",
    retry: error.retry,
    data: error.data,
    cause: error,
  });
}
