import { parseRalphState } from "@holdfast/workflows/ralph/state";
import type { JsonObject } from "@holdfast/core/json";
import type { Leg, Scenario } from "./scenarios.ts";
import type { FinalState } from "./final-state.ts";

const usage = { input: 300, output: 100, microUsd: 5000 };

/** If the parent dies at the first edit, the edits after the pause are still outstanding. */
function writes(iteration: number, text: string): JsonObject {
  return {
    when: { iteration },
    edits: [
      { do: "write", path: "answer.txt", text: "half\n" },
      { do: "wait", ms: 40 },
      { do: "write", path: "answer.txt", text },
    ],
    reply: `I wrote ${text}\n## Learnings\n- ${text.trim()} is not all.\n`,
    usage,
  };
}

/** Speaks as a test runner does, and leaves a file behind when it passes. */
const UNTIL =
  'n=$(cat answer.txt 2>/dev/null || echo 0); echo "Tests  $((10 - n)) failed | $n passed (10)"; test $n = 10 && echo yes > passed.txt';

const options: JsonObject = {
  task: "Write the answer",
  until: UNTIL,
  detection: { stuck: 2, oscillation: null, regression: null },
  onStuck: "rollback",
  pullRequest: true,
};
const leg: Leg = { options, limit: {}, raises: false, own: "ralph", ends: "done" };

/** None lost, none skipped, none twice: four iterations, one way back to the best, one budget that ran out. */
function claims({ values }: Pick<FinalState, "values" | "position" | "forge">): readonly string[] {
  const state = parseRalphState(values as JsonObject);
  const facts: Readonly<Record<string, unknown>> = {
    numbers: state.iterations.map(({ number }) => number),
    verdicts: state.iterations.map(({ verdict }) => verdict),
    passed: state.iterations.map(({ tests }) => tests?.passed),
    interventions: state.interventions,
    best: state.best?.iteration,
    refused: state.refused,
  };
  const expected: Readonly<Record<string, unknown>> = {
    numbers: [1, 2, 3, 4],
    verdicts: ["failed", "failed", "failed", "passed"],
    passed: [7, 5, 5, 10],
    interventions: [{ at: 3, kind: "rolled_back", to: 1 }],
    best: 4,
    refused: [],
  };
  return Object.keys(expected)
    .filter((what) => JSON.stringify(facts[what]) !== JSON.stringify(expected[what]))
    .map((what) => `${what}: ${JSON.stringify(facts[what])} instead of ${JSON.stringify(expected[what])}`);
}

/** A loop for an issue, killed at every write: better, worse, stuck, back to the best, out of budget, done, a pull request. */
export const RALPH: Scenario = {
  name: "a loop that goes back to its best",
  answers: [writes(1, "7\n"), writes(2, "5\n"), writes(3, "5\n"), writes(4, "10\n")],
  claims,
  legs: [
    { ...leg, limit: { tokens: 800 }, ends: "waiting" },
    { ...leg, limit: { tokens: 9000 }, raises: true },
  ],
  ci: null,
  moved: null,
  expected: { "answer.txt": "10\n", "passed.txt": "yes\n" },
};
