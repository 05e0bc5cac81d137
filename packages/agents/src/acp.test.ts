import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { systemClock } from "@holdfast/platform/clock";
import { ACP_LINE, REAL_GEMINI, openAcpScene } from "@holdfast/test-support/agents/real-agents";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { appears, assertGone, prepareCall } from "@holdfast/testing/agent-contract";
import { INITIAL_ACP_STATE, acpUsage, createAcpAgent, readUpdate } from "./acp.ts";
import { sessionFile } from "./qwen.ts";

describe("acp", () => {
  const SDK = import.meta.resolve("@agentclientprotocol/sdk");
  const agent = createAcpAgent({ clock: systemClock });

  /** A minimal agent on the ACP library; `capabilities` and `prompt` are code. */
  function write(
    later: (undo: () => void) => void,
    parts: { readonly capabilities: string; readonly prompt: string; readonly name?: string; readonly load?: string },
  ) {
    const path = join(scratchDirectory(later), "agent.mjs");
    const code = `import { agent, ndJsonStream, RequestError } from ${JSON.stringify(SDK)};
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
const notify = (client, update) => client.notify("session/update", { sessionId: "s1", update });
const say = (client, text) => notify(client, { sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
const pay = (client, amount) => notify(client, { sessionUpdate: "usage_update", used: 1, size: 2, cost: { amount, currency: "USD" } });
let cancelled; const cancel = new Promise((resolve) => (cancelled = resolve));
agent({ name: "tiny" })
  .onRequest("initialize", () => ({ protocolVersion: 1, agentInfo: { name: "${parts.name ?? "tiny"}", version: "1" }, agentCapabilities: ${parts.capabilities} }))
  .onRequest("session/new", () => ({ sessionId: "s1" }))
  .onRequest("session/load", async ({ client }) => { ${parts.load ?? ""} await say(client, "an old text"); await pay(client, 0.5); return {}; })
  .onRequest("session/resume", () => ({}))
  .onRequest("session/prompt", async ({ client, params }) => { ${parts.prompt} })
  .onNotification("session/cancel", () => cancelled())
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
`;
    writeFileSync(path, code);
    return { cwd: scratchDirectory(later), model: `exec '${process.execPath}' '${path}'` };
  }

  const END = `return { stopReason: "end_turn" };`;
  const BOTH = "{ loadSession: true, sessionCapabilities: { resume: {} } }";

  describe("an agent that speaks ACP", () => {
    test("is asked to cancel before it is ended", async ({ onTestFinished }) => {
      const prompt = `writeFileSync("up", ""); await cancel; writeFileSync("cancelled", ""); return { stopReason: "cancelled" };`;
      const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt });
      const { task, abort } = prepareCall({ cwd }, { model });
      const running = agent.run(task);
      await appears({ cwd }, "up");
      abort();
      expect(await running).toMatchObject({ kind: "failed", cause: "interrupted", session: "s1" });
      expect(existsSync(join(cwd, "cancelled"))).toBe(true);
      assertGone(task.mark);
    });

    test("an agent that ignores the cancellation is ended as well", async ({ onTestFinished }) => {
      const prompt = `writeFileSync("up", ""); await new Promise(() => setInterval(() => {}, 1000));`;
      const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt });
      const { task, abort } = prepareCall({ cwd }, { model });
      const running = agent.run(task);
      await appears({ cwd }, "up");
      abort();
      expect(await running).toMatchObject({ kind: "failed", cause: "interrupted" });
      assertGone(task.mark);
    });

    test("an agent that is ended for silence hangs, also when it then answers that it was cancelled", async ({
      onTestFinished,
    }) => {
      const answer = `process.once("SIGTERM", () => { writeFileSync("asked", ""); resolve({ stopReason: "cancelled" }); })`;
      const prompt = `setInterval(() => {}, 1000); return await new Promise((resolve) => ${answer});`;
      const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt });
      for (const [limit, cause] of [
        ["idleMs", "hang"],
        ["timeoutMs", "timeout"],
      ] as const) {
        // A busy machine may not have started it within the limit; then the limit is raised.
        for (let limitMs = 2000; !existsSync(join(cwd, "asked")); limitMs *= 2) {
          const { task } = prepareCall({ cwd }, { model, [limit]: limitMs });
          expect(await agent.run(task)).toMatchObject({ kind: "failed", cause });
          assertGone(task.mark);
        }
        rmSync(join(cwd, "asked"));
      }
    });

    test("a task without an idle limit is never ended for silence", async ({ onTestFinished }) => {
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
      onTestFinished(() => void vi.useRealTimers());
      const prompt = `writeFileSync("up", ""); while (!existsSync("more")) await new Promise((done) => setTimeout(done, 50)); await say(client, "ok"); ${END}`;
      const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt });
      const running = agent.run(prepareCall({ cwd }, { model, idleMs: null }).task);
      await appears({ cwd }, "up");
      vi.advanceTimersByTime(24 * 3_600_000);
      writeFileSync(join(cwd, "more"), "");
      expect(await running).toMatchObject({ kind: "completed", text: "ok" });
    });

    test.for([
      ["Internal error", { details: "401 invalid api key" }, "auth"],
      ["Internal error: permission denied", { service: "session", errorName: "APIError" }, "auth"],
      ["Internal error: internal error", { service: "session", errorName: "APIError" }, "overload"],
      ["Internal error", { statusCode: 429 }, "rate_limit"],
    ] as const)("an error %s with the data %j is %s", async ([message, data, cause], { onTestFinished }) => {
      const error = `new RequestError(-32603, ${JSON.stringify(message)}, ${JSON.stringify(data)})`;
      const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt: `throw ${error};` });
      expect(await agent.run(prepareCall({ cwd }, { model }).task)).toMatchObject({ kind: "failed", cause });
    });

    test("an OpenCode that makes a failed request again and again is ended, and its log says why", async ({
      onTestFinished,
    }) => {
      const log = `timestamp=x level=ERROR message="stream error" small=false error.error="AI_APICallError: overloaded"`;
      const line = `if (process.env.OPENCODE_PRINT_LOGS === "1") console.error(${JSON.stringify(log)}); writeFileSync("up", "");`;
      const prompt = `return await new Promise(() => setInterval(() => { ${line} }, 100));`;
      const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt });
      for (let idleMs = 2000; !existsSync(join(cwd, "up")); idleMs *= 2) {
        const { task } = prepareCall({ cwd }, { model: `: opencode; ${model}`, idleMs });
        const outcome = await agent.run(task);
        assertGone(task.mark);
        if (existsSync(join(cwd, "up"))) expect(outcome).toMatchObject({ kind: "failed", cause: "overload" });
      }
    });

    test("an OpenCode whose summaries do not help against a prompt that is too long is ended", async ({
      onTestFinished,
    }) => {
      const log = `level=ERROR message="stream error" error.error="AI_APICallError: maximum context length is 9 tokens."`;
      const step = `await say(client, "a summary"); console.error(${JSON.stringify(log)});`;
      const prompt = `for (;;) { ${step} await new Promise((resolve) => setTimeout(resolve, 50)); }`;
      const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt });
      const { task } = prepareCall({ cwd }, { model });
      const hint = expect.stringContaining("Shorten");
      expect(await agent.run(task)).toMatchObject({ kind: "failed", cause: "context_too_long", hint });
      assertGone(task.mark);
    });

    test("a Qwen Code that makes a failed request again and again is ended, and its record says why", async ({
      onTestFinished,
    }) => {
      const home = scratchDirectory(onTestFinished);
      const event = { "event.name": "qwen-code.api_error", status_code: 503, error_message: "busy" };
      const line = JSON.stringify({ type: "system", subtype: "ui_telemetry", systemPayload: { uiEvent: event } });
      // The path of the record depends on the worktree, so it is passed in the environment.
      const prompt = `appendFileSync(process.env.RECORD, process.env.LINE + "\\n"); writeFileSync("up", ""); await new Promise(() => setInterval(() => {}, 1000));`;
      const { cwd, model } = write(onTestFinished, {
        capabilities: "{ loadSession: true }",
        prompt,
        name: "qwen-code",
      });
      const env = { HOME: home, RECORD: sessionFile({ session: "s1", cwd, env: { HOME: home } }), LINE: line };
      mkdirSync(dirname(env.RECORD), { recursive: true });
      for (let idleMs = 2000; !existsSync(join(cwd, "up")); idleMs *= 2) {
        const outcome = await agent.run(prepareCall({ cwd }, { model, idleMs, env }).task);
        if (existsSync(join(cwd, "up"))) expect(outcome).toMatchObject({ kind: "failed", cause: "overload" });
      }
      // The error of an earlier call does not explain the silence of this one.
      const silent = write(onTestFinished, {
        capabilities: "{ loadSession: true }",
        prompt: "await cancel;",
        name: "qwen-code",
      });
      const { task } = prepareCall({ cwd }, { model: silent.model, idleMs: 2000, env, session: "s1" });
      expect(await agent.run(task)).toMatchObject({ kind: "failed", cause: "hang" });
    });

    test("what a loaded session replays is neither reported nor counted", async ({ onTestFinished }) => {
      const prompt = `await say(client, "a new text"); await pay(client, 0.75); ${END}`;
      const { cwd, model } = write(onTestFinished, { capabilities: "{ loadSession: true }", prompt });
      const { task, events } = prepareCall({ cwd }, { model, session: "s1" });
      const outcome = await agent.run(task);
      expect(outcome).toMatchObject({ kind: "completed", text: "a new text", usage: { microUsd: 250_000 } });
      expect(events.filter(({ kind }) => kind === "text")).toEqual([{ kind: "text", text: "a new text" }]);
    });

    test.for([
      ["has the task", "{ loadSession: true }", "Do # the\n\ntask now", "Continue."],
      ["has it, and may also be resumed without a replay", BOTH, "Do # the task", "Continue."],
      ["has another task", "{ loadSession: true }", "Something else", "Do # the\ntask"],
      ["is replayed after the answer", "{ loadSession: true }", "LATER Do # the task", "Continue."],
      ["is resumed without a replay", `{ sessionCapabilities: { resume: {} } }`, "Do # the task", "Do # the\ntask"],
    ] as const)(
      "a session that %s gets what it needs",
      async ([, capabilities, replayed, sent], { onTestFinished }) => {
        const [first, second] = replayed.split("#");
        const user = (text: string) =>
          `await notify(client, { sessionUpdate: "user_message_chunk", content: { type: "text", text: ${JSON.stringify(text)} } });`;
        const old = `${[first, `#${second}`].map((text) => user(text ?? "")).join(" ")} await say(client, "an old text");`;
        const { cwd, model } = write(onTestFinished, {
          capabilities,
          load: replayed.startsWith("LATER") ? `setTimeout(async () => { ${old} }, 100);` : old,
          prompt: `await say(client, params.prompt[0].text); ${END}`,
        });
        const change = { model, prompt: "Do # the\ntask", continuation: "Continue.", session: "s1" };
        const resumed = await agent.run(prepareCall({ cwd }, change).task);
        expect(resumed).toMatchObject({ kind: "completed", text: sent });
      },
    );

    test("an agent that cannot load a session has lost it", async ({ onTestFinished }) => {
      const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt: END });
      const outcome = await agent.run(prepareCall({ cwd }, { model, session: "s1" }).task);
      expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", session: "s1" });
    });

    test("an agent writes through Holdfast into the worktree, and not outside of it", async ({ onTestFinished }) => {
      const prompt = `const { sessionId } = params; const where = process.cwd();
      const write = (path) => client.request("fs/write_text_file", { sessionId, path, content: "x" });
      await write(where + "/inside"); const no = await write(where + "-outside").catch((error) => error.message);
      await say(client, String(no)); ${END}`;
      const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt });
      const outcome = await agent.run(prepareCall({ cwd }, { model }).task);
      expect(outcome).toMatchObject({ kind: "completed", text: expect.stringContaining("outside the worktree") });
      expect(readFileSync(join(cwd, "inside"), "utf8")).toBe("x");
      expect(existsSync(join(dirname(cwd), `${cwd}-outside`))).toBe(false);
    });

    test.for(["before", "after", "only by"])(
      "a tool call that it announces %s its permission request is reported once",
      async (when, { onTestFinished }) => {
        const call = `{ toolCallId: "t1", kind: "execute", title: "ls" }`;
        const announce = `await notify(client, { sessionUpdate: "tool_call", ...${call} });`;
        const ask = `await client.request("session/request_permission", { sessionId: "s1", toolCall: ${call}, options: [{ optionId: "y", kind: "allow_once", name: "y" }] });`;
        const steps = { before: announce + ask, after: ask + announce, "only by": ask }[when];
        const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt: `${steps} ${END}` });
        const { task, events } = prepareCall({ cwd }, { model });
        expect(await agent.run(task)).toMatchObject({ kind: "completed" });
        expect(events.filter(({ kind }) => kind === "tool")).toEqual([{ kind: "tool", name: "execute", detail: "ls" }]);
      },
    );

    test("an agent that does not exit after its answer has completed", async ({ onTestFinished }) => {
      const { cwd, model } = write(onTestFinished, {
        capabilities: "{}",
        prompt: `setInterval(() => {}, 1000); await say(client, "done"); ${END}`,
      });
      const { task } = prepareCall({ cwd }, { model });
      expect(await agent.run(task)).toMatchObject({ kind: "completed" });
      assertGone(task.mark);
    });

    test("a program that speaks something else is a crash", async ({ onTestFinished }) => {
      const cwd = scratchDirectory(onTestFinished);
      const outcome = await agent.run(prepareCall({ cwd }, { model: "echo hello" }).task);
      expect(outcome).toMatchObject({ kind: "failed", cause: "crash" });
    });
  });

  const gone = REAL_GEMINI.kind === "absent" ? ` (${REAL_GEMINI.why})` : "";

  test.skipIf(gone !== "")(
    `the real agent may edit without yolo, and nothing more${gone}`,
    { timeout: 600_000 },
    async (context) => {
      const steps = [
        { tool: { name: "write_file", input: { file_path: "made.txt", content: "made\n" } } },
        { tool: { name: "run_shell_command", input: { command: "touch ran" } } },
        { text: "ok" },
      ];
      const script = { rules: [{ match: /(?:)/, steps }] };
      const scene = await openAcpScene({ script, later: context.onTestFinished });
      const outcome = await scene.agent.run(prepareCall(scene, { model: ACP_LINE, yolo: false }).task);
      expect(outcome).toMatchObject({ cause: "permission_denied", message: expect.stringContaining("touch ran") });
      expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("made\n");
      expect(existsSync(join(scene.cwd, "ran"))).toBe(false);
    },
  );
});

