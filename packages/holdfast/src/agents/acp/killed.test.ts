import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ACP_LINE, openAcpScene } from "../../testing/acp-scene.ts";
import { appears, assertGone, prepareCall } from "../../testing/agent-contract/harness.ts";
import { REAL_GEMINI, type GeminiScene } from "../../testing/gemini-scene.ts";
import { killAgent, midStream } from "../../testing/kill-agent.ts";
import type { ModelStep, ModelUsage } from "../../testing/model-server/model-script.ts";
import { findChats } from "../gemini/chat-files.ts";
import { transcriptPlace } from "../gemini/transcript-place.ts";

const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;
const EDIT: ModelStep = {
  tool: { name: "write_file", input: { file_path: "made.txt", content: "by a tool\n" } },
  usage: { input: 111, cacheRead: 9, output: 13 },
};
const SLOW: ModelStep = {
  tool: { name: "run_shell_command", input: { command: "touch started; sleep 600 && touch late" } },
};
const STREAM: ModelStep = { text: "word\n".repeat(1000), eventDelayMs: 50 };
const APPEND = { name: "run_shell_command", input: { command: "echo two >> made.txt" } };
const FINISH: readonly ModelStep[] = [
  { tool: APPEND, usage: { input: 300, output: 20 } },
  { text: "All done.", usage: { input: 310, output: 21 } },
];

const MOMENTS = [
  { where: "in the middle of a tool call", step: SLOW, moment: (scene: GeminiScene) => appears(scene, "started") },
  { where: "in the middle of a stream", step: STREAM, moment: (scene: GeminiScene) => midStream(scene.server) },
];

function play(step: ModelStep) {
  return {
    rules: [
      { match: /go on/, steps: FINISH },
      { match: /begin/, steps: [EDIT, step] },
    ],
  };
}

function spent(before: ModelUsage, { server }: GeminiScene) {
  const now = server.sent();
  const input = now.input + now.cacheRead - before.input - before.cacheRead;
  return { inputTokens: input, outputTokens: now.output - before.output };
}

describe.skipIf(gone !== null)(
  `a real agent that speaks ACP, killed${gone === null ? "" : ` (${gone})`}`,
  { timeout: 240_000 },
  () => {
    test.for(MOMENTS)("$where: its session is loaded and finished", async ({ step, moment }, context) => {
      const scene = await openAcpScene({ script: play(step), later: context.onTestFinished });
      const { task } = prepareCall(scene, { model: ACP_LINE, prompt: "begin" });
      const running = scene.agent.run(task);
      await moment(scene);
      killAgent(task.mark);
      const killed = await running;
      assertGone(task.mark);
      expect(killed).toMatchObject({ kind: "failed", cause: "killed", usage: { inputTokens: null, microUsd: null } });
      expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("by a tool\n");
      const before = scene.server.sent();
      const next = prepareCall(scene, { model: ACP_LINE, prompt: "go on", session: killed.session });
      const outcome = await scene.agent.run(next.task);
      // Of what the loaded session replays nothing is counted, nor told a second time.
      expect(outcome).toMatchObject({ kind: "completed", text: "All done.", session: killed.session });
      expect(outcome.usage).toMatchObject(spent(before, scene));
      expect(next.events.filter(({ kind }) => kind === "tool")).toHaveLength(1);
      expect(JSON.stringify(scene.server.requests.at(-1)?.body)).toContain("begin");
      expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("by a tool\ntwo\n");
      expect(existsSync(join(scene.cwd, "late"))).toBe(false);
    });

    test("a session loaded in the minute in which it was begun is not lost", async (context) => {
      const scene = await openAcpScene({ script: { rules: [] }, later: context.onTestFinished });
      const run = (prompt: string, session: string | null) =>
        scene.agent.run(prepareCall(scene, { model: ACP_LINE, prompt, session }).task);
      const { session } = await run("the first words", null);
      expect(await run("the second words", session)).toMatchObject({ kind: "completed", session });
      expect(await run("another session", null)).toMatchObject({ kind: "completed" });
      expect(await run("the third words", session)).toMatchObject({ kind: "completed", session });
      const asked = JSON.stringify(scene.server.requests.at(-1)?.body);
      for (const words of ["the first words", "the second words", "the third words"]) expect(asked).toContain(words);
      const chats = findChats(transcriptPlace({ session: session ?? "", cwd: scene.cwd, env: scene.env }));
      expect(chats.filter(({ isHollow }) => !isHollow)).toHaveLength(1);
    });

    test("a session that nobody knows is lost", async (context) => {
      const scene = await openAcpScene({ script: { rules: [] }, later: context.onTestFinished });
      const session = "11111111-2222-4333-8444-555555555555";
      const outcome = await scene.agent.run(prepareCall(scene, { model: ACP_LINE, session }).task);
      expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", session });
      expect(scene.server.requests).toEqual([]);
    });
  },
);
