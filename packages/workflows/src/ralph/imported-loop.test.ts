import { describe, expect, test } from "vitest";
import type { JsonObject } from "@holdfast/core/json";
import { decodeLoopDocument } from "@holdfast/formats/loop-json";
import { readImportedLoop } from "./workflow.ts";
import { parseRalphState } from "./state.ts";

const document = (rest: JsonObject = {}, state: JsonObject = {}): JsonObject => ({
  checkpoint_id: "cp-1",
  workflow_id: "ralph-fix-tests-a1b2c3d4",
  loop_id: "ralph-fix-tests-a1b2c3d4",
  workflow_type: "ralph_loop",
  created_at: "2026-02-02T21:05:00Z",
  trigger: "iteration",
  state: {
    phase: "construction",
    progress: {},
    iteration: { current: 5, max: 9, failures: 2 },
    artifacts: [],
    ...state,
  },
  ...rest,
});

const read = (given: JsonObject, beside: JsonObject = {}, isNewest = true) =>
  readImportedLoop({ ...decodeLoopDocument(given), beside }, isNewest);

const LOOP = { task: "Fix it", completion_criteria: "npm test" };

describe("the position of a loop", () => {
  test.each([
    ["iteration", 5, 5],
    ["iteration_boundary", 5, 5],
    ["manual", 5, 4],
    ["pre_risky_op", 5, 4],
    ["error_recovery", 1, 0],
    ["phase_boundary", 0, 0],
  ])("a checkpoint of trigger %s in iteration %i has %i ended iterations", (trigger, current, ended) => {
    const planes = read(document({ trigger }, { iteration: { current, max: 9, failures: 9 } }))?.planes;
    expect(planes?.position).toMatchObject({ stage: "begin", iteration: ended });
    expect(parseRalphState(planes?.context.values ?? {}).totals).toMatchObject({ iterations: ended, failed: ended });
  });

  test.each([
    ...["running", "paused", "completing", "crashed", "recovering", "interrupted"].map((status) => [status, "begin"]),
    ...["completed", "success"].map((status) => [status, "done"]),
    ...["failed", "aborted", "error", "budget_exhausted"].map((status) => [status, "fatal"]),
    ["limit_reached", "begin"],
    ["a status of a later version", "begin"],
  ])("status %s: %s", (status, stage) => {
    const files = { "state.json": { ...LOOP, status, error_context: { error_message: "out of memory" } } };
    const position = read(document(), files)?.planes.position;
    expect(position).toMatchObject({ stage, iteration: 5 });
    if (stage === "fatal") expect(position?.reason).toBe(`It was ${status} before it was imported: out of memory`);
    expect(read(document(), files, false)?.planes.position.stage).toBe("begin");
  });

  test("a loop with no iterations left is at its limit, whatever its status; without a check nothing is decided", () => {
    const used = document({}, { iteration: { current: 9, max: 9 } });
    const at = (state: JsonObject) => read(used, { "state.json": state })?.planes.position.stage;
    expect(["running", "failed", "limit_reached"].map((status) => at({ ...LOOP, status }))).toEqual(
      Array(3).fill("limit"),
    );
    expect(at({ ...LOOP, status: "completed" })).toBe("done");
    expect([at({ status: "completed" }), at({ status: "failed" })]).toEqual(["begin", "begin"]);
  });
});

