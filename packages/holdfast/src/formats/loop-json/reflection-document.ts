import type { JsonObject } from "../../core/json.ts";
import type { Answer, CheckResult, Iteration, Reflection, Verification } from "../../core/ralph/iteration.ts";
import type { LiveLoop } from "./live-loop.ts";

/**
 * A loop's `reflection-memory.json`: its newest reflection in the shape of the published schema, and under `window` the older ones of its
 * memory in the same shape, newest first. null: it remembers nothing yet. What the run does not know is left out, never made up.
 */
export function reflectionDocument(
  live: LiveLoop,
  takenAt: ReadonlyMap<number, string>,
  otherwiseAt: string,
): JsonObject | null {
  const [newest, ...older] = live.state.memory
    .toReversed()
    .map((reflection) => entryOf(live, reflection, takenAt.get(reflection.iteration) ?? otherwiseAt));
  return newest === undefined ? null : { ...newest, window: older };
}

function entryOf(live: LiveLoop, reflection: Reflection, timestamp: string): JsonObject {
  const { options, state } = live;
  const { iteration: number } = reflection;
  const facts = {
    reflection,
    iteration: state.iterations.find((one) => one.number === number) ?? null,
    answer: state.answer?.number === number ? state.answer : null,
    verification: state.verification?.number === number ? state.verification : null,
  };
  return {
    loop_id: live.loopId ?? live.workflowId,
    iteration: number,
    timestamp,
    actor_output: actorOutput(facts),
    evaluator_output: evaluatorOutput(facts),
    self_reflection: {
      reflection_text: reflection.text,
      actionable_insights: reflection.failing.map((name) => `Still fails: ${name}`),
      lessons_learned: reflection.learnings,
    },
    memory_metadata: {
      omega_capacity: options.memory.capacity,
      current_memory_size: state.memory.length,
      window_policy: options.memory.policy,
    },
  };
}

interface Facts {
  readonly reflection: Reflection;
  readonly iteration: Iteration | null;
  readonly answer: Answer | null;
  readonly verification: Verification | null;
}

function actorOutput({ reflection, iteration, answer, verification }: Facts): JsonObject {
  const changed = iteration?.filesChanged ?? null;
  const files = changed === null ? "Worked on the files" : `Changed ${changed} file${changed === 1 ? "" : "s"}`;
  return {
    actions: [
      { type: "code_modification", description: `${reflection.unitName}: ${files}` },
      ...(verification?.checks ?? []).map(({ command }) => ({ type: "test_execution", description: command })),
    ],
    rationale: answer?.said ?? "",
  };
}

function evaluatorOutput({ reflection, iteration, verification }: Facts): JsonObject {
  const { verdict, quality } = reflection;
  const tests = iteration?.tests ?? null;
  const metrics = {
    ...(tests === null ? {} : { tests_passed: tests.passed, tests_failed: tests.failed, tests_skipped: tests.skipped }),
    ...(iteration?.errors == null ? {} : { errors: iteration.errors }),
    ...(iteration?.warnings == null ? {} : { warnings: iteration.warnings }),
    ...(quality === null ? {} : { quality }),
  };
  return {
    passed: verdict === "passed",
    verification_type: verdict === "unchecked" ? "none" : "command",
    results: (verification?.checks ?? []).map((check) => ({
      tool: check.command,
      status: statusOf(check),
      ...(check.code === null ? {} : { exit_code: check.code }),
    })),
    errors: reflection.failing,
    ...(quality === null ? {} : { reward_signal: Math.min(1, Math.max(0, quality / 100)) }),
    metrics,
  };
}

function statusOf({ kind, code }: CheckResult): "pass" | "fail" | "error" | "skip" {
  switch (kind) {
    case "exited":
      return code === 0 ? "pass" : "fail";
    case "timed_out":
    case "not_started":
      return "error";
    case "interrupted":
      return "skip";
  }
}
