import { expect, test } from "vitest";
import { parseRalphOptions } from "./options.ts";
import { planUnits } from "./units.ts";

test("a loop is one unit without a bound of its own, a task one with few tries", () => {
  const loop = planUnits(parseRalphOptions({ task: "x", until: ["a", "b"] }));
  expect(loop).toMatchObject([
    { name: "loop", instructions: "x", attempts: null, checks: [{ command: "a" }, { command: "b" }] },
  ]);
  const task = planUnits(parseRalphOptions({ workflowType: "agent_task", task: "x", attempts: 2 }));
  expect(task).toEqual([{ name: "task", instructions: "x", checks: [], attempts: 2 }]);
});

test("a flow is its steps; what the whole must meet is checked after the last", () => {
  const steps = [
    { name: "plan", prompt: "p" },
    { name: "build", prompt: "b", until: "make" },
  ];
  const units = planUnits(parseRalphOptions({ workflowType: "flow_command", steps, until: "npm test" }));
  expect(units.map((unit) => [unit.name, unit.checks.map((check) => check.command)])).toEqual([
    ["plan", []],
    ["build", ["make", "npm test"]],
  ]);
});

test.each([
  ["Do $ARGUMENTS, then $ARGUMENTS", "v1 $& $1", "Do v1 $& $1, then v1 $& $1"],
  ["Do it", "fast", "Do it\n\nArguments: fast"],
  ["Do it", "", "Do it"],
])("a skill takes its arguments: %s", (text, args, instructions) => {
  const options = parseRalphOptions({ workflowType: "skill_execution", skill: { name: "s", text, arguments: args } });
  expect(planUnits(options)).toMatchObject([{ name: "s", instructions, attempts: 3 }]);
});
