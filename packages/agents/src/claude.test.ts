import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { type AgentEvent, type AgentTask, knownUsage } from "@holdfast/core/agent";
import { MODEL, REAL_CLAUDE, openClaudeScene } from "@holdfast/test-support/agents/real-agents";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { prepareCall } from "@holdfast/testing/agent-contract";
import {
  type ClaudeState,
  INITIAL_CLAUDE_STATE,
  classifyClaude,
  claudeArgs,
  claudeSessions,
  claudeUsage,
  findTranscript,
  lastMessageIn,
  locateTranscript,
  parseLoginStatus,
  readAppended,
  readClaudeLine,
  sandboxOf,
  totalCost,
  transcriptSizes,
} from "./claude.ts";

describe("argv", () => {
  const TASK = { model: null, yolo: false, session: null, forkAt: null };
  const ALWAYS = ["--print", "--output-format", "stream-json", "--verbose", "--include-partial-messages"];
  const FORK = ["--resume", "old", "--fork-session", "--resume-session-at", "message", "--session-id", "new"];
  const EDITS = ["--permission-mode", "acceptEdits"];

  test("a new session gets the chosen id, and only edits are allowed", () => {
    expect(claudeArgs({ task: TASK, session: "new", extra: [] })).toEqual([...ALWAYS, ...EDITS, "--session-id", "new"]);
  });

  test("model and yolo", () => {
    expect(claudeArgs({ task: { ...TASK, model: "opus", yolo: true }, session: "new", extra: [] })).toEqual([
      ...ALWAYS,
      "--model",
      "opus",
      "--dangerously-skip-permissions",
      "--session-id",
      "new",
    ]);
  });

  test("a sandbox is claimed in a container only, and never against the user's setting", () => {
    const args = ["--dangerously-skip-permissions"];
    const root = { args, isRoot: true, isContainer: false, env: {} };
    expect(sandboxOf(root)).toEqual({ kind: "refused" });
    expect(sandboxOf({ ...root, isContainer: true })).toEqual({ kind: "start", env: { IS_SANDBOX: "1" } });
    expect(sandboxOf({ ...root, env: { IS_SANDBOX: "yes" } })).toEqual({ kind: "start", env: { IS_SANDBOX: "1" } });
    expect(sandboxOf({ ...root, isContainer: true, env: { IS_SANDBOX: "0" } })).toEqual({ kind: "refused" });
    expect(sandboxOf({ ...root, isRoot: false })).toEqual({ kind: "start", env: {} });
    expect(sandboxOf({ ...root, args: ["--permission-mode", "acceptEdits"] })).toEqual({ kind: "start", env: {} });
  });

  test("a resumed session keeps its id, a fork gets a new one", () => {
    const task = { ...TASK, session: "old" };
    expect(claudeArgs({ task, session: "old", extra: [] })).toEqual([...ALWAYS, ...EDITS, "--resume", "old"]);
    expect(claudeArgs({ task: { ...task, forkAt: "message" }, session: "new", extra: [] })).toEqual([
      ...ALWAYS,
      ...EDITS,
      ...FORK,
    ]);
  });

  test("the user's own arguments are appended, and a permission mode replaces ours", () => {
    const args = (extra: readonly string[]) => claudeArgs({ task: { ...TASK, yolo: true }, session: "new", extra });
    expect(args(["--disallowedTools", "WebFetch"]).join(" ")).toContain(
      "--dangerously-skip-permissions --disallowedTools WebFetch --session-id new",
    );
    expect(args(["--permission-mode", "plan"])).not.toContain("--dangerously-skip-permissions");
  });
});

