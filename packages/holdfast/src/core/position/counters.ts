/** Attempts and streaks by the name of their guard. They live in the position, so they survive a resume. */
export type Counters = Readonly<Record<string, number>>;

/** Names may be any text, "__proto__" too: a name that was never counted is at zero. */
export function counterOf(counters: Counters, name: string): number {
  return Object.hasOwn(counters, name) ? (counters[name] ?? 0) : 0;
}

export function bump(counters: Counters, name: string): Counters {
  return { ...counters, [name]: Math.min(Number.MAX_SAFE_INTEGER, counterOf(counters, name) + 1) };
}

/** Only the named ones: what another guard has counted is not ours to forget. */
export function reset(counters: Counters, ...names: readonly string[]): Counters {
  return Object.fromEntries(Object.entries(counters).filter(([name]) => !names.includes(name)));
}
