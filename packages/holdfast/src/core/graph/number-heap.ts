/** The least of many numbers at hand, each change at the cost of the heap's depth. */
export class NumberHeap {
  readonly #items: number[] = [];

  get size(): number {
    return this.#items.length;
  }

  push(item: number): void {
    const items = this.#items;
    let at = items.length;
    items.push(item);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = items[parent] ?? item;
      if (above <= item) break;
      items[at] = above;
      at = parent;
    }
    items[at] = item;
  }

  pop(): number | undefined {
    const items = this.#items;
    const [least] = items;
    const last = items.pop();
    if (last === undefined || items.length === 0) return least;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const child = (items[left + 1] ?? Infinity) < (items[left] ?? Infinity) ? left + 1 : left;
      const below = items[child];
      if (below === undefined || below >= last) break;
      items[at] = below;
      at = child;
    }
    items[at] = last;
    return least;
  }
}
