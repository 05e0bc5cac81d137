import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import type { AgentEvent, AgentTask } from "@holdfast/core/agent";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { prepareCall } from "@holdfast/testing/agent-contract";
import { createSetClock } from "@holdfast/testing/store-contract/harness";
import type { Answer } from "./parse-script.ts";
import { type ScriptedCall, createScriptedAgent, findScriptedAnswer, planScriptedAnswer } from "./scripted.ts";

describe("scripted", () => {
  function place(script: string) {
    const directory = scratchDirectory(onTestFinished);
    const cwd = join(directory, "work");
    mkdirSync(cwd);
    writeFileSync(join(directory, "script.yaml"), script);
    const clock = createSetClock("2026-03-01T12:00:00.000Z");
    const agent = createScriptedAgent({ clock, directory, sessions: false });
    const events: AgentEvent[] = [];
    const run = (change: Partial<AgentTask> = {}) => {
      const onEvent = (event: AgentEvent): number => events.push(event);
      const common = { prompt: "The prompt", model: "script.yaml", yolo: false, onEvent };
      return agent.run(prepareCall({ cwd }, { ...common, ...change }).task);
    };
    const read = (path: string): string => readFileSync(join(cwd, path), "utf8");
    return { run, read, cwd, events };
  }

  test("every kind of edit is made, and reported as it is made", async () => {
    const { run, read, cwd, events } = place(`
answers:
  - edits:
      - { do: write, path: deep/run.sh, text: "echo 1\\n", mode: "755" }
      - { do: append, path: deep/run.sh, text: "echo $& 1\\n" }
      - { do: replace, path: deep/run.sh, find: "1", text: "$&2" }
      - { do: write, path: "odd name", text: x }
      - { do: mode, path: odd name, mode: "600" }
      - { do: delete, path: gone }
    reply: done
`);
    mkdirSync(join(cwd, "gone"));
    expect(await run()).toMatchObject({ kind: "completed", text: "done" });
    expect(read("deep/run.sh")).toBe("echo $&2\necho $& $&2\n");
    expect(statSync(join(cwd, "deep/run.sh")).mode & 0o777).toBe(0o755);
    expect(statSync(join(cwd, "odd name")).mode & 0o777).toBe(0o600);
    expect(existsSync(join(cwd, "gone"))).toBe(false);
    const tools = events.filter((event) => event.kind === "tool").map((event) => `${event.name} ${event.detail}`);
    expect(tools[0]).toBe("write deep/run.sh");
    expect(tools).toHaveLength(6);
  });

  test("reports go to the files that the workflow names, with its completion marker", async () => {
    const { run, read } = place(`
answers:
  - finalize: { title: "[feat][#7] Seven" }
    commitReport: "Made seven"
`);
    const env = {
      HOLDFAST_COMPLETION: "DONE 7/1",
      HOLDFAST_FINALIZE_FILE: "out/final.txt",
      HOLDFAST_COMMIT_REPORT: "out/report.txt",
    };
    expect(await run({ env })).toMatchObject({ kind: "completed" });
    expect([read("out/final.txt"), read("out/report.txt")]).toEqual(["[feat][#7] Seven\n\nDONE 7/1\n", "Made seven"]);
    expect(await run()).toMatchObject({ kind: "failed", cause: "missing" });
    const prompt =
      "Then the completion marker given below.\n\nThe completion marker of this iteration is the line:\nDONE 7/3\n---\nthe completion marker was:\nDONE 7/2\n";
    expect(await run({ prompt, iteration: 3 })).toMatchObject({ kind: "completed" });
    expect([read(".tmp/finalize.txt"), read(".tmp/commit-report-iter-3.txt")]).toEqual([
      "[feat][#7] Seven\n\nDONE 7/3\n",
      "Made seven",
    ]);
  });

  test("a failure of the provider is reported with its time, and the next attempt succeeds", async () => {
    const { run, cwd } = place(`
answers:
  - fail: { cause: rate_limit, message: "Too many requests", untilMs: 60000, times: 1 }
    edits: [{ do: write, path: a, text: x }]
    usage: { input: 10, output: 0 }
    reply: ok
`);
    expect(await run()).toEqual({
      kind: "failed",
      cause: "rate_limit",
      message: "Too many requests",
      hint: null,
      until: "2026-03-01T12:01:00.000Z",
      session: null,
      usage: { inputTokens: 10, outputTokens: 0, microUsd: null },
      instant: expect.any(Boolean),
    });
    expect(existsSync(join(cwd, "a"))).toBe(false);
    expect(await run({ attempt: 2 })).toMatchObject({ kind: "completed", text: "ok" });
  });

  test("an edit that cannot be made is a crash that names it", async () => {
    const { run, cwd } = place(`answers: [{ edits: [{ do: replace, path: a, find: "no such text", text: x }] }]`);
    writeFileSync(join(cwd, "a"), "other text");
    expect(await run()).toMatchObject({
      kind: "failed",
      cause: "crash",
      message: expect.stringContaining('a does not contain "no such text"'),
    });
  });

  test("an invalid script is reported with its line, and one without an answer with the call", async () => {
    const wrong = await place("answers:\n  - relpy: x\n").run();
    expect(wrong).toMatchObject({
      kind: "failed",
      cause: "missing",
      instant: false,
      message: expect.stringMatching(/script\.yaml:2:5: .*did you mean reply/),
    });
    const silent = await place("answers: [{ when: { role: review } }]").run({ iteration: 4 });
    expect(silent).toMatchObject({
      message: expect.stringContaining('no answer for role "impl", iteration 4, attempt 1'),
    });
  });
});