describe("read update", () => {
  describe("updates", () => {
    const chunk = (text: string) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
    const heard = (updates: readonly object[]) =>
      updates.reduce(
        (state: typeof INITIAL_ACP_STATE, update) => readUpdate(state, { ...update }).state,
        INITIAL_ACP_STATE,
      );

    test("the final text is the text after the last tool call", () => {
      const tool = { sessionUpdate: "tool_call", kind: "edit", title: "Writing" };
      expect(heard([chunk("I will "), chunk("write."), tool, chunk("All "), chunk("done.")]).text).toBe("All done.");
      expect(heard([chunk("Writing now."), tool]).text).toBe("Writing now.");
    });

    test("the cost is the last one reported, in dollars", () => {
      const cost = (amount: number, currency: string) => ({
        sessionUpdate: "usage_update",
        cost: { amount, currency },
      });
      expect(heard([cost(0.1, "USD"), cost(0.25, "USD"), { sessionUpdate: "usage_update" }]).cost).toBe(250_000);
      expect(heard([cost(3, "credits")]).cost).toBeNull();
    });

    test("unknown updates change nothing", () => {
      for (const update of [{}, { sessionUpdate: "from_the_future", content: 1 }, chunk("")])
        expect(readUpdate(INITIAL_ACP_STATE, update)).toEqual({ state: INITIAL_ACP_STATE, events: [] });
    });
  });
});

