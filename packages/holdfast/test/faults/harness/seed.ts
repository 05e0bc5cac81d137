/**
 * Randomness that can be repeated. `HOLDFAST_SEED=1234 npx vitest run --project promises <file>` repeats a run exactly;
 * `HOLDFAST_FULL=1` tries everything instead of a sample, and with `HOLDFAST_EVERY=3` each third place.
 */
export function suiteSeed(): number {
  const given = process.env["HOLDFAST_SEED"];
  if (given === undefined || given === "") return Math.floor(Math.random() * 0x7fff_ffff);
  const seed = Number(given);
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error(`HOLDFAST_SEED must be a whole number, not "${given}"`);
  return seed;
}

export function isFullRun(): boolean {
  return process.env["HOLDFAST_FULL"] === "1";
}

/** What a full run takes of all places: each, or with HOLDFAST_EVERY=3 each third. */
export function everyNth<T>(items: readonly T[]): readonly T[] {
  const step = Number(process.env["HOLDFAST_EVERY"] ?? 1);
  return items.filter((_, at) => at % step === 0);
}

export interface Chance {
  /** A whole number from 0 up to (not including) `bound`. */
  below(bound: number): number;
  coin(): boolean;
}

/** mulberry32: small, fast, and good enough to choose cases. `purpose` keeps suites from choosing alike. */
export function chanceOf(seed: number, purpose: string): Chance {
  let state = seed >>> 0;
  for (const char of purpose) state = (Math.imul(state ^ (char.codePointAt(0) ?? 0), 0x9e37_79b1) + 0x7f4a_7c15) >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b_79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  };
  return { below: (bound) => Math.floor(next() * bound), coin: () => next() < 0.5 };
}

/** `count` of the items in their order, spread evenly; all of them if `all` is set, as it is in a full run. */
export function sample<T>(chance: Chance, items: readonly T[], count: number, all = isFullRun()): readonly T[] {
  if (all || items.length <= count) return items;
  const chosen: T[] = [];
  for (let stretch = 0; stretch < count; stretch += 1) {
    const from = Math.floor((stretch * items.length) / count);
    const to = Math.floor(((stretch + 1) * items.length) / count);
    const item = items[from + chance.below(to - from)];
    if (item !== undefined) chosen.push(item);
  }
  return chosen;
}
