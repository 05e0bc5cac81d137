import type { Outcome } from "./command.ts";

export interface Ended {
  /** Clauses, in the order in which the work was begun: "run fix-login was started", "fix-login@1 was saved". */
  readonly done: readonly string[];
  readonly failures: readonly unknown[];
}

/** Work that goes on after Ctrl+C, because half of it would be worse than none. */
export function createUnfinished(): {
  add<T>(work: Promise<T>, outcome: Outcome<T>): Promise<T>;
  settle(): Promise<Ended>;
} {
  const under: Promise<{ readonly done: string | null; readonly failures: readonly unknown[] }>[] = [];
  return {
    add(work, outcome) {
      under.push(
        work.then(
          (value) => ({ done: outcome.done(value), failures: [] }),
          async (error: unknown) => ({
            done: (await outcome.failed?.().catch(() => null)) ?? null,
            failures: [error],
          }),
        ),
      );
      return work;
    },
    async settle() {
      const ended = await Promise.all(under);
      return {
        done: ended.flatMap(({ done }) => done ?? []),
        failures: ended.flatMap(({ failures }) => failures),
      };
    },
  };
}