describe("reader", () => {
  function read(...lines: readonly object[]) {
    const events: AgentEvent[] = [];
    let state = INITIAL_CLAUDE_STATE;
    for (const line of lines) {
      const step = readClaudeLine(state, JSON.stringify(line));
      state = step.state;
      events.push(...step.events);
    }
    return { state, events };
  }

  const TYPES = ["system", "assistant", "stream_event", "rate_limit_event", "result", "user"];
  const hostile = fc.oneof(
    fc.string(),
    fc.json(),
    fc.tuple(fc.constantFrom(...TYPES), fc.object()).map(([type, rest]) => JSON.stringify({ ...rest, type })),
    fc
      .tuple(fc.constantFrom(...TYPES), fc.object(), fc.object())
      .map(([type, message, event]) =>
        JSON.stringify({ type, message, event, errors: [message], permission_denials: [event] }),
      ),
  );

  test("no line crashes the reader or counts as a success", () => {
    fc.assert(
      fc.property(fc.array(hostile, { maxLength: 10 }), (lines) => {
        const state = lines.reduce((before, line) => readClaudeLine(before, line).state, INITIAL_CLAUDE_STATE);
        expect(classifyClaude(state, { resumes: false }).kind).not.toBe("completed");
      }),
    );
  });

  test("text, tools and messages are reported; a subagent's text is not the agent's", () => {
    const content = [
      { type: "text", text: "Hello" },
      { type: "tool_use", name: "Bash", input: { command: "ls", description: "lists" } },
    ];
    const line = { type: "assistant", uuid: "u1", message: { id: "m1", model: "m", content } };
    const tool = { kind: "tool", name: "Bash", detail: "ls" };
    expect(read({ ...line, parent_tool_use_id: null }).events).toEqual([
      { kind: "text", text: "Hello" },
      tool,
      { kind: "message", id: "u1" },
    ]);
    expect(read({ ...line, parent_tool_use_id: "toolu_1" }).events).toEqual([tool]);
  });

  test("a synthetic message of the program is not work, and its error is kept until an answer comes", () => {
    const synthetic = { model: "<synthetic>", content: [{ type: "text", text: "API Error" }], usage: {} };
    const failed = { type: "assistant", uuid: "u", error: "overloaded", message: synthetic };
    expect(read(failed).events).toEqual([]);
    expect(read(failed).state.error).toBe("overloaded");
    expect(read(failed, { type: "assistant", message: { id: "m", model: "m", content: [] } }).state.error).toBe(null);
  });

  const RESULT = { type: "result", subtype: "success", is_error: false, num_turns: 1, terminal_reason: "completed" };

  test.each([
    ["completed", {}, {}],
    ["permission_denied", { permission_denials: [{ tool_name: "Bash" }] }, {}],
    ["killed", { subtype: "error_during_execution", is_error: true, terminal_reason: "aborted_tools" }, {}],
    ["crash", { subtype: "error_max_turns", is_error: true, terminal_reason: "max_turns" }, {}],
    ["crash", { subtype: "error_during_execution", is_error: true, num_turns: 0, terminal_reason: "" }, {}],
    [
      "session_lost",
      { subtype: "error_during_execution", is_error: true, num_turns: 0, terminal_reason: "" },
      { resumes: true },
    ],
    ["session_lost", { is_error: true, api_error_status: 400 }, { resumes: true }],
    ["crash", { is_error: true, api_error_status: 400 }, {}],
    ["network", { is_error: true, api_error_status: 408 }, {}],
    ["overload", { is_error: true, api_error_status: 503 }, {}],
  ] as const)("%s: %j", (expected, change, params) => {
    const { state } = read({ ...RESULT, result: "said", ...change });
    const end = classifyClaude(state, { resumes: false, ...params });
    expect(end.kind === "failed" ? end.cause : end.kind).toBe(expected);
  });

  test("a limit that was not hit gives no time to resume", () => {
    const limit = (status: string) => ({
      type: "rate_limit_event",
      rate_limit_info: { status, resetsAt: 1_794_740_375 },
    });
    const refused = { ...RESULT, is_error: true, api_error_status: 429 };
    expect(classifyClaude(read(limit("allowed_warning"), refused).state, { resumes: false })).toMatchObject({
      until: null,
    });
    expect(classifyClaude(read(limit("rejected"), refused).state, { resumes: false })).toMatchObject({
      cause: "rate_limit",
      until: "2026-11-15T10:59:35.000Z",
    });
  });

  test("a login is missing only if the program reports it", () => {
    const login = (text: string) => parseLoginStatus({ stdout: Buffer.from(text) })?.problem ?? null;
    expect(login('{"loggedIn": false}')).toBe("Claude Code is not logged in");
    for (const text of ['{"loggedIn": true}', "", "error: unknown command", "[]"]) expect(login(text)).toBe(null);
  });
});

