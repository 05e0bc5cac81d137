import { describe, expect, test } from "vitest";
import { DEFAULT_WORK, mergeWork } from "../../../config/work-settings.ts";
import { parseLoopOptions } from "../../../workflows/ralph/options.ts";
import { parseArguments } from "../../parse-arguments.ts";
import { readRalphFiles } from "./read-ralph-options.ts";
import { readRequest } from "./read-request.ts";
import { runSpec } from "./spec.ts";

const input = (...words: readonly string[]) => parseArguments(runSpec, ["--workflow", "ralph", ...words]).input;
const request = (...words: readonly string[]) => readRequest(input(...words), DEFAULT_WORK);
const LOOP = ["--task", "Fix it", "--until", "make test"];

describe("what is asked of the ralph workflow", () => {
  test("every flag reaches its option", () => {
    const flags =
      "--until lint --until-timeout 5m --no-first-check --max 7 --attempts 2 --memory 5 --memory-policy recency --on-stuck ask --pr --draft --base dev --yolo";
    expect(request(...LOOP, ...flags.split(" "))).toMatchObject({
      workflow: "ralph",
      work: { kind: "task", text: "Fix it" },
      options: {
        workflowType: "ralph_loop",
        until: [
          { command: "make test", timeoutMs: 300_000 },
          { command: "lint", timeoutMs: 300_000 },
        ],
        firstCheck: false,
        maxIterations: 7,
        attempts: 2,
        memory: { capacity: 5, policy: "recency" },
        onStuck: "ask",
        pullRequest: true,
        draft: true,
        baseBranch: "dev",
        yolo: true,
      },
    });
  });
  test("an issue ends in a pull request, a task does not; the config has the rest", () => {
    expect(request("42", "--until", "true").options).toMatchObject({ pullRequest: true, maxIterations: 200 });
    expect(request(...LOOP).options).toMatchObject({ pullRequest: false });
    const configured = { ...DEFAULT_WORK, ralph: { ...DEFAULT_WORK.ralph, until: ["make"], maxIterations: 9 } };
    expect(readRequest(input("--task", "x"), configured).options).toMatchObject({
      until: [{ command: "make" }],
      maxIterations: 9,
    });
  });
  test("what counts as trouble and as quality comes from the config, and what it leaves out keeps its default", () => {
    const file = { detection: { stuck: 6, burn: null }, quality: { readability: 0 }, tokensPerIteration: 9000 };
    const { options } = readRequest(input(...LOOP), mergeWork({ ralph: file }, "/", null));
    const parsed = parseLoopOptions({ ...options, task: "Fix it" });
    expect(parsed.detection).toEqual({ stuck: 6, oscillation: 4, regression: 10, burn: null });
    expect(parsed.qualityWeights).toMatchObject({ validation: 30, readability: 0 });
    expect(parsed.tokensPerIteration).toBe(9000);
  });
  test("a skill and a flow are told by their files", async () => {
    const texts: Readonly<Record<string, string>> = {
      "skills/review/SKILL.md": "Review $ARGUMENTS.",
      "release.yaml": "steps:\n  - { name: one, prompt: Do it. }\n",
      "commands/tidy.md": "Tidy $ARGUMENTS.",
    };
    const read = (path: string): Promise<string> => Promise.resolve(texts[path] ?? "");
    const skill = input("--skill", "skills/review/SKILL.md", "--task", "the API");
    expect(readRequest(skill, DEFAULT_WORK).options).toMatchObject({ workflowType: "skill_execution" });
    expect(await readRalphFiles(skill, read)).toEqual({
      skill: { name: "review", text: "Review $ARGUMENTS.", arguments: "the API" },
    });
    const flow = input("--flow", "release.yaml");
    expect(readRequest(flow, DEFAULT_WORK)).toMatchObject({
      work: { kind: "task", text: "Carry out the flow release" },
      options: { workflowType: "flow_command" },
    });
    expect(await readRalphFiles(flow, read)).toEqual({ steps: [{ name: "one", prompt: "Do it." }] });
    expect(await readRalphFiles(input("--flow", "commands/tidy.md", "--task", "src"), read)).toEqual({
      steps: [{ name: "tidy", prompt: "Tidy src." }],
    });
    const bad = readRalphFiles(input("--flow", "bad.yaml"), () => Promise.resolve("steps: ["));
    await expect(bad).rejects.toThrow(/bad.yaml cannot be read/);
  });
  test.each([
    [["--task", "x"], /When is it done/],
    [["--until", "true"], /What shall be worked on/],
    [["--task", " ", "--until", "true"], /--task is empty/],
    [["--task", "x", "--until", " "], /--until is empty/],
    [["4", "--task", "x", "--until", "true"], /Both an issue and --task/],
    [[...LOOP, "--max", "0"], /--max 0 would do nothing/],
    [[...LOOP, "--max", "many"], /--max needs a whole number/],
    [[...LOOP, "--max", "2", "--max-iterations", "3"], /Both --max and --max-iterations/],
    [[...LOOP, "--type", "loop"], /--type cannot be "loop"/],
    [[...LOOP, "--type", "skill_execution"], /needs a skill/],
    [[...LOOP, "--type", "flow_command"], /needs a flow/],
    [["--skill", "a.md", "--flow", "b.md"], /Both --skill and --flow/],
    [["--skill", "a.md", "--type", "agent_task"], /does not go with --skill/],
    [[...LOOP, "--until-timeout", "soon"], /--until-timeout cannot be "soon"/],
    [[...LOOP, "--gate", "make"], /--gate means nothing to the ralph workflow/],
    [[...LOOP, "--target", "docs"], /--target means something to the crunch workflow only/],
  ])("%j is refused", (words, message) => {
    expect(() => request(...words)).toThrow(message);
  });
  test("another workflow does not pretend to heed them", () => {
    const other = parseArguments(runSpec, ["4", "--until", "true"]).input;
    expect(() => readRequest(other, DEFAULT_WORK)).toThrow(/--until means something to the ralph workflow only/);
  });
});
