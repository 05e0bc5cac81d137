/**
 * Where the demo's processes die: so many different places of `points`, in order, as indices. From the seed alone, so
 * that a seed can be told and tried again. Never the first one (nothing has happened yet) and every other equally likely.
 */
export function planKills(seed: number, points: number, kills: number): readonly number[] {
  const random = randomFrom(seed);
  const chosen = new Set<number>();
  while (chosen.size < Math.min(kills, points - 1)) chosen.add(1 + Math.floor(random() * (points - 1)));
  return [...chosen].toSorted((a, b) => a - b);
}

/** Mulberry32: small, and the same everywhere. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
