// Builds the `.aiwg` documents of a loop: state.json, registry.json and reflection-memory.json.

import type { Checkpoint } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import type { Run } from "@holdfast/core/run";
import type { Answer, CheckResult, Iteration, Reflection, Verification } from "./iteration.ts";
import type { LoopRun } from "./loop-checkpoint.ts";

/** How many of the newest checks are listed; the metrics cover all of them. */
const MAX_CHECKS = 50;

/**
 * A loop's `state.json` (schema version 2). It is derived from the newest checkpoint, the journal and the lease, and
 * stores nothing of its own.
 */
export function stateDocument(
  loop: ActiveLoop,
  facts: {
    /** Path below the root; null: no checkpoint has a file yet. */
    readonly lastCheckpoint: string | null;
    /** When the newest checkpoint of each iteration was taken, where known. */
    readonly takenAt: ReadonlyMap<number, string>;
  },
): JsonObject {
  const { run, live, newest, published, store } = loop;
  const { options, state } = live;
  const checks = state.iterations.flatMap((one) => checkOf(one, state.verification, facts.takenAt)).slice(-MAX_CHECKS);
  const last = checks.at(-1)?.timestamp;
  const { totals } = state;
  const failed = published.status === "failed" || published.status === "aborted" || published.status === "crashed";
  return {
    version: "2.0.0",
    ...commonMembers(loop),
    last_updated: newest.createdAt,
    ...(published.endedAt === null ? {} : { completed_at: published.endedAt }),
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
            error_message: published.reason ?? published.detail,
            error_timestamp: published.endedAt ?? newest.createdAt,
            recovery_attempted: state.interventions.length > 0,
          },
        }
      : {}),
    holdfast: { store, run: run.id, stage: newest.stage, status: published.detail, reason: published.reason },
  };
}

/** An unchecked iteration has no check to list. */
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

export const REGISTRY_PATH = ".aiwg/ralph/registry.json";

export function statePath(loopId: string): string {
  return `.aiwg/ralph/loops/${loopId}/state.json`;
}

/**
 * Builds the registry (schema version 2) with the unfinished loops of this store. Entries of other tools and stores and
 * unknown members remain unchanged, so that no other loop is lost.
 */
export function registryDocument(params: {
  /** The existing registry; null: missing or unreadable. */
  readonly before: JsonObject | null;
  readonly loops: readonly ActiveLoop[];
  readonly store: string;
  /** null: no limit. */
  readonly limit: number | null;
}): JsonObject {
  const { before, store, limit } = params;
  const own = params.loops.flatMap((loop) =>
    loop.live.loopId === null ? [] : [registryEntry(loop, loop.live.loopId)],
  );
  const ids = new Set(own.map(({ loop_id }) => loop_id));
  const listed = before?.["active_loops"];
  const others = (isJsonArray(listed) ? listed : []).filter(
    (entry) =>
      isJsonObject(entry) &&
      typeof entry["loop_id"] === "string" &&
      !ids.has(entry["loop_id"]) &&
      storeOf(entry) !== store,
  );
  const active = [...others, ...own];
  return {
    ...before,
    version: "2.0.0",
    max_concurrent_loops: limit ?? Math.max(PUBLISHED_LIMIT, active.length),
    active_loops: active,
    registry_path: REGISTRY_PATH,
    last_updated: newestOf(active, before?.["last_updated"]),
  };
}

/** The schema requires a number. */
const PUBLISHED_LIMIT = 4;

/** Whether the documents are equal except for heartbeats, so that there is nothing new to write. */
export function equalExceptHeartbeat(one: JsonObject, other: JsonObject | null): boolean {
  return other !== null && JSON.stringify(withoutPulse(one)) === JSON.stringify(withoutPulse(other));
}