describe("the work of a loop", () => {
  test.each([
    ["npm test", "npm test"],
    ["npm test passes", "npm test"],
    ["npx tsc --noEmit exits with code 0.", "npx tsc --noEmit"],
    ["`make check` succeeds", "make check"],
    ["make passes-all", "make passes-all"],
  ])("the criterion %j is the command %j", (criterion, command) => {
    const inputs = read(document(), { "state.json": { ...LOOP, completion_criteria: criterion } })?.planes.config
      .inputs;
    expect(inputs).toMatchObject({ until: [{ command }], maxIterations: 9, task: "Fix it" });
  });

  test("both spellings of AIWG's files are read, the files before the checkpoint's own members", () => {
    const camel = {
      task: "Fix it",
      completion: "npm test",
      maxIterations: 7,
      learnings: "## Notes\n- one\n\n2. two\n",
    };
    const inputs = read(document(), { "state.json": camel })?.planes;
    expect(inputs?.config.inputs).toMatchObject({ until: [{ command: "npm test" }], maxIterations: 7 });
    expect(inputs?.context.values["learnings"]).toEqual([
      { iteration: 0, text: "one" },
      { iteration: 0, text: "two" },
    ]);
    const variables = { task: "In the checkpoint", completion_criteria: "make" };
    expect(read(document({}, { variables }))?.planes.config.inputs).toEqual({
      workflowType: "ralph_loop",
      task: "In the checkpoint",
      until: [{ command: "make" }],
      maxIterations: 9,
    });
  });

  test("a document without a task is described by its id, phase, step and variables", () => {
    const variables = { current_issue: "#268", approach: "multi-loop", nested: { not: "shown" } };
    expect(read(document({}, { step: "implement_issue", variables }))?.work).toEqual({
      kind: "task",
      text: 'Continue the work "fix tests" (phase construction, step implement_issue). Known: current_issue: #268; approach: multi-loop.',
    });
  });

  test("agent, model, mode and inputs of a document grant no rights and select no agent", () => {
    const config = {
      agent: "claude",
      model: "opus",
      execution_mode: "strict",
      inputs: { yolo: true, steps: [], model: "command:evil", until: "evil" },
    };
    expect(read(document({ execution_config: config }))?.planes.config).toMatchObject({
      agent: null,
      model: null,
      mode: "default",
      inputs: { workflowType: "ralph_loop", task: expect.any(String), maxIterations: 9 },
    });
    expect(Object.keys(read(document({ execution_config: config }))?.planes.config.inputs ?? {})).toHaveLength(3);
  });

  test("reflections come from the loop's file or from the checkpoint, the newest that fit the window", () => {
    const entry = (iteration: number): JsonObject => ({
      iteration,
      evaluator_output: { passed: false, errors: ["login"], reward_signal: 0.4 },
      self_reflection: { reflection_text: `Thought ${iteration}`, lessons_learned: [`lesson ${iteration}`] },
    });
    const metadata = { memory_metadata: { omega_capacity: 2, window_policy: "recency" } };
    const file = { ...entry(5), ...metadata, window: [entry(4), entry(3), "no reflection", { iteration: 1 }] };
    const planes = read(document(), { "reflection-memory.json": file })?.planes;
    expect(planes?.config.inputs["memory"]).toEqual({ capacity: 2, policy: "recency" });
    const state = parseRalphState(planes?.context.values ?? {});
    expect(state.memory).toMatchObject([
      { iteration: 4, text: "Thought 4", quality: 40, failing: ["login"], verdict: "failed" },
      { iteration: 5, learnings: ["lesson 5"] },
    ]);
    expect(state.learnings.map(({ text }) => text)).toEqual(["lesson 3", "lesson 4", "lesson 5"]);
    const inside = { agent_state: { memory: { reflections: [entry(5)], learnings: ["inside", { text: "too" }] } } };
    const inner = parseRalphState(read(document({}, inside))?.planes.context.values ?? {});
    expect(inner.memory).toMatchObject([{ iteration: 5 }]);
    expect(inner.learnings.map(({ text }) => text)).toEqual(["lesson 5", "inside", "too"]);
  });

  test("unusual values are left out and other types are not a loop", () => {
    const odd = {
      status: 7,
      task: "",
      completion_criteria: ["x"],
      configuration: { max_iterations: -1 },
      learnings: 5,
    };
    const memory = { iteration: -1, memory_metadata: { omega_capacity: 99, window_policy: "all" }, window: "x" };
    const planes = read(document(), { "state.json": odd, "reflection-memory.json": memory })?.planes;
    expect(planes?.config.inputs).toMatchObject({ maxIterations: 9, memory: { capacity: 10 } });
    expect(planes?.config.inputs["until"]).toBeUndefined();
    for (const type of ["flow_command", "skill_execution", "agent_task"])
      expect(read(document({ workflow_type: type, loop_id: null }))).toBeNull();
  });
});
