// Sample values and iterations for tests of ralph.

import fc from "fast-check";
import type { Budget } from "@holdfast/core/position";
import { readAnswer } from "@holdfast/workflows/ralph/iterate";
import type { Answer, Iteration, Reflection } from "@holdfast/workflows/ralph/iteration";
import { type RalphOptions, planUnits } from "@holdfast/workflows/ralph/options";
import { planReflection } from "@holdfast/workflows/ralph/reflection";
import { type RalphEvent, type RalphState, reduceRalph } from "@holdfast/workflows/ralph/state";
import { type EndedCheck, readVerification } from "@holdfast/workflows/ralph/verify";

const NOTHING = { tokens: 0, microUsd: 0, milliseconds: 0 };

export const unlimitedBudget: Budget = {
  spent: NOTHING,
  reserved: NOTHING,
  limit: { tokens: null, microUsd: null, milliseconds: null },
};

export function sampleIteration(given: Partial<Iteration> = {}): Iteration {
  return {
    number: 1,
    unit: 0,
    unitName: "loop",
    outcome: "completed",
    verdict: "failed",
    quality: 50,
    tests: null,
    errors: null,
    warnings: null,
    spent: { tokens: null, microUsd: null },
    milliseconds: 1_000,
    filesChanged: null,
    signature: null,
    failingDigest: null,
    tree: null,
    ...given,
  };
}

export function sampleReflection(given: Partial<Reflection> = {}): Reflection {
  const iteration = given.iteration ?? 1;
  return {
    iteration,
    unitName: "loop",
    verdict: "failed",
    quality: null,
    text: "",
    learnings: [],
    signature: null,
    failing: [],
    lastSeen: iteration,
    ...given,
  };
}

/** What happens in one iteration of a test: the agent's output and outcome, and the results of the checks. */
export interface Turn {
  readonly said?: string;
  readonly outcome?: Answer["outcome"];
  readonly tokens?: number;
  readonly tree?: string;
  readonly filesChanged?: number;
  /** Output of the first check; absent: each check passes. */
  readonly output?: string;
  readonly check?: Partial<EndedCheck>;
}

/** The events of one whole iteration, and the state after them. */
export function iterate(
  state: RalphState,
  params: { readonly options: RalphOptions; readonly turn: Turn; readonly budget?: Budget },
): { readonly state: RalphState; readonly events: readonly RalphEvent[] } {
  const { options, turn, budget = unlimitedBudget } = params;
  const number = (state.iterations.at(-1)?.number ?? 0) + 1;
  const units = planUnits(options);
  const checks = units[state.unit]?.checks ?? [];
  const answer = readAnswer({
    number,
    unit: state.unit,
    units,
    report: {
      outcome: turn.outcome ?? "completed",
      cause: turn.outcome === "failed" ? "crash" : null,
      message: null,
      text: turn.said ?? "",
      milliseconds: 1_000,
      usage: { inputTokens: turn.tokens ?? null, outputTokens: null, microUsd: null },
    },
    filesChanged: turn.filesChanged ?? null,
    tree: turn.tree ?? null,
  });
  const fails = turn.output !== undefined || turn.check !== undefined;
  const verification = readVerification({
    number,
    planned: checks.length,
    ended: checks.slice(0, fails ? 1 : checks.length).map(({ command }) => ({
      command,
      kind: "exited",
      code: fails ? 1 : 0,
      output: turn.output ?? "",
      milliseconds: 500,
      ...turn.check,
    })),
  });
  const first: readonly RalphEvent[] = [
    { kind: "answered", answer },
    { kind: "verified", verification },
  ];
  const verified = first.reduce(reduceRalph, state);
  const reflected = planReflection({ state: verified, options, budget });
  return { state: reduceRalph(verified, reflected), events: [...first, reflected] };
}

/** Any code units: control characters, lone surrogates, unassigned characters. */
export function hostileText(most: number): fc.Arbitrary<string> {
  const unit = fc.oneof(fc.integer({ min: 0, max: 127 }), fc.integer({ min: 0, max: 0xffff }));
  return fc.array(unit, { maxLength: most }).map((units) => String.fromCharCode(...units));
}
