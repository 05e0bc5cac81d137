import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { READABLE_ID } from "@holdfast/core/run";
import type { JsonObject } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { hostileText } from "@holdfast/test-support/workflows/ralph-sample";
import {
  DIMENSIONS,
  LOOP_ID,
  MEMORY_POLICIES,
  defaultRalphOptions,
  makeLoopId,
  parseRalphOptions,
  planUnits,
} from "./options.ts";

describe("options", () => {
  test("stored options, parsed again, are the same", () => {
    const words = fc.string({ minLength: 1 }).filter((text) => text.trim() !== "");
    fc.assert(
      fc.property(
        fc.record(
          {
            until: fc.oneof(words, fc.array(words, { minLength: 1, maxLength: 3 })),
            maxIterations: fc.integer({ min: 1, max: 500 }),
            firstCheck: fc.boolean(),
            pullRequest: fc.boolean(),
            draft: fc.boolean(),
            baseBranch: fc.option(words),
            onStuck: fc.constantFrom("stop", "ask", "rollback"),
          },
          { requiredKeys: ["until"] },
        ),
        words,
        (given, task) => {
          const options = parseRalphOptions({ ...given, task });
          expect(parseRalphOptions(options)).toEqual(options);
        },
      ),
    );
  });

  test("an unknown name and an invalid value are refused", () => {
    const loop = { task: "x", until: "true" };
    expect(() => parseRalphOptions({ ...loop, pullrequest: true })).toThrow(/no option "pullrequest"/);
    expect(() => parseRalphOptions({ ...loop, pullRequest: "yes" })).toThrow(/pullRequest/);
  });
});

