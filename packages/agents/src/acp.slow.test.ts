import { describe, expect, test } from "vitest";
import type { AgentTask } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import { killSuite, modelServerHarness, runAgentContract } from "@holdfast/test-support/agents/real-agent-suite";
import { ACP_LINE, REAL_GEMINI, openAcpScene } from "@holdfast/test-support/agents/real-agents";
import { type AgentHarness, prepareCall } from "@holdfast/testing/agent-contract";
import { createAcpAgent } from "./acp.ts";
import { findChats, locateTranscript } from "./gemini.ts";

describe("contract", () => {
  const SKIPS: Readonly<Record<string, string>> = {
    "usage that the agent does not report is null, which is not zero": "Gemini CLI always reports it",
  };

  const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;

  runAgentContract({
    title: "a real agent that speaks ACP keeps the contract",
    agent: createAcpAgent({ clock: systemClock }),
    gone,
    skips: SKIPS,
    harnessOf,
    alone: /^the child has the allowed part/,
    timeout: 600_000,
    sample: 7,
  });

  async function harnessOf(later: (undo: () => void | Promise<void>) => void): Promise<AgentHarness> {
    const scene = await openAcpScene({ script: { rules: [] }, later });
    // Its probe reads nothing from the environment, so it can run concurrently with others.
    return modelServerHarness(
      { ...scene, env: {} },
      {
        model: ACP_LINE,
        write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
        shell: (command) => ({ name: "run_shell_command", input: { command } }),
        missingModel: "no-such-agent --acp",
        slowness: 8,
      },
    );
  }
});

describe("killed", () => {
  const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;

  // The agent reports its usage only at the end of a call.
  killSuite(
    {
      agent: createAcpAgent({ clock: systemClock }),
      program: "gemini",
      open: openAcpScene,
      write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
      shell: (command) => ({ name: "run_shell_command", input: { command } }),
      model: ACP_LINE,
      samples: { kills: 1 },
    },
    { midTool: false, midStream: false },
  );

  describe.skipIf(gone !== null)(
    `sessions of a real agent that speaks ACP${gone === null ? "" : ` (${gone})`}`,
    { timeout: 600_000 },
    () => {
      test("a session loaded in the minute in which it was begun is not lost", async (context) => {
        const scene = await openAcpScene({ script: { rules: [] }, later: context.onTestFinished });
        const run = (prompt: string, session: string | null, more: Partial<AgentTask> = {}) =>
          scene.agent.run(prepareCall(scene, { model: ACP_LINE, prompt, session, ...more }).task);
        const { session } = await run("the first words", null);
        // The session shows that it has the first prompt, so it gets the continuation.
        const continuation = "the second words";
        const second = await run("the first words", session, { continuation });
        // What the session said before is not part of this answer.
        expect(second).toMatchObject({ kind: "completed", session, text: "ok" });
        expect(scene.server.requests.at(-1)?.text).toContain(continuation);
        expect(await run("another session", null)).toMatchObject({ kind: "completed" });
        expect(await run("the third words", session)).toMatchObject({ kind: "completed", session });
        const asked = JSON.stringify(scene.server.requests.at(-1)?.body);
        for (const words of ["the first words", "the second words", "the third words"]) expect(asked).toContain(words);
        const chats = findChats(locateTranscript({ session: session ?? "", cwd: scene.cwd, env: scene.env }));
        expect(chats.filter(({ isEmpty }) => !isEmpty)).toHaveLength(1);
      });

      test("an unknown session is lost", async (context) => {
        const scene = await openAcpScene({ script: { rules: [] }, later: context.onTestFinished });
        const session = "11111111-2222-4333-8444-555555555555";
        const outcome = await scene.agent.run(prepareCall(scene, { model: ACP_LINE, session }).task);
        expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", session });
        expect(scene.server.requests).toEqual([]);
      });
    },
  );
});
