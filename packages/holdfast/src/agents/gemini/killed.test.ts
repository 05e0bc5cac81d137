import { readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { appears, assertGone, prepareCall } from "../../testing/agent-contract/harness.ts";
import { openGeminiScene, REAL_GEMINI, type GeminiScene } from "../../testing/gemini-scene.ts";
import { killAgent, midStream } from "../../testing/kill-agent.ts";
import type { ModelStep, ModelUsage } from "../../testing/model-server/model-script.ts";
import { findChats } from "./chat-files.ts";
import { transcriptPlace } from "./transcript-place.ts";

const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;
const EDIT: ModelStep = {
  tool: { name: "write_file", input: { file_path: "made.txt", content: "by a tool\n" } },
  usage: { input: 111, cacheRead: 9, output: 13 },
};
const SLOW: ModelStep = {
  tool: { name: "run_shell_command", input: { command: "touch started; sleep 600" } },
  usage: { input: 210, output: 17 },
};
const STREAM: ModelStep = { text: "word\n".repeat(1000), eventDelayMs: 50 };
const APPEND = { name: "run_shell_command", input: { command: "echo two >> made.txt" } };
const FINISH = [{ tool: APPEND }, { text: "All done." }];

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

function chatsOf(scene: GeminiScene, session: string | null) {
  return findChats(transcriptPlace({ session: session ?? "", cwd: scene.cwd, env: scene.env }));
}

describe.skipIf(gone !== null)(
  `the real Gemini CLI, killed${gone === null ? "" : ` (${gone})`}`,
  { timeout: 240_000 },
  () => {
    test.for(MOMENTS)("$where: the same session is gone on with and finished", async ({ step, moment }, context) => {
      const scene = await openGeminiScene({ script: play(step), later: context.onTestFinished });
      const { task } = prepareCall(scene, { prompt: "begin" });
      const before = scene.server.sent();
      const running = scene.agent.run(task);
      await moment(scene);
      killAgent(task.mark);
      const killed = await running;
      assertGone(task.mark);
      expect(killed).toMatchObject({ kind: "failed", cause: "killed", usage: spent(before, scene) });
      expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("by a tool\n");
      const after = scene.server.sent();
      const next = prepareCall(scene, { prompt: "go on", session: killed.session });
      const outcome = await scene.agent.run(next.task);
      expect(outcome).toMatchObject({ kind: "completed", text: "All done.", session: killed.session });
      expect(outcome.usage).toMatchObject(spent(after, scene));
      expect(JSON.stringify(scene.server.requests.at(-1)?.body)).toContain("begin");
      expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("by a tool\ntwo\n");
    });

    test("a session that was gone on with in a later minute outlives the next one", async (context) => {
      const scene = await openGeminiScene({ script: { rules: [] }, later: context.onTestFinished });
      const run = (prompt: string, session: string | null) =>
        scene.agent.run(prepareCall(scene, { prompt, session }).task);
      const { session } = await run("the first words", null);
      for (const { path } of chatsOf(scene, session)) renameSync(path, path.replace(/T\d\d-\d\d-/, "T00-00-"));
      expect(await run("the second words", session)).toMatchObject({ kind: "completed", session });
      // The defect that this is about: when it is gone, so may be what we do about it.
      expect(chatsOf(scene, session).map(({ isHollow }) => isHollow)).toEqual([false, true]);
      expect(await run("another session", null)).toMatchObject({ kind: "completed" });
      expect(await run("the third words", session)).toMatchObject({ kind: "completed", session });
      const asked = JSON.stringify(scene.server.requests.at(-1)?.body);
      for (const words of ["the first words", "the second words", "the third words"]) expect(asked).toContain(words);
    });

    test("a session that is not there any more is lost, and nothing is spent", async (context) => {
      const scene = await openGeminiScene({ script: { rules: [] }, later: context.onTestFinished });
      const { session } = await scene.agent.run(prepareCall(scene, {}).task);
      for (const { path } of chatsOf(scene, session)) rmSync(path);
      const { length } = scene.server.requests;
      const outcome = await scene.agent.run(prepareCall(scene, { session }).task);
      expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", session, usage: { inputTokens: 0 } });
      expect(scene.server.requests).toHaveLength(length);
    });
  },
);
