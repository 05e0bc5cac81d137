import { describe, expect, test } from "vitest";
import { defaultImplOptions, parseImplOptions } from "@holdfast/workflows/impl/options";
import { parseRalphOptions } from "@holdfast/workflows/ralph/options";
import { DEFAULT_WORK, mergeWork, workEntries } from "../config/work-settings.ts";
import { parseArguments } from "./parse-arguments.ts";
import { runSpec } from "./run-flags.ts";
import { deprecatedFlags, limitFlags, readLimits, readRalphFiles, readRequest } from "./run-options.ts";

describe("read request", () => {
  const input = (...words: readonly string[]) => parseArguments(runSpec, words).input;
  const request = (...words: readonly string[]) => readRequest(input(...words), DEFAULT_WORK);

  describe("readRequest", () => {
    test("without flags the config decides", () => {
      expect(request("42")).toMatchObject({
        work: { kind: "issue", number: 42 },
        workflow: "impl",
        agent: null,
        options: { maxIterations: 10, maxReviews: 8, review: true, simplify: false, yolo: false, implModel: null },
        limit: { tokens: null, microUsd: null, milliseconds: null },
      });
    });

    test("every flag reaches its option", () => {
      const words =
        "#42 -a command:a --impl-model command:b --review-model command:c --max-iterations 3 --max-reviews 2 --no-review --simplify --gate make --base dev --draft --wait-for-ci --ignore-reviews --yolo --max-tokens 5 --max-cost 2.5 --max-total-time 2h --max-time 90m";
      expect(request(...words.split(" "))).toMatchObject({
        agent: "command:a",
        options: {
          maxIterations: 3,
          maxReviews: 2,
          review: false,
          simplify: true,
          yolo: true,
          waitForCi: true,
          applyReviews: false,
          draft: true,
          implModel: "command:b",
          reviewModel: "command:c",
          gate: "make",
          baseBranch: "dev",
        },
        limit: { tokens: 5, microUsd: 2_500_000, milliseconds: 7_200_000 },
        sessionMs: 5_400_000,
      });
    });

    test("the config's values apply without a flag, and none lifts a limit", () => {
      const settings = {
        ...DEFAULT_WORK,
        agent: "command:x",
        impl: { ...DEFAULT_WORK.impl, review: false, tags: ["a"] },
        budget: { tokens: 9, microUsd: 9, milliseconds: 9 },
      };
      expect(readRequest(input("1", "--review", "--max-tokens", "none"), settings)).toMatchObject({
        agent: "command:x",
        options: { review: true, tags: ["a"] },
        limit: { tokens: null, microUsd: 9, milliseconds: 9 },
      });
    });

    test("impl's rare limits come from the config, and its defaults are those of the workflow", () => {
      expect(parseImplOptions(request("42").options).options.limits).toEqual(defaultImplOptions.limits);
      const limits = { prAttempts: 1, rebases: 0, parseFailures: 2, reviewFailures: 5, stuck: 7, simplifications: 0 };
      const { options } = readRequest(input("42"), mergeWork({ impl: { limits } }, "/", null));
      expect(parseImplOptions(options).options.limits).toEqual({
        prAttempts: 1,
        rebases: 0,
        parseStreak: 2,
        reviewStreak: 5,
        stuck: 7,
        simplifications: 0,
      });
    });

    test.each(Object.entries(runSpec.configFlags))(
      "--%s is refused with the config key %s, which exists",
      (flag, key) => {
        expect(() => request("42", `--${flag}`, "1")).toThrow(
          expect.objectContaining({
            code: "USAGE",
            hint: expect.stringContaining(`Set ${key} in holdfast.config.yaml`),
          }),
        );
        expect(workEntries(DEFAULT_WORK).map(([name]) => name)).toContain(key);
      },
    );

    test("--agent replaces the models of the config, and each model flag beats it for its role", () => {
      const settings = {
        ...DEFAULT_WORK,
        models: { impl: "command:file-impl", review: "command:file-review" },
        impl: { ...DEFAULT_WORK.impl, yolo: true },
      };
      const models = (...words: readonly string[]) => readRequest(input("1", ...words), settings).options;
      expect(models()).toMatchObject({
        implModel: "command:file-impl",
        reviewModel: "command:file-review",
        yolo: true,
      });
      expect(models("-a", "command:x")).toMatchObject({ implModel: null, reviewModel: null });
      expect(models("-a", "command:x", "--impl-model", "command:y")).toMatchObject({
        implModel: "command:y",
        reviewModel: "command:x",
      });
      expect(models("-a", "command:x", "--review-model", "command:y")).toMatchObject({
        implModel: null,
        reviewModel: "command:y",
      });
      expect(models("--no-yolo")).toMatchObject({ yolo: false });
      expect(() => models("--yolo", "--no-yolo")).toThrow(/Both --yolo and --no-yolo/);
    });

    test("old spellings have the same meaning and are reported", () => {
      const old = input("7", "--backend", "command:a", "--max-iter", "2", "--enable-review", "--enable-simp");
      expect(readRequest(old, DEFAULT_WORK)).toEqual(
        request("7", "--impl-model", "command:a", "--max-iterations", "2", "--review", "--simplify"),
      );
      expect(deprecatedFlags(old)).toEqual([
        "--backend is deprecated: use --impl-model",
        "--max-iter is deprecated: use --max-iterations",
        "--enable-review is deprecated: use --review",
        "--enable-simp is deprecated: use --simplify",
      ]);
    });

    test.each([
      [[], /Neither an issue nor a task/],
      [["fix it"], /"fix it" is not an issue number/],
      [["0"], /not an issue number/],
      [["4", "--task", "x"], /Both an issue and --task/],
      [["--task", " "], /--task is empty/],
      [["4", "--review", "--no-review"], /Both --review and --no-review/],
      [["4", "--backend", "a:b", "--impl-model", "a:b"], /Both --impl-model and --backend/],
      [["4", "--agent", "claude:"], /--agent cannot be "claude:"/],
      [["4", "--agent", "my agent"], /--agent cannot be "my agent"/],
      [["4", "--max-iterations", "0"], /would do nothing/],
      [["4", "--max-cost", "much"], /--max-cost cannot be "much"/],
      [["4", "--max-time", "0s"], /--max-time cannot be "0s"/],
      [["4", "--max-total-time", "0s"], /--max-total-time cannot be "0s"/],
    ])("%j is refused", (words, message) => {
      expect(() => request(...words)).toThrow(message);
    });
  });
});