describe("plan answer", () => {
  const files = { completion: "DONE 7", finalize: ".tmp/finalize.txt", commitReport: ".tmp/report.txt" };
  const call: ScriptedCall = { role: "impl", iteration: 2, attempt: 1, resumed: false, yolo: false };

  function plan(answer: Answer, attempt = 1) {
    return planScriptedAnswer({ answer, attempt, session: null, files });
  }

  test("the first matching answer is used; an absent condition matches all", () => {
    const answers: Answer[] = [
      { when: { role: "review" }, reply: "a" },
      { when: { role: ["impl", "simplify"], iteration: [1, 3] }, reply: "b" },
      { when: { iteration: 2, attempt: 2 }, reply: "c" },
      { when: { resumed: true }, reply: "d" },
      { reply: "e" },
      { when: { role: "impl" }, reply: "never" },
    ];
    const pick = (facts: Partial<ScriptedCall>) => findScriptedAnswer({ answers }, { ...call, ...facts })?.reply;
    expect(pick({ role: "review" })).toBe("a");
    expect(pick({ iteration: 3 })).toBe("b");
    expect(pick({ attempt: 2 })).toBe("c");
    expect(pick({ resumed: true })).toBe("d");
    expect(pick({})).toBe("e");
    expect(findScriptedAnswer({ answers: answers.slice(0, 3) }, call)).toBeUndefined();
  });

  test("the choice depends on the call alone: any order of calls, with any repeated, gives each its own answer", () => {
    const answers: Answer[] = [1, 2, 3].flatMap((iteration) =>
      [1, 2].map((attempt) => ({ when: { iteration, attempt }, reply: `${iteration}/${attempt}` })),
    );
    const calls = fc.array(
      fc.record({ iteration: fc.integer({ min: 1, max: 3 }), attempt: fc.integer({ min: 1, max: 2 }) }),
    );
    fc.assert(
      fc.property(calls, (made) => {
        for (const { iteration, attempt } of made)
          expect(findScriptedAnswer({ answers }, { ...call, iteration, attempt })?.reply).toBe(
            `${iteration}/${attempt}`,
          );
      }),
    );
  });

  test("edits come in their order, then the reports, usage, the orphan and the reply", () => {
    const actions = plan({
      delayMs: 5,
      edits: [
        { do: "write", path: "a", text: "x" },
        { do: "wait", ms: 3 },
        { do: "delete", path: "b" },
      ],
      finalize: { title: "[feat][#7] A", body: "Why.\n" },
      commitReport: "Made A",
      usage: { input: 1 },
      spawn: { ignoreTerm: true },
      reply: "ok",
    });
    expect(actions.map((action) => (action.do === "say" ? `say ${action.event.type}` : action.do))).toEqual([
      "wait",
      "write",
      "say edit",
      "wait",
      "delete",
      "say edit",
      "write",
      "write",
      "say usage",
      "spawn",
      "say result",
      "exit",
    ]);
    expect(actions).toContainEqual({
      do: "write",
      path: ".tmp/finalize.txt",
      text: "[feat][#7] A\n\nWhy.\n\nDONE 7\n",
    });
    expect(actions).toContainEqual({ do: "write", path: ".tmp/report.txt", text: "Made A" });
    expect(actions).toContainEqual({ do: "say", event: { type: "usage", input: 1, output: null, microUsd: null } });
  });

  test("a failure comes before any edit, or after all edits if the script says so, and as often as the script says", () => {
    const edits: Answer["edits"] = [{ do: "write", path: "a", text: "x" }];
    const kinds = (answer: Answer, attempt: number) => plan(answer, attempt).map((action) => action.do);
    const fail = { cause: "overload", times: 2 } as const;
    expect(kinds({ edits, fail }, 1)).toEqual(["say", "exit"]);
    expect(kinds({ edits, fail }, 2)).toEqual(["say", "exit"]);
    expect(kinds({ edits, fail }, 3)).toEqual(["write", "say", "say", "exit"]);
    expect(kinds({ edits, fail: { cause: "crash", afterEdits: true } }, 9)).toEqual(["write", "say", "say", "exit"]);
  });

  test("scores are a JSON block after the reply", () => {
    const said = plan({ reply: "Close.", scores: { faithful: 91, style: 80 } }).find((action) => action.do === "say");
    expect(said?.do === "say" && said.event.type === "result" ? said.event.text : said).toBe(
      'Close.\n\n```json\n{"scores":{"faithful":91,"style":80}}\n```',
    );
  });
});
