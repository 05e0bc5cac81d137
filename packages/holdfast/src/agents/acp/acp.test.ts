import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../system/clock.ts";
import { ACP_LINE, openAcpScene } from "../../testing/scenes/acp-scene.ts";
import { appears, assertGone, prepareCall } from "../../testing/agent-contract/harness.ts";
import { REAL_GEMINI } from "../../testing/scenes/gemini-scene.ts";
import { scratchDirectory } from "../../testing/store-contract/scratch-directory.ts";
import { createAcpAgent } from "./acp.ts";

const SDK = import.meta.resolve("@agentclientprotocol/sdk");
const agent = createAcpAgent({ clock: systemClock });

/** An agent of a few lines on the protocol's own library; `capabilities` and `prompt` are code. */
function write(later: (undo: () => void) => void, parts: { readonly capabilities: string; readonly prompt: string }) {
  const path = join(scratchDirectory(later), "agent.mjs");
  const code = `import { agent, ndJsonStream } from ${JSON.stringify(SDK)};
import { writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
const tell = (client, update) => client.notify("session/update", { sessionId: "s1", update });
const say = (client, text) => tell(client, { sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
const pay = (client, amount) => tell(client, { sessionUpdate: "usage_update", used: 1, size: 2, cost: { amount, currency: "USD" } });
let cancelled; const cancel = new Promise((resolve) => (cancelled = resolve));
agent({ name: "tiny" })
  .onRequest("initialize", () => ({ protocolVersion: 1, agentInfo: { name: "tiny", version: "1" }, agentCapabilities: ${parts.capabilities} }))
  .onRequest("session/new", () => ({ sessionId: "s1" }))
  .onRequest("session/load", async ({ client }) => { await say(client, "an old word"); await pay(client, 0.5); return {}; })
  .onRequest("session/prompt", async ({ client, params }) => { ${parts.prompt} })
  .onNotification("session/cancel", () => cancelled())
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
`;
  writeFileSync(path, code);
  return { cwd: scratchDirectory(later), model: `exec '${process.execPath}' '${path}'` };
}

const END = `return { stopReason: "end_turn" };`;

describe("an agent that speaks ACP", () => {
  test("is told to cancel before it is ended", async ({ onTestFinished }) => {
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

  test("one that is deaf to it is ended all the same", async ({ onTestFinished }) => {
    const prompt = `writeFileSync("up", ""); await new Promise(() => setInterval(() => {}, 1000));`;
    const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt });
    const { task, abort } = prepareCall({ cwd }, { model });
    const running = agent.run(task);
    await appears({ cwd }, "up");
    abort();
    expect(await running).toMatchObject({ kind: "failed", cause: "interrupted" });
    assertGone(task.mark);
  });

  test("what a loaded session tells again is neither told nor counted", async ({ onTestFinished }) => {
    const prompt = `await say(client, "a new word"); await pay(client, 0.75); ${END}`;
    const { cwd, model } = write(onTestFinished, { capabilities: "{ loadSession: true }", prompt });
    const { task, events } = prepareCall({ cwd }, { model, session: "s1" });
    const outcome = await agent.run(task);
    expect(outcome).toMatchObject({ kind: "completed", text: "a new word", usage: { microUsd: 250_000 } });
    expect(events.filter(({ kind }) => kind === "text")).toEqual([{ kind: "text", text: "a new word" }]);
  });

  test("one that cannot load a session has lost it", async ({ onTestFinished }) => {
    const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt: END });
    const outcome = await agent.run(prepareCall({ cwd }, { model, session: "s1" }).task);
    expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", session: "s1" });
  });

  test("writes through us into the worktree, and not beside it", async ({ onTestFinished }) => {
    const prompt = `const { sessionId } = params; const where = process.cwd();
      const write = (path) => client.request("fs/write_text_file", { sessionId, path, content: "x" });
      await write(where + "/inside"); const no = await write(where + "-outside").catch((error) => error.message);
      await say(client, String(no)); ${END}`;
    const { cwd, model } = write(onTestFinished, { capabilities: "{}", prompt });
    const outcome = await agent.run(prepareCall({ cwd }, { model }).task);
    expect(outcome).toMatchObject({ kind: "completed", text: expect.stringContaining("outside of the worktree") });
    expect(readFileSync(join(cwd, "inside"), "utf8")).toBe("x");
    expect(existsSync(join(dirname(cwd), `${cwd}-outside`))).toBe(false);
  });

  test("one that does not leave after its answer has completed", async ({ onTestFinished }) => {
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
  `the real one may edit without yolo, and no more${gone}`,
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
