import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ENTRY_KINDS, type EntryKind, type JournalEntry } from "@holdfast/core/journal";
import type { Json, JsonObject } from "@holdfast/core/json";
import type { Run } from "@holdfast/core/run";
import { smallJson, word } from "@holdfast/test-support/formats/arbitrary-checkpoint";
import { misfits, propertyRuns, replaceAt } from "@holdfast/test-support/formats/format-suite";
import type { Trajectory } from "./atif-agent-log.ts";
import { type AgentLog, type AtifSource, exportAtif } from "./atif.ts";

const schema: JsonObject = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../holdfast/schemas/atif-1.7.schema.json"), "utf8"),
);
const AT = "2026-03-01T10:00:00.000Z";
const run: Run = {
  id: "issue-42-k3f9",
  createdAt: AT,
  workflow: "impl",
  work: { kind: "issue", number: 42 },
  forkedFrom: null,
  labels: {},
};

function entriesOf(bodies: readonly (readonly [EntryKind, JsonObject])[]): readonly JournalEntry[] {
  return bodies.map(([kind, body], index) => ({
    run: run.id,
    entry: index + 1,
    kind,
    at: AT,
    epoch: 1,
    body,
    digest: "",
    hash: "",
  }));
}

function sourceOf(bodies: readonly (readonly [EntryKind, JsonObject])[], logs: readonly AgentLog[] = []): AtifSource {
  const issue = {
    number: 42,
    title: "Crash",
    body: "On empty input.",
    labels: [],
    state: "open",
    updatedAt: AT,
  } as const;
  return {
    run,
    entries: entriesOf(bodies),
    logs,
    inputs: { issue, task: null, base: null, plan: null },
    conductor: { version: "0.1.0", agent: "claude", model: "m-large" },
  };
}

/** Exports a run and checks the result against the schema and the rules beyond it. */
function exported(source: AtifSource): Trajectory {
  const trajectory = JSON.parse(new TextDecoder().decode(exportAtif(source).bytes)) as Json & Trajectory;
  expect(misfits(schema, trajectory)).toEqual([]);
  expectRules(trajectory);
  return trajectory;
}

