import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { appears, assertGone, prepareCall } from "../../testing/agent-contract/harness.ts";
import { openCodexScene, REAL_CODEX, type CodexScene } from "../../testing/scenes/codex-scene.ts";
import type { ModelStep, ModelUsage } from "../../testing/model-server/model-script.ts";
import { killAgent, midStream } from "../../testing/kill-agent.ts";
import { findRollout } from "./find-rollout.ts";
import { transcriptPlace } from "./transcript-place.ts";

const gone = REAL_CODEX.kind === "absent" ? REAL_CODEX.why : null;
const PATCH = "*** Begin Patch\n*** Add File: made.txt\n+by a tool\n*** End Patch";
const EDIT: ModelStep = {
  tool: { name: "apply_patch", input: PATCH },
  usage: { input: 111, cacheRead: 9, output: 13 },
};
const SLOW: ModelStep = {
  tool: { name: "exec_command", input: { cmd: "touch started; sleep 600" } },
  usage: { input: 210, output: 17 },
};
const STREAM: ModelStep = { text: "word\n".repeat(1000), eventDelayMs: 50 };
const FINISH = [{ tool: { name: "exec_command", input: { cmd: "echo two >> made.txt" } } }, { text: "All done." }];

const MOMENTS = [
  { where: "in the middle of a tool call", step: SLOW, moment: (scene: CodexScene) => appears(scene, "started") },
  { where: "in the middle of a stream", step: STREAM, moment: (scene: CodexScene) => midStream(scene.server) },
];

function play(step: ModelStep) {
  return {
    rules: [
      { match: /go on/, steps: FINISH },
      { match: /begin/, steps: [EDIT, step] },
    ],
  };
}

async function killAt(scene: CodexScene, moment: () => Promise<unknown>, session: string | null = null) {
  const { task } = prepareCall(scene, { prompt: session === null ? "begin" : "begin again", session });
  const before = scene.server.sent();
  const running = scene.agent.run(task);
  await moment();
  killAgent(task.mark);
  const outcome = await running;
  assertGone(task.mark);
  expect(outcome).toMatchObject({ kind: "failed", cause: "killed", usage: spent(before, scene) });
  return outcome;
}

function spent(before: ModelUsage, { server }: CodexScene) {
  const now = server.sent();
  const input = now.input + now.cacheRead - before.input - before.cacheRead;
  return { inputTokens: input, outputTokens: now.output - before.output };
}

describe.skipIf(gone !== null)(`the real Codex, killed${gone === null ? "" : ` (${gone})`}`, () => {
  test.for(MOMENTS)("$where: the same session is gone on with and finished", async ({ step, moment }, context) => {
    const scene = await openCodexScene({ script: play(step), later: context.onTestFinished });
    const killed = await killAt(scene, () => moment(scene));
    expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("by a tool\n");
    // Killed a second time: what the first had taken must not be counted again.
    for (const name of ["made.txt", "started"]) rmSync(join(scene.cwd, name), { force: true });
    const again = await killAt(scene, () => moment(scene), killed.session);
    expect(again.session).toBe(killed.session);
    const before = scene.server.sent();
    const { task, events } = prepareCall(scene, { prompt: "go on", session: killed.session });
    const outcome = await scene.agent.run(task);
    expect(outcome).toMatchObject({ kind: "completed", text: "All done.", session: killed.session });
    expect(outcome.usage).toMatchObject(spent(before, scene));
    expect(events).toContainEqual({ kind: "session", id: killed.session });
    expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("by a tool\ntwo\n");
  });

  test("a session that is not there any more is lost, and nothing is spent", async (context) => {
    const scene = await openCodexScene({ script: { rules: [] }, later: context.onTestFinished });
    const first = await scene.agent.run(prepareCall(scene, {}).task);
    const session = first.session ?? "";
    rmSync(findRollout(transcriptPlace({ session, env: scene.env })) ?? "");
    const { length } = scene.server.requests;
    const outcome = await scene.agent.run(prepareCall(scene, { session }).task);
    expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", session, usage: { inputTokens: 0 } });
    expect(scene.server.requests).toHaveLength(length);
  });

  test("a history that the provider refuses is lost, a refusal in the middle is not", async (context) => {
    const fault = { kind: "status", status: 400, message: "bad history" } as const;
    const script = {
      rules: [
        { match: /work/, steps: [{ tool: { name: "exec_command", input: { cmd: "true" } } }, { fault }] },
        { match: /at once/, steps: [{ fault }] },
      ],
    };
    const scene = await openCodexScene({ script, later: context.onTestFinished });
    const { session } = await scene.agent.run(prepareCall(scene, {}).task);
    for (const [prompt, cause] of [
      ["at once", "session_lost"],
      ["work", "crash"],
    ] as const)
      expect(await scene.agent.run(prepareCall(scene, { prompt, session }).task)).toMatchObject({ cause, session });
  });
});
