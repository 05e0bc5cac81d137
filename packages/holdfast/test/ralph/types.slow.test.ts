import { expect, test } from "vitest";
import type { JsonObject } from "@holdfast/core/json";
import { makeBench, writes } from "./bench.ts";

const SKILL = { name: "answering", text: "Answer with $ARGUMENTS.", arguments: "42" };
const STEPS = [
  { name: "draft", prompt: "Write something.", until: "test -s answer.txt" },
  { name: "polish", prompt: "Make it right." },
];

const TYPES: readonly [string, JsonObject, readonly string[]][] = [
  ["ralph_loop", {}, ["loop", "loop"]],
  ["agent_task", { workflowType: "agent_task" }, ["task", "task"]],
  ["skill_execution", { workflowType: "skill_execution", skill: SKILL }, ["answering", "answering"]],
  ["flow_command", { workflowType: "flow_command", steps: STEPS }, ["draft", "polish"]],
];

test.concurrent.each(TYPES)(
  "%s runs, checkpoints each iteration, and ends when its check passes",
  async (type, options, units) => {
    await using bench = await makeBench({
      answers: [writes("4\n", { when: { iteration: 1 } }), writes("42\n")],
      options,
    });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    const { iterations } = await bench.state();
    expect(iterations.map(({ unitName }) => unitName)).toEqual(units);
    const all = await bench.holdfast.store.listCheckpoints({ run: bench.run() });
    expect(all.filter(({ trigger }) => trigger === "iteration")).toHaveLength(2);
    expect((await bench.holdfast.status(bench.run())).loop).toMatchObject({ unit: null, totals: { iterations: 2 } });
    const { encoded } = await bench.holdfast.formats.encode(
      { run: bench.run(), sequence: all[0]?.sequence ?? 0 },
      "loop-json",
    );
    expect(JSON.parse(Buffer.from(encoded.bytes).toString())).toMatchObject({
      workflow_type: type,
      loop_id: type === "ralph_loop" ? bench.run() : null,
      state: { step: units.at(-1), iteration: { current: 2 } },
    });
  },
);

test.concurrent("a task without a check is done when the agent reports so, and the result is marked as unchecked", async () => {
  const options = { workflowType: "agent_task", until: null };
  await using bench = await makeBench({ answers: [writes("whatever\n")], options });
  expect(await bench.work()).toMatchObject({ kind: "done", reason: expect.stringContaining("nothing checked it") });
});

test.concurrent("a unit that does not succeed in its attempts ends the run", async () => {
  const options = { workflowType: "agent_task", attempts: 2, detection: { stuck: null } };
  await using bench = await makeBench({ answers: [writes("1\n")], options });
  expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringContaining("2 tries") });
});

test.concurrent("the prompt of a skill has its arguments, that of a step only its own part", async () => {
  await using skill = await makeBench({
    answers: [writes("42\n")],
    options: { workflowType: "skill_execution", skill: SKILL },
  });
  await skill.work();
  expect(await skill.read(".tmp/ralph-prompt-1.md")).toContain("Answer with 42.");
  await using flow = await makeBench({
    answers: [writes("4\n", { when: { iteration: 1 } }), writes("42\n")],
    options: { workflowType: "flow_command", steps: STEPS },
  });
  await flow.work();
  expect(await flow.read(".tmp/ralph-prompt-1.md")).not.toContain("Make it right.");
  expect(await flow.read(".tmp/ralph-prompt-2.md")).toContain("Make it right.");
});