function expectRules(trajectory: Trajectory): void {
  const inside = trajectory.subagent_trajectories ?? [];
  const ids = inside.map((one) => one.trajectory_id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(trajectory.steps.map((step) => step.step_id)).toEqual(trajectory.steps.map((_, index) => index + 1));
  for (const step of trajectory.steps) {
    const calls = (step.tool_calls ?? []).map((call) => call.tool_call_id);
    for (const result of step.observation?.results ?? []) {
      if (result.source_call_id !== undefined) expect(calls).toContain(result.source_call_id);
      for (const reference of result.subagent_trajectory_ref ?? []) expect(ids).toContain(reference.trajectory_id);
    }
  }
  inside.forEach(expectRules);
}

const report = (text: string, more: JsonObject = {}): JsonObject => ({
  outcome: "completed",
  cause: null,
  message: null,
  text,
  session: "s-1",
  usage: { inputTokens: 100, outputTokens: 20, microUsd: 1500 },
  changed: true,
  collected: {},
  milliseconds: 10,
  ...more,
});

const story: readonly (readonly [EntryKind, JsonObject])[] = [
  ["run.created", {}],
  ["lease.taken", {}],
  ["stage.entered", { stageAttempt: 1, stage: "impl", iteration: 1 }],
  ["step.started", { stageAttempt: 1, step: "code" }],
  ["step.finished", { stageAttempt: 1, step: "code", result: report("Done.") }],
  ["step.finished", { stageAttempt: 1, step: "tests", result: { passed: true } }],
  ["step.failed", { stageAttempt: 1, step: "push", reason: "network" }],
  ["effect.intended", { key: "k", kind: "git.push", target: "origin", payload: "", detail: { branch: "b" } }],
  ["effect.settled", { key: "k", outcome: "done", adopted: false, receipt: { sha: "1" } }],
  ["stage.ended", { stageAttempt: 1, stage: "impl", event: "impl_done", next: "review", reason: "ok", score: null }],
  ["run.waiting", { for: "you", reason: "Merge?", until: null }],
  ["run.continued", { decision: "merge", answer: "yes" }],
  [
    "step.finished",
    {
      stageAttempt: 1,
      step: "code",
      result: report("Again.", { outcome: "failed", usage: { inputTokens: null, outputTokens: 5, microUsd: null } }),
    },
  ],
  ["x.impl.score", { score: 90 }],
  ["run.ended", { outcome: "done" }],
];

const claudeLog = [
  { type: "system", subtype: "init", session_id: "s-9", model: "m-2", claude_code_version: "2.1.0", tools: [] },
  { type: "user", message: { role: "user", content: "Fix it" } },
  {
    type: "assistant",
    message: { id: "m1", model: "m-2", content: [{ type: "thinking", thinking: "Hm." }], usage: { output_tokens: 1 } },
  },
  {
    type: "assistant",
    message: {
      id: "m1",
      model: "m-2",
      content: [
        { type: "text", text: "I look." },
        { type: "tool_use", id: "t1", name: "Read", input: { path: "a" } },
      ],
    },
  },
  {
    type: "user",
    message: {
      content: [{ type: "tool_result", tool_use_id: "t1", content: [{ type: "text", text: "body" }], is_error: true }],
    },
  },
  { type: "stream_event", event: {} },
  {
    type: "result",
    result: "ok",
    total_cost_usd: 0.5,
    usage: { input_tokens: 10, cache_read_input_tokens: 5, output_tokens: 7 },
  },
];
const codexLog = [
  { type: "thread.started", thread_id: "th" },
  { type: "item.completed", item: { id: "i0", type: "reasoning", text: "Think." } },
  { type: "item.completed", item: { id: "i1", type: "agent_message", text: "Run it." } },
  {
    type: "item.completed",
    item: { id: "i2", type: "command_execution", command: "ls", aggregated_output: "a\n", exit_code: 0 },
  },
  { type: "item.completed", item: { id: "i3", type: "file_change", changes: [{ path: "a", kind: "add" }] } },
  { type: "turn.completed", usage: { input_tokens: 9, cached_input_tokens: 4, output_tokens: 2 } },
];
const linesOf = (events: readonly object[]): readonly string[] => events.map((event) => JSON.stringify(event));

describe("ATIF 1.7", () => {
  test("a run becomes a trajectory, entry by entry", () => {
    const trajectory = exported(sourceOf(story));
    expect(
      trajectory.steps.map((step) => [step.source, step.message || (step.tool_calls?.[0]?.function_name ?? "")]),
    ).toEqual([
      ["user", "Issue #42: Crash\n\nOn empty input."],
      ["system", "Stage impl, iteration 1"],
      ["agent", "code"],
      ["agent", "tests"],
      ["agent", "push"],
      ["agent", "git.push"],
      ["system", "Stage impl ended with impl_done, next review: ok"],
      ["system", "Waiting for you: Merge?"],
      ["user", "yes"],
      ["agent", "code"],
      ["system", 'x.impl.score {"score":90}'],
      ["system", "Ended: done"],
    ]);
    expect(trajectory.final_metrics).toEqual({
      total_prompt_tokens: 100,
      total_completion_tokens: 25,
      total_cost_usd: 0.0015,
      total_steps: 12,
    });
    expect(trajectory.subagent_trajectories?.map((one) => [one.trajectory_id, one.steps[0]?.message])).toEqual([
      ["issue-42-k3f9/1/code", "Done."],
      ["issue-42-k3f9/1/code/13", "Again."],
    ]);
  });

  test("omissions are reported", () => {
    expect(exportAtif(sourceOf(story)).losses.map((loss) => loss.path)).toEqual([
      "prompts",
      "journal.run.created",
      "journal.lease.taken",
      "journal.step.started",
      "journal.effect.settled",
    ]);
  });

  test("claude's events: turns are joined, results have their calls, the rest is kept", () => {
    const [call] =
      exported(sourceOf(story.slice(0, 5), [{ stageAttempt: 1, step: "code", lines: linesOf(claudeLog) }]))
        .subagent_trajectories ?? [];
    expect(call).toMatchObject({
      session_id: "s-1",
      agent: { name: "claude", version: "2.1.0", model_name: "m-2" },
      steps: [
        { step_id: 1, source: "user", message: "Fix it" },
        {
          step_id: 2,
          source: "agent",
          model_name: "m-2",
          message: "I look.",
          reasoning_content: "Hm.",
          tool_calls: [{ tool_call_id: "t1", function_name: "Read", arguments: { path: "a" } }],
          observation: { results: [{ source_call_id: "t1", content: "body", extra: { is_error: true } }] },
        },
      ],
      final_metrics: { total_prompt_tokens: 100, total_cached_tokens: 5, total_cost_usd: 0.0015, total_steps: 2 },
      extra: { other_events: [{ subtype: "init", tools: [] }, { type: "stream_event", event: {} }, { result: "ok" }] },
    });
  });

  test("codex's events", () => {
    const [call] =
      exported(sourceOf(story.slice(0, 5), [{ stageAttempt: 1, step: "code", lines: linesOf(codexLog) }]))
        .subagent_trajectories ?? [];
    expect(call?.steps).toMatchObject([
      { message: "Run it.", reasoning_content: "Think." },
      {
        tool_calls: [{ tool_call_id: "i2", function_name: "command_execution", arguments: { command: "ls" } }],
        observation: { results: [{ source_call_id: "i2", content: "a\n", extra: { exit_code: 0 } }] },
      },
      { tool_calls: [{ tool_call_id: "i3", function_name: "file_change" }] },
    ]);
  });

  test("images, and figures of single messages, are reported as losses; calls keep unusual arguments", () => {
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0K" } };
    const events = [
      { type: "user", message: { content: [image] } },
      {
        type: "assistant",
        message: {
          id: "m1",
          content: [{ type: "tool_use", id: "t1", name: "Odd", input: ["a"] }],
          usage: { input_tokens: 3 },
        },
      },
      { type: "user", message: { content: [{ type: "tool_result", tool_use_id: "t1", content: [image] }] } },
    ];
    const source = sourceOf(story.slice(0, 5), [{ stageAttempt: 1, step: "code", lines: linesOf(events) }]);
    expect(exported(source).subagent_trajectories?.[0]?.steps).toMatchObject([
      { source: "user", message: "[image]" },
      {
        tool_calls: [{ arguments: { input: ["a"] } }],
        observation: { results: [{ source_call_id: "t1", content: "[image]" }] },
      },
    ]);
    expect(exportAtif(source).losses.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["logs.images", "logs.messages"]),
    );
    const plain = sourceOf(story.slice(0, 5), [{ stageAttempt: 1, step: "code", lines: linesOf(codexLog) }]);
    expect(exportAtif(plain).losses.map(({ path }) => path)).not.toContain("logs.images");
  });

  test("the output of a call that never ended is included", () => {
    const logs = [
      { stageAttempt: 1, step: "code", lines: linesOf(codexLog) },
      { stageAttempt: 2, step: "review", lines: ["I look at", "the change"] },
      { stageAttempt: 3, step: "empty", lines: [] },
    ];
    const [ended, cut, ...more] = exported(sourceOf(story.slice(0, 5), logs)).subagent_trajectories ?? [];
    expect(ended?.trajectory_id).toBe("issue-42-k3f9/1/code");
    expect(cut).toMatchObject({
      trajectory_id: "issue-42-k3f9/2/review/unfinished",
      steps: [{ message: "I look at\nthe change" }],
      extra: { holdfast: { outcome: "unfinished" } },
    });
    expect(more).toEqual([]);
  });

  test("plain output is one message", () => {
    const [call] =
      exported(sourceOf(story.slice(0, 5), [{ stageAttempt: 1, step: "code", lines: ["working", "", "done"] }]))
        .subagent_trajectories ?? [];
    expect(call?.steps.map((step) => step.message)).toEqual(["working\ndone"]);
  });

  test("any journal and any log make a valid trajectory", () => {
    const body = fc.dictionary(
      fc.oneof(
        word,
        fc.constantFrom("stageAttempt", "step", "stage", "result", "key", "kind", "answer", "reason", "text"),
      ),
      fc.oneof(smallJson(), fc.constantFrom<Json>(report("x"), report("y", { session: null }))),
      { maxKeys: 5, noNullPrototype: true },
    );
    const bodies = fc.array(fc.tuple(fc.constantFrom<EntryKind>(...ENTRY_KINDS, "x.own"), body), { maxLength: 8 });
    const event = fc.oneof(
      fc.constantFrom(...linesOf([...claudeLog, ...codexLog]), "plain", "{", ""),
      fc
        .constantFrom(...claudeLog, ...codexLog)
        .chain((one) =>
          fc
            .tuple(fc.constantFrom(...Object.keys(one)), smallJson())
            .map(([key, value]) => JSON.stringify({ ...one, [key]: value })),
        ),
      fc
        .record({
          type: fc.constantFrom("assistant", "user", "item.completed"),
          message: fc.record({ content: fc.array(smallJson()) }),
          item: body,
        })
        .map((one) => JSON.stringify(one)),
    );
    fc.assert(
      fc.property(bodies, fc.array(event, { maxLength: 10 }), (given, lines) => {
        const all = [...given, ["step.finished", { stageAttempt: 1, step: "code", result: report("z") }] as const];
        exported(sourceOf(all, [{ stageAttempt: 1, step: "code", lines }]));
      }),
      propertyRuns(300),
    );
  });

  test.each<readonly [string, Json]>([
    ["/schema_version", "ATIF-v2.0"],
    ["/surprise", 1],
    ["/steps", []],
    ["/steps/0/step_id", 0],
    ["/steps/0/source", "tool"],
    ["/steps/0/metrics", {}],
    ["/steps/0/timestamp", "yesterday"],
    ["/steps/0/message", null],
    ["/steps/0/message", [{ type: "text" }]],
    ["/steps/0/message", [{ type: "image", source: { media_type: "image/bmp", path: "x" } }]],
    ["/steps/2/metrics", { prompt_tokens: 1 }],
    ["/steps/2/tool_calls", [{ tool_call_id: "a", function_name: "b", arguments: "ls" }]],
    ["/steps/2/observation", { results: [{ subagent_trajectory_ref: [{ session_id: "only" }] }] }],
    ["/subagent_trajectories/0/trajectory_id", 7],
    ["/final_metrics/total_steps", 1.5],
    ["/agent/version", null],
  ])("the schema refuses %s = %j", (path, value) => {
    const valid = JSON.parse(new TextDecoder().decode(exportAtif(sourceOf(story)).bytes)) as Json;
    expect(misfits(schema, valid)).toEqual([]);
    expect(misfits(schema, replaceAt(valid, path, value))).not.toEqual([]);
  });
});
