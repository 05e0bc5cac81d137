import { count, list, nullable, object, text } from "../shape.ts";
import type { Shape } from "../shape.ts";

// Type aliases, not interfaces: only those count as JSON objects to the compiler.

export type TestCounts = {
  readonly passed: number;
  readonly failed: number;
  /** Skipped, pending, todo, ignored: neither passed nor failed. */
  readonly skipped: number;
};

/** Names of what fails, sorted, without repeats, each cut to 200 characters; `more` counts those that were left out. */
export type Failing = { readonly names: readonly string[]; readonly more: number };

/** What a verification's output says in numbers. null: it does not say, which is not zero. */
export type Metrics = {
  readonly tests: TestCounts | null;
  /** Of compilers and linters. */
  readonly errors: number | null;
  readonly warnings: number | null;
  readonly failing: Failing;
  /** Which tools' output was recognised ("vitest", "tsc"), sorted. */
  readonly readers: readonly string[];
};

export const noMetrics: Metrics = {
  tests: null,
  errors: null,
  warnings: null,
  failing: { names: [], more: 0 },
  readers: [],
};

export const FAILING_SHAPE: Shape<Failing> = object<Failing>({ names: list(text), more: count });

export const TESTS_SHAPE: Shape<TestCounts | null> = nullable(
  object<TestCounts>({ passed: count, failed: count, skipped: count }),
);

export const METRICS_SHAPE: Shape<Metrics> = object<Metrics>({
  tests: TESTS_SHAPE,
  errors: nullable(count),
  warnings: nullable(count),
  failing: FAILING_SHAPE,
  readers: list(text),
});
