import { afterAll, beforeEach, expect, vi } from "vitest";
import type { TestContext } from "vitest";
import { clearScratch } from "./scratch.ts";
import type { Chance } from "./seed.ts";
import { chanceOf, isFullRun, sample, suiteSeed } from "./seed.ts";
import type { Bad, Swept } from "./sweep.ts";
import { whyNoTracer } from "./traced.ts";

/** Sums up what the tests of a file tried, and prints it in one line at the end. */
export interface Suite {
  readonly seed: number;
  chance(purpose: string): Chance;
  /** Each row with one of the kinds, as chance will have it; with all of them in a full run. */
  oneEach<R extends { readonly name: string }, K extends string>(
    rows: readonly R[],
    kinds: readonly K[],
  ): (R & { readonly kind: K })[];
  /** Fails the test when anything was bad, with the way to see it again. */
  check(swept: Swept): void;
  /** Skips the test if there is a reason, and prints the reason. */
  skipIf(reason: string | undefined, context: TestContext): void;
}

const FULL_RUN_MS = 8 * 3_600_000;

/** `needs` a tracer: if there is none, each test is skipped with the reason. */
export function faultSuite(name: string, needs?: "tracer"): Suite {
  const seed = suiteSeed();
  if (isFullRun()) vi.setConfig({ testTimeout: FULL_RUN_MS });
  const skipped: string[] = [];
  let [cases, states, bad] = [0, 0, 0];
  afterAll(() => {
    clearScratch();
    const how = isFullRun() ? "full" : "sampled";
    for (const line of skipped) process.stdout.write(`faults/${name}: skipped ${line}\n`);
    process.stdout.write(`faults/${name}: ${cases} cases, ${states} states, ${how}, seed ${seed}, ${bad} bad\n`);
  });
  const suite: Suite = {
    seed,
    chance: (purpose) => chanceOf(seed, purpose),
    oneEach: (rows, kinds) =>
      rows.flatMap((row) => sample(chanceOf(seed, row.name), kinds, 1).map((kind) => ({ ...row, kind }))),
    skipIf(reason, context) {
      if (reason === undefined) return;
      skipped.push(`"${context.task.name}": ${reason}`);
      context.skip(reason);
    },
    check(swept) {
      cases += swept.cases;
      states += swept.states;
      bad += swept.bad.length;
      if (swept.bad.length === 0) return;
      const again = `${isFullRun() ? "HOLDFAST_FULL=1 " : ""}HOLDFAST_SEED=${seed} npx vitest run --project promises packages/holdfast/test/faults/${name}.slow.test.ts`;
      expect.fail(
        `${swept.bad.length} of ${swept.states} states are bad. See it again: ${again}\n  ${groups(swept.bad).join("\n  ")}`,
      );
    },
  };
  if (needs === "tracer") beforeEach(async (context) => suite.skipIf(await whyNoTracer(), context));
  return suite;
}

/** One example of each kind of problem, and how often it was met: many states, few causes. */
function groups(bad: readonly Bad[]): readonly string[] {
  const kinds = new Map<string, { example: string; count: number }>();
  for (const { where, problems } of bad) {
    for (const problem of problems) {
      const kind = problem.split("\n")[0]?.replaceAll(/\/\S+|[0-9a-f]{8,}|\d+/g, "#") ?? "";
      const known = kinds.get(kind) ?? { example: `${problem}\n      ${where}`, count: 0 };
      kinds.set(kind, { ...known, count: known.count + 1 });
    }
  }
  return [...kinds.values()].map(({ example, count }) => `${count} times, such as: ${example}`);
}