describe("usage", () => {
  describe("usage is of this call alone", () => {
    const nothing = { answer: null, agent: "x", isNew: true, costBefore: null, costNow: null };
    const answer = { usage: { inputTokens: 30, outputTokens: 4, cachedReadTokens: 6, totalTokens: 40 } };

    test.each([
      ["nothing reported", nothing, [null, null, null]],
      ["cached tokens in addition to the input", { ...nothing, answer }, [36, 4, null]],
      [
        "cached tokens included in the input",
        { ...nothing, answer: { usage: { ...answer.usage, totalTokens: 34 } } },
        [30, 4, null],
      ],
      ["a resumed session: turn or session is unknown", { ...nothing, answer, isNew: false }, [null, null, null]],
      ["an agent that reports only its last request", { ...nothing, answer, agent: "OpenCode" }, [null, null, null]],
      ["the cost of a new session", { ...nothing, costNow: 70 }, [null, null, 70]],
      [
        "the cost without the earlier cost of the session",
        { ...nothing, isNew: false, costBefore: 50, costNow: 70 },
        [null, null, 20],
      ],
      ["the earlier cost is unknown", { ...nothing, isNew: false, costNow: 70 }, [null, null, null]],
    ])("%s", (_, given, [inputTokens, outputTokens, microUsd]) => {
      expect(acpUsage(given)).toEqual({ inputTokens, outputTokens, microUsd });
    });
  });
});
