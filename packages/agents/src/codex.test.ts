import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import {
  type CodexState,
  INITIAL_CODEX_STATE,
  classifyCodex,
  codexArgs,
  codexEnv,
  findNativeBinary,
  modelIn,
  nextRetry,
  readCodexLine,
  resetTime,
  sumResponseTokens,
  totalTokens,
} from "./codex.ts";

describe("argv", () => {
  test("a new session, with its permissions", () => {
    expect(codexArgs({ task: { model: "gpt-5.5", yolo: true, session: null }, extra: [] }).join(" ")).toBe(
      "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --model gpt-5.5 -",
    );
  });

  test("a session to resume, in the sandbox", () => {
    expect(codexArgs({ task: { model: null, yolo: false, session: "01a1" }, extra: [] }).join(" ")).toBe(
      'exec resume --json --skip-git-repo-check -c sandbox_mode="workspace-write" -c approval_policy="never" 01a1 -',
    );
  });

  test("a log setting of the user stays", () => {
    expect(codexEnv({ RUST_LOG: "debug" })).toEqual({});
    expect(Object.keys(codexEnv({}))).toEqual(["RUST_LOG"]);
  });

  test("npm's wrapper leads to the program; any other path is the program", (context) => {
    const root = scratchDirectory(context.onTestFinished);
    const at = (path: string) => join(root, path);
    const start = (path: string) => findNativeBinary(path).join(" ");
    const vendor = `node_modules/@openai/codex-${process.platform}-${process.arch}`;
    for (const folder of ["node_modules/.bin", "node_modules/@openai/codex/bin", `${vendor}/vendor/any-target/bin`])
      mkdirSync(at(folder), { recursive: true });
    writeFileSync(at("node_modules/@openai/codex/bin/codex.js"), "");
    symlinkSync("../@openai/codex/bin/codex.js", at("node_modules/.bin/codex"));
    expect(start(at("node_modules/.bin/codex"))).toBe(at("node_modules/.bin/codex"));
    writeFileSync(at(`${vendor}/package.json`), "{}");
    writeFileSync(at(`${vendor}/vendor/any-target/bin/codex`), "");
    expect(start(at("node_modules/.bin/codex"))).toBe(at(`${vendor}/vendor/any-target/bin/codex`));
    expect(start(at(`${vendor}/vendor/any-target/bin/codex`))).toBe(at(`${vendor}/vendor/any-target/bin/codex`));
    expect(start("/no/such/codex")).toBe("/no/such/codex");
  });

  test("the user's own sandbox applies, also with --yolo and to a resumed session", () => {
    const words = (extra: readonly string[], session: string | null = null) =>
      codexArgs({ task: { model: null, yolo: true, session }, extra }).join(" ");
    const readOnly = `-c sandbox_mode="read-only" -c approval_policy="never"`;
    expect(words(["--sandbox", "read-only"])).toBe(`exec --json --skip-git-repo-check ${readOnly} -`);
    expect(words(["--search", "--sandbox=read-only"], "1")).toBe(
      `exec resume --json --skip-git-repo-check ${readOnly} --search 1 -`,
    );
    expect(words(["-c", "a=1", "-s", "read-only"])).toBe(`exec --json --skip-git-repo-check ${readOnly} -c a=1 -`);
  });
});