describe("usage", () => {
  interface TestMessage {
    readonly id: string;
    readonly input: number;
    readonly output: number;
  }

  function usage({ input, output }: Omit<TestMessage, "id">) {
    return { input_tokens: input, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: output };
  }

  /** A message as the program prints it: its start, a block or two with a placeholder, its end. */
  function printed({ id, input, output }: TestMessage): readonly object[] {
    const message = { id, model: "m", content: [{ type: "text", text: "x" }], usage: usage({ input, output: 1 }) };
    return [
      { type: "stream_event", event: { type: "message_start", message } },
      { type: "assistant", message, uuid: "u" },
      { type: "assistant", message, uuid: "v" },
      { type: "stream_event", event: { type: "message_delta", usage: usage({ input, output }) }, api_message_id: id },
    ];
  }

  function written({ id, input, output }: TestMessage): object {
    return { type: "assistant", message: { id, model: "m", usage: usage({ input, output }) } };
  }

  function count(lines: readonly object[], more: { readonly added?: string; readonly costBefore?: number } = {}) {
    const state = lines.reduce<ClaudeState>(
      (read, line) => readClaudeLine(read, JSON.stringify(line)).state,
      INITIAL_CLAUDE_STATE,
    );
    return claudeUsage({ state, added: () => [more.added ?? ""], costBefore: () => more.costBefore ?? 0 });
  }

  function sumOf(messages: readonly TestMessage[]) {
    const inputTokens = messages.reduce((sum, { input }) => sum + input, 0);
    return { inputTokens, outputTokens: messages.reduce((sum, { output }) => sum + output, 0) };
  }

  const messages = fc.uniqueArray(
    fc.record({ id: fc.uuid(), input: fc.nat(10_000), output: fc.integer({ min: 1, max: 10_000 }) }),
    { selector: ({ id }) => id, minLength: 1, maxLength: 8 },
  );

  test("negative and infinite usage is unknown, and not zero", () => {
    const result = { type: "result", subtype: "success", is_error: false };
    const wrong = { input_tokens: -50_000_000, output_tokens: -9 };
    const message = { type: "assistant", message: { id: "a", usage: { input_tokens: 5, output_tokens: -9 } } };
    const itemized = { m: { inputTokens: 5, outputTokens: 1, costUSD: -1 } };
    const usages = [
      count([{ ...result, usage: wrong, total_cost_usd: -1e9 }]),
      count([message]),
      count([{ ...result, model_usage_since_last_result: itemized }]),
    ].map(knownUsage);
    expect(usages).toMatchObject([
      { inputTokens: null, outputTokens: null, microUsd: null },
      { inputTokens: 5, outputTokens: null, microUsd: null },
      { inputTokens: 5, outputTokens: 1, microUsd: null },
    ]);
    expect(knownUsage({ inputTokens: Infinity, outputTokens: 0, microUsd: 0, cachedTokens: -1 })).toEqual({
      inputTokens: null,
      outputTokens: 0,
      microUsd: 0,
    });
  });

  test("a message is streamed at its end: one that calls tools, one that ends the turn, one of a subagent", () => {
    const end = (stop: string, more: object = {}) => {
      const event = { type: "message_delta", delta: { stop_reason: stop }, usage: { output_tokens: 7 } };
      return JSON.stringify({ type: "stream_event", event, api_message_id: "m", ...more });
    };
    const start = { type: "message_start", message: { id: "m", usage: usage({ input: 50, output: 1 }) } };
    const { state } = readClaudeLine(INITIAL_CLAUDE_STATE, JSON.stringify({ type: "stream_event", event: start }));
    const read = readClaudeLine(state, end("tool_use"));
    expect(read.response).toBe("more");
    // The end of a message may contain only its output.
    expect(claudeUsage({ state: read.state, added: () => [], costBefore: () => 0 })).toMatchObject({
      inputTokens: 50,
      outputTokens: 7,
    });
    expect(readClaudeLine(state, end("end_turn")).response).toBe("last");
    expect(readClaudeLine(state, end("end_turn", { parent_tool_use_id: "t" })).response).toBe("more");
    expect(readClaudeLine(state, end("tool_use", { api_message_id: undefined })).response).toBeUndefined();
  });

  test("a killed call: each message counts once, however often it was reported", () => {
    fc.assert(
      fc.property(messages, fc.nat(8), fc.nat(8), (all, streamed, kept) => {
        // Some messages are in the stream, some only in the transcript, whose last line is truncated.
        const lines = all.slice(0, streamed).flatMap(printed);
        const added = [...all.slice(kept), ...all].map(written).map((line) => JSON.stringify(line));
        expect(count(lines, { added: `${added.join("\n")}\n{"type":"assist` })).toEqual({
          ...sumOf(all),
          cachedTokens: 0,
          cacheWriteTokens: 0,
          microUsd: null,
        });
      }),
    );
  });

  test("results count the messages before them; later messages are counted one by one", () => {
    fc.assert(
      fc.property(fc.array(messages, { minLength: 1, maxLength: 3 }), messages, (closed, open) => {
        const lines = closed.flatMap((some) => [...some.flatMap(printed), result(some)]);
        expect(count(lines)).toEqual({ ...sumOf(closed.flat()), microUsd: closed.length * 1000 });
        expect(count([...lines, ...open.flatMap(printed)])).toEqual({
          ...sumOf([...closed.flat(), ...open]),
          microUsd: null,
        });
      }),
    );
  });

  function result(some: readonly TestMessage[]): object {
    const { inputTokens, outputTokens } = sumOf(some);
    const since = { m: { inputTokens, outputTokens, costUSD: 0.001, costBasis: "list" } };
    // The result's own `usage` omits subagents.
    return { type: "result", subtype: "success", is_error: false, usage: {}, model_usage_since_last_result: since };
  }

  test("a call without a response of the model reports no usage", () => {
    expect(count([])).toEqual({ inputTokens: null, outputTokens: null, microUsd: null });
  });

  test("for versions without itemized usage, the cost is the increase of the session's cost, if the session records one", () => {
    const old = { type: "result", subtype: "success", is_error: false, usage: usage({ input: 5, output: 2 }) };
    const withCost = { ...old, total_cost_usd: 0.003 };
    expect(count([withCost])).toEqual({ inputTokens: 5, outputTokens: 2, microUsd: 3000 });
    expect(count([withCost], { costBefore: 0.001 })).toEqual({ inputTokens: 5, outputTokens: 2, microUsd: 2000 });
    expect(count([old])).toEqual({ inputTokens: 5, outputTokens: 2, microUsd: null });
  });

  test("the cost so far is the last one in the transcript", () => {
    const line = (cost: number) => `{"type":"cost-state","totalCostUSD":${cost}}\n`;
    expect(totalCost("")).toBe(0);
    expect(totalCost(`{"type":"user"}\n${line(1)}{"type":"user"}\n${line(2.5)}{"type":"user"}\n`)).toBe(2.5);
    expect(totalCost(`${line(1)}{"type":"cost-state","totalCo`)).toBe(0);
  });
});