function withoutPulse(document: JsonObject): JsonObject {
  const { last_updated: _updated, active_loops: loops, ...rest } = document;
  const still = (isJsonArray(loops) ? loops : []).map((entry) => {
    if (!isJsonObject(entry)) return entry;
    const { last_active: _pulse, ...same } = entry;
    return same;
  });
  return { ...rest, active_loops: still };
}

function registryEntry(loop: ActiveLoop, loopId: string) {
  const { run, live, newest, published, priority, store } = loop;
  const { maxIterations, maxMinutes } = live.options;
  return {
    ...commonMembers(loop),
    loop_id: loopId,
    last_active: published.heartbeatAt ?? newest.createdAt,
    state_file: statePath(loopId),
    max_iterations: maxIterations,
    ...(maxMinutes === null ? {} : { timeout_minutes: maxMinutes }),
    priority,
    holdfast: { store, run: run.id, status: published.detail },
  };
}

function storeOf(entry: JsonObject): Json | undefined {
  const mark = entry["holdfast"];
  return isJsonObject(mark) ? mark["store"] : undefined;
}

function newestOf(active: readonly Json[], before: Json | undefined): string {
  const times = active.flatMap((entry) => (isJsonObject(entry) ? [entry["last_active"]] : []));
  const known = [...times, before].filter((time) => typeof time === "string" && !Number.isNaN(Date.parse(time)));
  const sorted = known.map(String).toSorted((a, b) => Date.parse(a) - Date.parse(b));
  return sorted.at(-1) ?? "1970-01-01T00:00:00.000Z";
}

/**
 * A loop's `reflection-memory.json`: its newest reflection in the published schema, and under `window` the older ones,
 * newest first. null: the memory is empty. Unknown facts are left out, never invented.
 */
export function reflectionDocument(
  live: LoopRun,
  takenAt: ReadonlyMap<number, string>,
  otherwiseAt: string,
): JsonObject | null {
  const [newest, ...older] = live.state.memory
    .toReversed()
    .map((reflection) => reflectionEntry(live, reflection, takenAt.get(reflection.iteration) ?? otherwiseAt));
  return newest === undefined ? null : { ...newest, window: older };
}

function reflectionEntry(live: LoopRun, reflection: Reflection, timestamp: string): JsonObject {
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

/** Status words of the published schemas. `detail` states what they cannot express. */
export type LoopStatus = "running" | "paused" | "completing" | "completed" | "failed" | "aborted" | "crashed";

/** The status of a loop, derived from journal and lease at the time of writing. */
export interface LoopStatusDetail {
  readonly status: LoopStatus;
  /** Holdfast's own wording, such as "waiting for budget". */
  readonly detail: string;
  readonly reason: string | null;
  readonly endedAt: string | null;
  /** The live process that executes the loop on this host; null if there is none. */
  readonly pid: number | null;
  readonly owner: string | null;
  readonly heartbeatAt: string | null;
}

export interface ActiveLoop {
  readonly run: Pick<Run, "id" | "createdAt">;
  readonly live: LoopRun;
  readonly newest: Pick<Checkpoint, "createdAt" | "iteration" | "stage" | "planes">;
  readonly published: LoopStatusDetail;
  readonly priority: number;
  /** Id of the store, which distinguishes Holdfast's own entries from others. */
  readonly store: string;
}

/** Members that the registry and a loop's state share. */
function commonMembers({ run, live, newest, published }: ActiveLoop) {
  const { options } = live;
  const checks = options.until.map(({ command }) => command);
  return {
    loop_id: live.loopId ?? live.workflowId,
    status: published.status,
    // As in the file names: starts at 1, and is 0 before the first iteration.
    iteration: newest.iteration,
    task: options.task,
    ...(checks.length === 0 ? {} : { completion_criteria: checks.join(" && ") }),
    started_at: run.createdAt,
    pid: published.pid,
    ...(published.owner === null ? {} : { owner: published.owner }),
    working_directory: newest.planes.files?.worktree ?? null,
  };
}