describe("reader", () => {
  test("no line crashes the reader, and an unknown line changes nothing", () => {
    const strange = fc.oneof(
      fc.string(),
      fc.json(),
      fc.json().map((value) => `{"type":"item.completed","item":${value}}`),
    );
    fc.assert(
      fc.property(fc.array(strange), (lines) => {
        const state = lines.reduce((before, line) => readCodexLine(before, line).state, INITIAL_CODEX_STATE);
        expect(state).toMatchObject({ session: null, end: "open", total: null });
      }),
    );
  });

  test("a tool call is reported once: at its start, or at its end if no start was reported", () => {
    const line = (type: string, id: string) =>
      JSON.stringify({ type, item: { id, type: "command_execution", command: "ls", status: "completed" } });
    let state = INITIAL_CODEX_STATE;
    const responses: unknown[] = [];
    const events = [line("item.started", "a"), line("item.completed", "a"), line("item.completed", "b")].flatMap(
      (text) => {
        const step = readCodexLine(state, text);
        state = step.state;
        responses.push(step.response);
        return step.events;
      },
    );
    expect(events).toEqual([1, 2].map(() => ({ kind: "tool", name: "exec_command", detail: "ls" })));
    // When a tool has ended, the rollout has the tokens of the response that called it.
    expect(responses).toEqual([undefined, "more", "more"]);
  });

  test("a failed request is resolved when work continues", () => {
    const trouble = readCodexLine(
      INITIAL_CODEX_STATE,
      JSON.stringify({ type: "error", message: "Reconnecting... 1/5" }),
    );
    expect(trouble).toMatchObject({ waiting: true, state: { trouble: "Reconnecting... 1/5" } });
    const item = JSON.stringify({ type: "item.completed", item: { type: "agent_message", text: "Hello" } });
    const next = readCodexLine(trouble.state, item);
    expect(next).toMatchObject({ state: { trouble: null, text: "Hello" }, events: [{ kind: "text", text: "Hello" }] });
    expect(next.waiting).toBeUndefined();
  });

  test("each answer is counted once, wherever a killed call ended", () => {
    const anyAnswers = fc.uniqueArray(
      fc.record({ id: fc.uuid(), input: fc.nat(), output: fc.nat(), cached: fc.nat() }),
      {
        selector: ({ id }) => id,
        minLength: 1,
      },
    );
    fc.assert(
      fc.property(anyAnswers, (answers) => {
        const lines = answers.map(({ id, input, output, cached }) => {
          const usage = { input_tokens: input, output_tokens: output, cached_input_tokens: cached };
          return JSON.stringify({ type: "token_usage_record", payload: { response_id: id, usage } });
        });
        const text = [...lines, ...lines, (lines[0] ?? "").slice(0, -3)].join("\n");
        const sum = (of: "input" | "output" | "cached") => answers.reduce((total, answer) => total + answer[of], 0);
        expect(sumResponseTokens(text)).toEqual({ input: sum("input"), output: sum("output"), cached: sum("cached") });
      }),
    );
    expect(sumResponseTokens("")).toBeNull();
  });

  test("the model that answered is that of the last turn in the rollout", () => {
    const turn = (model: string) => JSON.stringify({ type: "turn_context", payload: { model } });
    expect(modelIn(["{}", turn("gpt-5"), turn("gpt-6.1-sol"), "{"].join("\n"))).toBe("gpt-6.1-sol");
    expect(modelIn("")).toBeNull();
  });

  test("the thread's own total is the last one reported", () => {
    const line = (input: number) => {
      const total_token_usage = { input_tokens: input, output_tokens: 1 };
      return JSON.stringify({ payload: { type: "token_count", info: { total_token_usage } } });
    };
    expect(totalTokens([line(5), line(9)].join("\n"))).toEqual({ input: 9, output: 1, cached: 0 });
    expect(totalTokens("")).toEqual({ input: 0, output: 0, cached: 0 });
  });
});