describe("sessions", () => {
  const why = REAL_CLAUDE.kind === "absent" ? ` (${REAL_CLAUDE.why})` : "";
  const SECRET = "a-secret-that-is-never-stored";

  describe.skipIf(REAL_CLAUDE.kind === "absent")(`the real Claude Code's record of a session${why}`, () => {
    test("is read masked with its last message; written back, the session resumes from there", async ({
      onTestFinished,
    }) => {
      const says = (text: string) => ({ match: new RegExp(text), steps: [{ text: `${text}, said` }] });
      const rules = ["one", "two", "three", "four"].map(says);
      const { server, agent, cwd, env } = await openClaudeScene({ script: { rules }, later: onTestFinished });
      // Session files are searched with the environment of this process.
      const before = { ...process.env };
      const names = [...Object.keys(env), "OTHER_API_KEY"];
      Object.assign(process.env, env, { OTHER_API_KEY: SECRET });
      onTestFinished(() => {
        for (const name of names) delete process.env[name];
        Object.assign(process.env, before);
      });
      const run = async (change: Partial<AgentTask>) => {
        const call = prepareCall({ cwd }, { model: MODEL, ...change });
        return { ...call, outcome: await agent.run(call.task) };
      };
      const history = () => JSON.stringify(server.requests.at(-1)?.body["messages"]);

      const one = await run({ prompt: `one, and ${SECRET}` });
      const session = one.outcome.session ?? "";
      const kept = await claudeSessions.read({ session, cwd });
      expect(kept?.text).toContain("one, said");
      expect(kept?.text).not.toContain(SECRET);
      expect(kept?.lastMessage).toBe(one.events.findLast((event) => event.kind === "message")?.id);

      await run({ prompt: "two", session });
      expect((await claudeSessions.read({ session, cwd }))?.text).toContain("two, said");
      await claudeSessions.write({ session, cwd, text: kept?.text ?? "" });
      expect(await claudeSessions.read({ session, cwd })).toEqual(kept);
      const three = await run({ prompt: "three", session });
      expect(three.outcome).toMatchObject({ kind: "completed", text: "three, said", session });
      expect(three.outcome.usage).toEqual({ inputTokens: 100, outputTokens: 20, microUsd: 600 });
      expect(history()).toContain("one, said");
      expect(history()).not.toContain("two, said");

      const { file } = locateTranscript({ session, cwd, env });
      const later = (await claudeSessions.read({ session, cwd }))?.text ?? "";
      rmSync(file);
      expect(await claudeSessions.read({ session, cwd })).toBe(null);
      expect((await run({ prompt: "four", session })).outcome).toMatchObject({ cause: "session_lost" });
      await claudeSessions.write({ session, cwd, text: later });
      expect(readFileSync(file, "utf8")).toBe(later);
      expect((await run({ prompt: "four", session })).outcome).toMatchObject({ kind: "completed", text: "four, said" });
      expect(history()).toContain("three, said");
    });
  });

  test("the last message is a message of the model, in the main conversation", () => {
    const line = (uuid: string, more: object = {}) =>
      JSON.stringify({ type: "assistant", uuid, message: { model: "m" }, ...more });
    const text = [
      line("a"),
      line("b"),
      line("c", { isSidechain: true }),
      line("d", { message: { model: "<synthetic>" } }),
      JSON.stringify({ type: "user", uuid: "e", message: { role: "user", content: '"assistant"' } }),
    ];
    expect(lastMessageIn(`${text.join("\n")}\n{"type":"assistant","uuid":"f","mess`)).toBe("b");
    expect(lastMessageIn("")).toBe(null);
  });
});