test.each([
  [],
  ["--max-tokens", "5000"],
  ["--max-tokens", "none", "--max-cost", "2.5", "--max-total-time", "90m"],
  ["--max-cost", "none", "--max-total-time", "none"],
])("a suggested command repeats the limits %j", (...words) => {
  const read = (typed: readonly string[]) => readLimits(parseArguments(runSpec, ["1", ...typed]).input);
  const limits = read(words);
  expect(read(limitFlags(limits).split(" ").slice(1))).toEqual(limits);
});

describe("read crunch options", () => {
  const input = (...words: readonly string[]) => parseArguments(runSpec, ["--workflow", "crunch", ...words]).input;
  const request = (...words: readonly string[]) => readRequest(input(...words), DEFAULT_WORK);

  describe("options of the crunch workflow", () => {
    test("every flag reaches its option", () => {
      const words =
        "42 --target docs --type bug --max-parallel 5 --model quality=claude:haiku --model dev-go=codex:gpt-5 --gate make --base dev --yolo --draft";
      expect(request(...words.split(" "))).toMatchObject({
        workflow: "crunch",
        work: { kind: "issue", number: 42 },
        options: {
          target: "docs",
          type: "bug",
          maxParallel: 5,
          models: { quality: "claude:haiku", "dev-go": "codex:gpt-5" },
          gate: "make",
          baseBranch: "dev",
          yolo: true,
          draft: true,
        },
      });
    });
    test("crunch's own spellings have the same meaning and are reported", () => {
      const old = input("-i", "5", "-t", "validation");
      expect(readRequest(old, DEFAULT_WORK)).toMatchObject({
        work: { kind: "issue", number: 5 },
        options: { target: "validation" },
      });
      expect(deprecatedFlags(old)).toEqual([
        "--issue is deprecated: use the number alone",
        "-t validation is deprecated: use --target validation",
      ]);
      expect(request("--input", "Fix it").work).toEqual({ kind: "task", text: "Fix it" });
    });
    test.each([
      [["4", "-t", "make it fast"], /Both an issue and --task/],
      [["4", "--model", "haiku"], /--model cannot be "haiku"/],
      [["4", "--max-parallel", "many"], /max-parallel/],
    ])("%j is refused", (words, message) => {
      expect(() => request(...words)).toThrow(message);
    });
    test("another workflow rejects them", () => {
      const other = parseArguments(runSpec, ["4", "--target", "docs"]).input;
      expect(() => readRequest(other, DEFAULT_WORK)).toThrow(/--target is a flag of the crunch workflow/);
    });
  });
});

