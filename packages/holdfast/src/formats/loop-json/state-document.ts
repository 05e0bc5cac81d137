import type { JsonObject } from "../../core/json.ts";
import type { Iteration, Verification } from "../../core/ralph/iteration.ts";
import { commonMembers } from "./loop-standing.ts";
import type { StandingLoop } from "./loop-standing.ts";

/** So many of the newest checks are listed; the numbers of the metrics are of all. */
const MAX_CHECKS = 50;

/** A loop's `state.json` (version 2 of its schema). Nothing in it is remembered: all is told from the newest checkpoint, the journal and the lease. */
export function stateDocument(
  loop: StandingLoop,
  facts: {
    /** Below the root; null: no checkpoint is a file yet. */
    readonly lastCheckpoint: string | null;
    /** When the newest checkpoint of an iteration was taken, where that is known. */
    readonly takenAt: ReadonlyMap<number, string>;
  },
): JsonObject {
  const { run, live, newest, standing, store } = loop;
  const { options, state } = live;
  const checks = state.iterations.flatMap((one) => checkOf(one, state.verification, facts.takenAt)).slice(-MAX_CHECKS);
  const last = checks.at(-1)?.timestamp;
  const { totals } = state;
  const failed = standing.status === "failed" || standing.status === "aborted" || standing.status === "crashed";
  return {
    version: "2.0.0",
    ...commonMembers(loop),
    last_updated: newest.createdAt,
    ...(standing.endedAt === null ? {} : { completed_at: standing.endedAt }),
    configuration: {
      max_iterations: options.maxIterations,
      ...(options.maxMinutes === null ? {} : { timeout_minutes: options.maxMinutes }),
      interactive: options.onStuck === "ask",
      auto_test: options.until.length > 0,
      checkpoint_interval: 1,
      execution_mode: newest.planes.config.mode,
    },
    progress: { completion_checks: checks, ...(last === undefined ? {} : { last_completion_check: last }) },
    metrics: {
      total_iterations: totals.iterations,
      successful_iterations: totals.passed,
      failed_iterations: totals.failed,
      total_tokens: totals.tokens,
      total_cost_usd: totals.microUsd / 1e6,
      total_duration_seconds: totals.milliseconds / 1000,
      ...(totals.iterations === 0
        ? {}
        : { average_iteration_time_seconds: Math.round(totals.milliseconds / totals.iterations) / 1000 }),
    },
    ...(facts.lastCheckpoint === null ? {} : { last_checkpoint: facts.lastCheckpoint }),
    ...(failed
      ? {
          error_context: {
            error_message: standing.reason ?? standing.detail,
            error_timestamp: standing.endedAt ?? newest.createdAt,
            recovery_attempted: state.interventions.length > 0,
          },
        }
      : {}),
    holdfast: { store, run: run.id, stage: newest.stage, standing: standing.detail, reason: standing.reason },
  };
}

/** Where nothing was checked there is no check to tell of. */
function checkOf(iteration: Iteration, newest: Verification | null, takenAt: ReadonlyMap<number, string>) {
  const { number, verdict } = iteration;
  if (verdict === "unchecked" || verdict === "not_run") return [];
  const at = takenAt.get(number);
  const output = newest?.number === number ? newest.checks.map(({ excerpt }) => excerpt).join("\n") : "";
  return [
    {
      iteration: number,
      ...(at === undefined ? {} : { timestamp: at }),
      passed: verdict === "passed",
      ...(output.trim() === "" ? {} : { output }),
    },
  ];
}
