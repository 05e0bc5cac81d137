/**
 * Where the demo's processes are killed: `kills` different indices of `points`, in order. They depend on the seed alone, so that a
 * seed can be reported and tried again. Never the first point, because nothing has happened yet; every other is equally likely.
 * At most one is at or after `ends`, where the run's end is committed: a process that resumes a finished run passes no further point.
 */
export function planKills(
  seed: number,
  { points, ends, kills }: { readonly points: number; readonly ends: number; readonly kills: number },
): readonly number[] {
  const random = randomFrom(seed);
  const chosen = new Set<number>();
  const most = Math.max(0, Math.min(kills, ends - 1 + (ends < points ? 1 : 0)));
  while (chosen.size < most) {
    const place = 1 + Math.floor(random() * (points - 1));
    if (place < ends || ![...chosen].some((other) => other >= ends)) chosen.add(place);
  }
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