describe("read ralph options", () => {
  const input = (...words: readonly string[]) => parseArguments(runSpec, ["--workflow", "ralph", ...words]).input;
  const request = (...words: readonly string[]) => readRequest(input(...words), DEFAULT_WORK);
  const LOOP = ["--task", "Fix it", "--until", "make test"];

  describe("options of the ralph workflow", () => {
    test("every flag reaches its option", () => {
      const flags = "--until lint --no-first-check --max 7 --attempts 2 --on-stuck ask --pr --draft --base dev --yolo";
      expect(request(...LOOP, ...flags.split(" "))).toMatchObject({
        workflow: "ralph",
        work: { kind: "task", text: "Fix it" },
        options: {
          workflowType: "ralph_loop",
          until: [
            { command: "make test", timeoutMs: 600_000 },
            { command: "lint", timeoutMs: 600_000 },
          ],
          firstCheck: false,
          maxIterations: 7,
          attempts: 2,
          memory: { capacity: 3, policy: "fifo" },
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
      const file = {
        until: ["make"],
        maxIterations: 9,
        untilTimeout: 300_000,
        memory: 5,
        memoryPolicy: "recency",
      } as const;
      const configured = mergeWork({ ralph: { ...file, until: ["make"] } }, "/", null);
      expect(readRequest(input("--task", "x"), configured).options).toMatchObject({
        until: [{ command: "make", timeoutMs: 300_000 }],
        maxIterations: 9,
        memory: { capacity: 5, policy: "recency" },
      });
    });
    test("thresholds of detection and quality come from the config, and omitted ones keep their default", () => {
      const file = { detection: { stuck: 6, burn: null }, quality: { readability: 0 }, tokensPerIteration: 9000 };
      const { options } = readRequest(input(...LOOP), mergeWork({ ralph: file }, "/", null));
      const parsed = parseRalphOptions({ ...options, task: "Fix it" });
      expect(parsed.detection).toEqual({ stuck: 6, oscillation: 4, regression: 10, burn: null });
      expect(parsed.qualityWeights).toMatchObject({ validation: 30, readability: 0 });
      expect(parsed.tokensPerIteration).toBe(9000);
    });
    test("a skill and a flow are identified by their files", async () => {
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
        work: { kind: "task", text: "Run the flow release" },
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
      [["--task", "x"], /--until is missing/],
      [["--until", "true"], /Neither an issue nor a task/],
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
      [[...LOOP, "--gate", "make"], /--gate is not a flag of the ralph workflow/],
      [[...LOOP, "--target", "docs"], /--target is a flag of the crunch workflow/],
    ])("%j is refused", (words, message) => {
      expect(() => request(...words)).toThrow(message);
    });
    test("another workflow rejects them", () => {
      const other = parseArguments(runSpec, ["4", "--until", "true"]).input;
      expect(() => readRequest(other, DEFAULT_WORK)).toThrow(/--until is a flag of the ralph workflow/);
    });
  });
});
