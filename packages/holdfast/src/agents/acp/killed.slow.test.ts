import { describe, expect, test } from "vitest";
import { systemClock } from "../../system/clock.ts";
import { ACP_LINE, openAcpScene } from "../../testing/scenes/acp-scene.ts";
import { prepareCall } from "../../testing/agent-contract/harness.ts";
import { REAL_GEMINI } from "../../testing/scenes/gemini-scene.ts";
import { killSuite } from "../../testing/real-agent-suite.ts";
import { findChats } from "../gemini/chat-files.ts";
import { transcriptPlace } from "../gemini/transcript-place.ts";
import { createAcpAgent } from "./acp.ts";

const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;

// What it has spent it tells when it is done.
killSuite(
  {
    agent: createAcpAgent({ clock: systemClock }),
    program: "gemini",
    open: openAcpScene,
    write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
    shell: (command) => ({ name: "run_shell_command", input: { command } }),
    model: ACP_LINE,
    samples: { kills: 2 },
  },
  { midTool: false, midStream: false },
);

describe.skipIf(gone !== null)(
  `sessions of a real agent that speaks ACP${gone === null ? "" : ` (${gone})`}`,
  { timeout: 600_000 },
  () => {
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
