import type { Priority } from "./graph.ts";
import { NumberHeap } from "./number-heap.ts";

/** How urgent, the most urgent first. */
export const PRIORITIES: Readonly<Record<Priority, number>> = { critical: 0, high: 1, normal: 2, low: 3 };

/** Beyond every place in a definition. */
const STEP = 2 ** 40;

/** Places of nodes that may start, most urgent first, then in the order of the definition. One that is taken out again costs nothing until it comes up. */
export class ReadyQueue {
  readonly #heap = new NumberHeap();
  readonly #ready = new Set<number>();
  readonly #inHeap = new Set<number>();

  get size(): number {
    return this.#ready.size;
  }

  put(place: number, priority: Priority): void {
    if (this.#ready.has(place)) return;
    this.#ready.add(place);
    if (this.#inHeap.has(place)) return;
    this.#inHeap.add(place);
    this.#heap.push(PRIORITIES[priority] * STEP + place);
  }

  remove(place: number): void {
    this.#ready.delete(place);
  }

  /** The first so many, which stay in it. */
  first(count: number): readonly number[] {
    const keys: number[] = [];
    while (keys.length < count) {
      const key = this.#heap.pop();
      if (key === undefined) break;
      const place = key % STEP;
      if (this.#ready.has(place)) keys.push(key);
      else this.#inHeap.delete(place);
    }
    for (const key of keys) this.#heap.push(key);
    return keys.map((key) => key % STEP);
  }
}
