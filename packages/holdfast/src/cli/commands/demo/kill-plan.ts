/**
 * Where the demo's processes die: three different numbers below `points`, in order, each the count of things that happen
 * between two deaths. From the seed alone, so that a seed can be told and tried again.
 */
export function planKills(seed: number, points: number, kills: number): readonly number[] {
  const random = randomFrom(seed);
  const chosen = new Set<number>();
  while (chosen.size < Math.min(kills, points - 1)) chosen.add(1 + Math.floor(random() * (points - 1)));
  const places = [...chosen].toSorted((a, b) => a - b);
  return places.map((place, at) => place - (places[at - 1] ?? 0));
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
