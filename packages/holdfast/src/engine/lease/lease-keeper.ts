import { HoldfastError } from "../../core/error.ts";
import { HEARTBEAT_MS } from "../../core/lease/heartbeat.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { Parts } from "../parts.ts";
import type { Saver } from "../save/saver.ts";

const RETRY_MS = 50;

/** Holds a run's lease from the first write until it is released, and tells other hosts that we live. */
export class LeaseKeeper {
  readonly #parts: Parts;
  readonly #run: string;
  #held: Lease | undefined;
  #taking: Promise<Lease> | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(parts: Parts, run: string) {
    this.#parts = parts;
    this.#run = run;
  }

  get held(): Lease | undefined {
    return this.#held;
  }

  /** Concurrent first writers share one taking. What the saver remembers may be older than the lease, so it forgets. */
  async take(saver: Saver): Promise<Lease> {
    this.#taking ??= this.#takePatiently().finally(() => {
      this.#taking = undefined;
    });
    const lease = await this.#taking;
    if (this.#held === undefined) {
      this.#held = lease;
      saver.forget();
      this.#timer = setInterval(() => this.#beat(), HEARTBEAT_MS);
      this.#timer.unref();
    }
    return lease;
  }

  async release(): Promise<void> {
    const lease = this.#held ?? (await this.#taking);
    this.#held = undefined;
    clearInterval(this.#timer);
    if (lease !== undefined) await this.#parts.store.releaseLease(lease);
  }

  /** Two terminals, or a hook beside a person: a save takes milliseconds, so waiting a little beats failing. */
  async #takePatiently(): Promise<Lease> {
    const until = performance.now() + this.#parts.leaseWaitMs;
    for (;;) {
      try {
        return await this.#parts.store.takeLease({ run: this.#run, label: `holdfast ${this.#run}` });
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD" || performance.now() > until) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  /** A heartbeat need not shout: a lost lease shows itself at the next write, inside the transaction. */
  #beat(): void {
    if (this.#held !== undefined) this.#parts.store.renewLease(this.#held).catch(() => undefined);
  }
}