describe("classify", () => {
  function classify(state: Partial<CodexState>, params: Partial<Parameters<typeof classifyCodex>[0]> = {}) {
    const rest = { stderr: "", resumes: false, answered: false, now: 0, ...params };
    return classifyCodex({ ...rest, state: { ...INITIAL_CODEX_STATE, ...state } });
  }

  test.for([
    ["unexpected status 401 Unauthorized: Incorrect API key provided, url: http://x", "auth"],
    ["Your access token could not be refreshed. Please log out and sign in again.", "auth"],
    ["unexpected status 402 Payment Required: pay", "billing"],
    ["exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"],
    ["You’ve hit your usage limit. Try again later.", "rate_limit"],
    ["Quota exceeded. Check your plan and billing details.", "billing"],
    ["unexpected status 503 Service Unavailable: x", "overload"],
    ["Selected model is at capacity. Please try a different model.", "overload"],
    ["stream disconnected before completion: idle timeout waiting for SSE", "network"],
    ["Codex ran out of room in the model's context window.", "context_too_long"],
    ["something new", "crash"],
    ["", "crash"],
  ] as const)("%s", ([trouble, cause]) => {
    expect(classify({ end: "failed", trouble })).toMatchObject({ kind: "failed", cause });
    // The turn has not ended and may recover, so this is the cause only if the agent is ended for silence.
    expect(classify({ trouble })).toMatchObject({ kind: "waiting", cause });
  });

  test("a session that cannot be resumed is distinguished from one that is still being written", () => {
    const stderr = "Error: thread/resume: thread/resume failed: no rollout found for thread id 1 (code -32600)\n";
    expect(classify({}, { stderr })).toMatchObject({ kind: "failed", cause: "session_lost" });
    const busy = "Error: thread/resume: thread/resume failed: thread 1 already has an active writer\n";
    expect(classify({}, { stderr: busy })).toEqual({ kind: "open" });
  });

  test("only the log shows a denial", () => {
    const stderr =
      "2026 ERROR codex_core::tools::router: error=patch rejected: outside; rejected by user approval settings\n";
    expect(classify({ end: "completed", text: "Done." }, { stderr })).toMatchObject({ cause: "permission_denied" });
    expect(classify({ end: "completed", text: "Done." })).toEqual({ kind: "completed", text: "Done." });
  });
});

describe("reset time", () => {
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const NOW = new Date(2026, 10, 15, 9, 30).getTime();

  function words(date: Date, withDay: boolean): string {
    const hour = date.getHours() % 12 === 0 ? 12 : date.getHours() % 12;
    const clock = `${hour}:${String(date.getMinutes()).padStart(2, "0")} ${date.getHours() < 12 ? "AM" : "PM"}`;
    const day = `${MONTHS[date.getMonth()] ?? ""} ${date.getDate()}${ending(date.getDate())}, ${date.getFullYear()} `;
    return `You’ve hit your usage limit. Visit https://x.test or try again at ${withDay ? day : ""}${clock}.`;
  }

  function ending(day: number): string {
    if (day > 10 && day < 14) return "th";
    return ["th", "st", "nd", "rd"][day % 10] ?? "th";
  }

  test("a date in Codex's format is the minute after it: never too early, never two minutes late", () => {
    const anyTime = fc.date({ min: new Date(2026, 0, 1), max: new Date(2030, 0, 1), noInvalidDate: true });
    fc.assert(
      fc.property(anyTime, (date) => {
        const at = resetTime(words(date, true), NOW) ?? Number.NaN;
        // When clocks are set back, an hour occurs twice; the minutes still match.
        expect(new Date(at - 60_000).getMinutes()).toBe(date.getMinutes());
        expect(Math.abs(at - date.getTime()) % 3_600_000).toBeLessThanOrEqual(60_000);
      }),
    );
  });

  test("a time without a date is today's", () => {
    const at = new Date(2026, 10, 15, 22, 4, 31);
    expect(resetTime(words(at, false), NOW)).toBe(new Date(2026, 10, 15, 22, 5).getTime());
  });

  test("durations count from now", () => {
    expect(resetTime("try again in 3 days 4 hours 5 minutes.", 0)).toBe((((3 * 24 + 4) * 60 + 5) * 60 + 60) * 1000);
    expect(resetTime("try again in 20 seconds", 0)).toBe(80_000);
  });

  test("other texts give no time", () => {
    for (const text of ["Try again later.", "", "try again at noon", "try again at Foo 3rd, 2026 1:00 AM"])
      expect(resetTime(text, NOW)).toBeNull();
  });

  test("the log contains the time of the next retry; the last line counts", () => {
    const line = (time: string, wait: string) =>
      `${time}  WARN codex_core::responses_retry: stream disconnected - retrying sampling request (1/5 in ${wait})... retries=1\n`;
    const log = line("2026-11-15T09:00:00.000000Z", "3600.5s") + line("2026-11-15T10:00:00.000000Z", "250ms");
    expect(nextRetry(line("2026-11-15T09:00:00.000000Z", "3600.5s"))).toBe(Date.parse("2026-11-15T10:00:00.500Z"));
    expect(nextRetry(log)).toBe(Date.parse("2026-11-15T10:00:00.250Z"));
    expect(nextRetry("something else")).toBeNull();
  });
});