describe("options", () => {
  const LOOP = { task: "Make it work", until: "npm test" };
  const usage = (hint?: RegExp) =>
    expect.objectContaining({ code: "USAGE", ...(hint === undefined ? {} : { hint: expect.stringMatching(hint) }) });

  test("a loop needs a task and a criterion, and no more", () => {
    expect(parseRalphOptions(LOOP)).toEqual({
      ...defaultRalphOptions,
      task: "Make it work",
      until: [{ command: "npm test", timeoutMs: 600_000 }],
    });
    expect(() => parseRalphOptions({ task: "x" })).toThrow(usage(/when the loop is done/));
    expect(() => parseRalphOptions({ until: "true" })).toThrow(usage());
    expect(() => parseRalphOptions({ ...LOOP, task: "  " })).toThrow(usage());
  });

  describe("requirements of each type of workflow", () => {
    test("a flow has steps, whose names differ, and needs no task", () => {
      const flow = {
        workflowType: "flow_command",
        steps: [
          { name: "plan", prompt: "Plan it" },
          { name: "build", prompt: "Do", until: "make" },
        ],
      };
      const parsed = parseRalphOptions(flow);
      expect(parsed.task).toBe("Carry out the flow: plan, build");
      expect(parsed.steps.map((step) => step.until.length)).toEqual([0, 1]);
      expect(() => parseRalphOptions({ workflowType: "flow_command" })).toThrow(usage(/steps of the flow/));
      const twice = [flow.steps[0], flow.steps[0]].map((step) => ({ name: step?.name ?? "", prompt: "x" }));
      expect(() => parseRalphOptions({ ...flow, steps: twice })).toThrow(usage(/names that differ/));
    });

    test("a skill has its text", () => {
      const skill = { name: "release", text: "Release $ARGUMENTS" };
      const parsed = parseRalphOptions({ workflowType: "skill_execution", skill });
      expect(parsed.skill).toEqual({ ...skill, arguments: "" });
      expect(parsed.task).toBe("Carry out the skill release");
      expect(() => parseRalphOptions({ workflowType: "skill_execution" })).toThrow(usage(/the skill/));
      expect(() => parseRalphOptions({ ...LOOP, skill })).toThrow(usage(/skill_execution/));
    });

    test("a task may have no check", () => {
      expect(parseRalphOptions({ workflowType: "agent_task", task: "x" }).until).toEqual([]);
      expect(() => parseRalphOptions({ workflowType: "agent_task" })).toThrow(usage());
      expect(() =>
        parseRalphOptions({ workflowType: "agent_task", task: "x", steps: [{ name: "a", prompt: "b" }] }),
      ).toThrow(usage(/flow_command/));
    });
  });

  test.each<[string, JsonObject]>([
    ["an unknown name", { untill: "x" }],
    ["no iterations", { maxIterations: 0 }],
    ["half an iteration", { maxIterations: 1.5 }],
    ["a window of none", { memory: { capacity: 0 } }],
    ["a window of eleven", { memory: { capacity: 11 } }],
    ["an unknown policy", { memory: { policy: "lifo" } }],
    ["an unknown type", { workflowType: "loop" }],
    ["an id without hex", { loopId: "ralph-fix-e5f6g7h8" }],
    ["an id with a path", { loopId: "ralph-../../x-a1b2c3d4" }],
    ["no weight at all", { qualityWeights: Object.fromEntries(DIMENSIONS.map((name) => [name, 0])) }],
    ["a negative weight", { qualityWeights: { validation: -1 } }],
    ["an unknown dimension", { qualityWeights: { beauty: 1 } }],
    ["two turns", { detection: { oscillation: 2 } }],
    ["an empty command", { until: [""] }],
    ["a model without a provider", { model: ":opus" }],
    ["an agent without its script", { model: "scripted" }],
  ])("%s is refused", (_, wrong) => {
    expect(() => parseRalphOptions({ ...LOOP, ...wrong })).toThrow(usage());
  });

  test("a provider alone is an agent with its default model", () => {
    expect(parseRalphOptions({ ...LOOP, model: "codex" })).toMatchObject({ model: "codex" });
  });

  test("null turns a detection or a limit off", () => {
    const off = { stuck: null, oscillation: null, regression: null, burn: null };
    expect(parseRalphOptions({ ...LOOP, detection: off, maxMinutes: null })).toMatchObject({
      detection: off,
      maxMinutes: null,
    });
  });

  const check = fc.record({ command: fc.stringMatching(/^[a-z]{1,9}$/), timeoutMs: fc.integer({ min: 1, max: 1e9 }) });
  const given = fc.record(
    {
      maxIterations: fc.integer({ min: 1, max: 1e6 }),
      attempts: fc.integer({ min: 1, max: 99 }),
      maxMinutes: fc.option(fc.integer({ min: 1, max: 1e6 })),
      tokensPerIteration: fc.option(fc.integer({ min: 1, max: 1e9 })),
      memory: fc.record({ capacity: fc.integer({ min: 1, max: 10 }), policy: fc.constantFrom(...MEMORY_POLICIES) }),
      detection: fc.record({
        stuck: fc.option(fc.integer({ min: 2, max: 20 })),
        regression: fc.option(fc.double({ min: 0, max: 100, noNaN: true })),
      }),
      onStuck: fc.constantFrom("stop", "ask", "rollback"),
      priority: fc.integer({ min: -1000, max: 1000 }),
      loopId: fc.constantFrom(null, "ralph-fix-tests-a1b2c3d4"),
      yolo: fc.boolean(),
    },
    { requiredKeys: [] },
  );

  test("stored options, parsed again, give the same options", () => {
    fc.assert(
      fc.property(given, fc.array(check, { minLength: 1, maxLength: 4 }), (some, until) => {
        const options = parseRalphOptions({ task: "x", until, ...some });
        const stored: JsonObject = JSON.parse(JSON.stringify(options));
        expect(parseRalphOptions(stored)).toEqual(options);
      }),
    );
  });

  test("hostile JSON is parsed or refused, never anything else", () => {
    const names = Object.keys(defaultRalphOptions);
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names, "__proto__"), fc.jsonValue({ maxDepth: 3 })), (hostile) => {
        const options: JsonObject = JSON.parse(JSON.stringify({ ...LOOP, ...hostile }));
        try {
          parseRalphOptions(options);
        } catch (error) {
          expect(error).toBeInstanceOf(HoldfastError);
          expect(error).toMatchObject({ code: "USAGE" });
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("units", () => {
  test("a loop is one unit without its own bound, a task is one with few attempts", () => {
    const loop = planUnits(parseRalphOptions({ task: "x", until: ["a", "b"] }));
    expect(loop).toMatchObject([
      { name: "loop", instructions: "x", attempts: null, checks: [{ command: "a" }, { command: "b" }] },
    ]);
    const task = planUnits(parseRalphOptions({ workflowType: "agent_task", task: "x", attempts: 2 }));
    expect(task).toEqual([{ name: "task", instructions: "x", checks: [], attempts: 2 }]);
  });

  test("a flow is its steps; the criterion of the whole is checked after the last", () => {
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
});

describe("loop id", () => {
  const hex = fc.stringMatching(/^[a-f0-9]{8}$/);

  test("a loop id describes the task", () => {
    expect(makeLoopId({ task: "Fix the Tests!", hex: "a1b2c3d4" })).toBe("ralph-fix-the-tests-a1b2c3d4");
  });

  test.each(["", "   ", "!!!", "修复测试", "исправь тесты", "\u0000"])("a task without a Latin letter: %j", (task) => {
    expect(makeLoopId({ task, hex: "2aee878f" })).toBe("ralph-task-2aee878f");
  });

  test("for any task, the id matches the schema and is a file name", () => {
    fc.assert(
      fc.property(hostileText(80), hex, (task, digits) => {
        const id = makeLoopId({ task, hex: digits });
        expect(id).toMatch(LOOP_ID);
        expect(id.length).toBeLessThanOrEqual(READABLE_ID);
        expect(id.endsWith(`-${digits}`)).toBe(true);
      }),
    );
  });

  test.each(["", "a1b2c3d", "a1b2c3d4e", "A1B2C3D4", "e5f6g7h8"])(
    "digits that are not hex are refused: %s",
    (digits) => {
      expect(() => makeLoopId({ task: "x", hex: digits })).toThrow(expect.objectContaining({ code: "USAGE" }));
    },
  );
});
