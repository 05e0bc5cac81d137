import type { Lease } from "../../core/lease/lease.ts";
import type { CheckpointRequest, Requests } from "../../ports/requests.ts";
import { ANSWERED } from "./answer-requests.ts";
import type { Parts } from "../parts.ts";

export type Asked =
  | { readonly kind: "saved"; readonly sequence: number; readonly by: Lease }
  /** Nobody holds the run (any more), and nobody saved for us: whoever asked can do it. */
  | { readonly kind: "free" }
  /** The holder is on another host, where nobody can tell whether it lives. */
  | { readonly kind: "elsewhere"; readonly by: Lease }
  /** It lives and does not answer: it is none that carries a run, or has no time. */
  | { readonly kind: "silent"; readonly by: Lease }
  /** It tried, and could not. */
  | { readonly kind: "failed"; readonly by: Lease };

export interface AskParams {
  readonly parts: Parts;
  readonly run: string;
  readonly name: string | null;
  /** Aborted: the request is withdrawn. One that was taken is answered all the same. */
  readonly signal: AbortSignal;
  /** Until somebody has taken it. */
  readonly patienceMs: number;
  readonly onWaiting?: (by: Lease) => void;
}

/**
 * Asks whoever holds the run for a checkpoint, and waits until the store has it. Killed at any point, it is taken once or not at all: the answer stands in
 * the journal, in one commit with the checkpoint, and only the holder of the epoch that was asked can write it.
 */
export async function askCheckpoint(params: AskParams): Promise<Asked> {
  const { parts, run, name, signal } = params;
  const { requests, store } = parts;
  const id = `${parts.random()}-${parts.random()}`.toLowerCase();
  const journal = new Answers(parts, run, id, (await store.getRun(run))?.entries ?? 0);
  for (;;) {
    const lease = await store.getLease(run);
    const alive = lease === undefined ? "dead" : parts.liveness(lease.owner);
    if (lease === undefined || alive === "dead") return FREE;
    if (alive === "unknown") return { kind: "elsewhere", by: lease };
    const request = { id, run, epoch: lease.epoch, name };
    if (requests === null) {
      if (!(await leaves(params, lease))) return { kind: "silent", by: lease };
      continue;
    }
    await requests.ask(request);
    try {
      const asked = await waitFor({ ...params, requests, request, lease, journal });
      if (asked !== "left") return asked;
    } finally {
      await requests.withdraw(request);
    }
    signal.throwIfAborted();
  }
}

const FREE: Asked = { kind: "free" };

/** "left": the lease is not this holder's any more, and the journal has no answer of it. */
async function waitFor(
  params: AskParams & {
    readonly requests: Requests;
    readonly request: CheckpointRequest;
    readonly lease: Lease;
    readonly journal: Answers;
  },
): Promise<Asked | "left"> {
  const { requests, request, lease, journal } = params;
  const began = performance.now();
  let told = false;
  for (;;) {
    params.signal.throwIfAborted();
    const state = await requests.stateOf(request);
    const held = await isHeld(params.parts, lease);
    // Looked at last: what was committed before the holder left is seen.
    const sequence = await journal.look();
    if (sequence !== null) return { kind: "saved", sequence, by: lease };
    if (!held) return "left";
    if (state === "gone") return { kind: "failed", by: lease };
    const waited = performance.now() - began;
    const patience = state === "taken" ? TAKEN_MS : params.patienceMs;
    if (waited > patience && (state === "taken" || (await requests.withdraw(request))))
      return { kind: "silent", by: lease };
    if (waited > NOTE_MS && !told) {
      told = true;
      params.onWaiting?.(lease);
    }
    await pause(params.signal);
  }
}

const NOTE_MS = 1000;
/** A snapshot of a very large worktree takes minutes. */
const TAKEN_MS = 600_000;
const POLL_MS = 50;

/** Without a place for requests: a save takes milliseconds, so waiting a little beats failing. */
async function leaves(params: AskParams, lease: Lease): Promise<boolean> {
  const began = performance.now();
  while (performance.now() - began < params.patienceMs) {
    if (!(await isHeld(params.parts, lease))) return true;
    await pause(params.signal);
  }
  return false;
}

async function isHeld(parts: Parts, { run, epoch }: Lease): Promise<boolean> {
  const now = await parts.store.getLease(run);
  return now !== undefined && now.epoch === epoch && parts.liveness(now.owner) !== "dead";
}

/** What the journal says of a request since it was made. */
class Answers {
  readonly #parts: Parts;
  readonly #run: string;
  readonly #id: string;
  #after: number;

  constructor(parts: Parts, run: string, id: string, after: number) {
    this.#parts = parts;
    this.#run = run;
    this.#id = id;
    this.#after = after;
  }

  async look(): Promise<number | null> {
    for await (const { kind, body, entry } of this.#parts.store.readJournal({ run: this.#run, after: this.#after })) {
      this.#after = entry;
      const { request, sequence } = body;
      if (kind === ANSWERED && request === this.#id && typeof sequence === "number") return sequence;
    }
    return null;
  }
}

async function pause(signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, POLL_MS);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done, { once: true });
  });
  signal.throwIfAborted();
}
