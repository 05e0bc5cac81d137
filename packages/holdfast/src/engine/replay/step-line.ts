import type { Recording, RecordedStep } from "../../core/replay/recording.ts";
import type { RunSession } from "../conduct/run-session.ts";

/** The steps on record, in the order in which they ended, and how far they have been played. */
export class StepLine {
  /** How many were played, those that were played twice included. */
  count = 0;
  /** Entry of the newest. */
  lastPlayed = 0;
  readonly #steps: readonly RecordedStep[];
  readonly #begun = new Set<number>();
  readonly #done = new Set<number>();
  #wake: (() => void)[] = [];

  constructor({ steps }: Recording) {
    this.#steps = steps;
  }

  begin(at: number): void {
    this.lastPlayed = at;
    for (const set of [this.#begun, this.#done]) for (const entry of set) if (entry > at) set.delete(entry);
  }

  get done(): number {
    return this.#done.size;
  }

  /** Of this visit, not played yet. */
  left(visit: number): readonly RecordedStep[] {
    return this.#steps.filter((step) => step.visit === visit && !this.#done.has(step.entry));
  }

  /** The next of all. */
  next(): RecordedStep | undefined {
    return this.#steps.find(({ entry }) => !this.#done.has(entry));
  }

  /** The one of this name, if its turn has come. */
  take(visit: number, name: string): RecordedStep | null {
    const left = this.left(visit);
    const own = left.find(({ step, entry }) => step === name && !this.#begun.has(entry));
    if (own === undefined || own !== left[0]) return null;
    this.#begun.add(own.entry);
    return own;
  }

  played({ entry }: RecordedStep): void {
    this.#done.add(entry);
    this.lastPlayed = Math.max(this.lastPlayed, entry);
    this.count += 1;
    for (const wake of this.#wake.splice(0)) wake();
  }

  /** Before this entry, and nobody has asked for it. */
  unasked(visit: number, before: number): RecordedStep | undefined {
    return this.left(visit).find(({ entry }) => entry < before && !this.#begun.has(entry));
  }

  /** Are all of the visit that come before this entry played, and no others? */
  standsAt(visit: number, before: number): boolean {
    return this.#steps.every((step) => step.visit !== visit || this.#done.has(step.entry) === step.entry < before);
  }

  isOf(checkpoint: number): boolean {
    return this.#steps.some((step) => step.checkpoint === checkpoint);
  }

  /** false: nobody plays anything any more. */
  async moves(writer: RunSession, patienceMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, patienceMs, false);
    this.#wake.push(() => resolve(true));
    const moved = await Promise.race([promise, writer.halt.halted.then(() => true)]);
    clearTimeout(timer);
    return moved;
  }
}
