import { renameSync, rmSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../system/clock.ts";
import { prepareCall } from "../../testing/agent-contract/harness.ts";
import { GEMINI_MODEL, openGeminiScene, REAL_GEMINI, type GeminiScene } from "../../testing/scenes/gemini-scene.ts";
import { killSuite } from "../../testing/real-agent-suite.ts";
import { findChats } from "./chat-files.ts";
import { createGeminiAgent } from "./gemini.ts";
import { transcriptPlace } from "./transcript-place.ts";

const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;
killSuite(
  {
    agent: createGeminiAgent({ clock: systemClock }),
    open: openGeminiScene,
    write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
    shell: (command) => ({ name: "run_shell_command", input: { command } }),
    model: GEMINI_MODEL,
    isRecorded: (scene, session, answers) =>
      chatsOf(scene, session).reduce((sum, chat) => sum + chat.answers.size, 0) >= answers,
    samples: { kills: 2 },
  },
  { midTool: true, midStream: true },
);

function chatsOf(scene: GeminiScene, session: string | null) {
  return findChats(transcriptPlace({ session: session ?? "", cwd: scene.cwd, env: scene.env }));
}

describe.skipIf(gone !== null)(
  `the real Gemini CLI's sessions${gone === null ? "" : ` (${gone})`}`,
  { timeout: 600_000 },
  () => {
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