describe("transcript place", () => {
  const CALL = { session: "0b54", cwd: "/home/me/my_project.x" };

  test("is under the home directory, or in CLAUDE_CONFIG_DIR", () => {
    expect(locateTranscript({ ...CALL, env: { HOME: "/home/me" } }).file).toBe(
      "/home/me/.claude/projects/-home-me-my-project-x/0b54.jsonl",
    );
    const env = { HOME: "/home/me", CLAUDE_CONFIG_DIR: "/config" };
    expect(locateTranscript({ ...CALL, env }).file).toBe("/config/projects/-home-me-my-project-x/0b54.jsonl");
  });

  test("a session that began in another directory is found", () => {
    const env = { CLAUDE_CONFIG_DIR: scratchDirectory(onTestFinished) };
    const place = locateTranscript({ ...CALL, env });
    expect(findTranscript(place)).toBe(null);
    const { file } = locateTranscript({ ...CALL, cwd: "/elsewhere", env });
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "");
    expect(findTranscript(place)).toBe(file);
  });

  test("what a call adds to its own file and to those of its subagents is distinguished from earlier content", () => {
    const place = locateTranscript({ ...CALL, env: { CLAUDE_CONFIG_DIR: scratchDirectory(onTestFinished) } });
    expect(readAppended(place, transcriptSizes(place))).toEqual([]);
    const subagents = join(dirname(place.file), CALL.session, "subagents");
    mkdirSync(subagents, { recursive: true });
    writeFileSync(place.file, "é\n");
    writeFileSync(join(subagents, "agent-1.jsonl"), "one\n");
    const before = transcriptSizes(place);
    writeFileSync(place.file, "é\nü\n");
    writeFileSync(join(subagents, "agent-2.jsonl"), "two\n");
    writeFileSync(join(subagents, "agent-2.meta.json"), "{}");
    expect(readAppended(place, before)).toEqual(["ü\n", "", "two\n"]);
  });
});
