import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import {
  type AgentScene,
  CODEX_MODEL,
  GEMINI_MODEL,
  MODEL,
  findRealAgent,
  openClaudeScene,
  openCodexScene,
  openGeminiScene,
} from "@holdfast/test-support/agents/real-agents";
import type { ModelScript, ModelStep, ModelTool } from "@holdfast/test-support/agents/model-script";
import { REAL_PI, REAL_QWEN } from "@holdfast/test-support/agents/provider-agents";
import { SEED, sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";

/** `holdfast agents test`, as a user types it, with the makers' own programs. */
interface Tried {
  readonly name: string;
  readonly model: string;
  open(params: Parameters<typeof openClaudeScene>[0]): Promise<AgentScene>;
  readonly shell: (command: string) => ModelTool;
}

const CLAUDE: Tried = {
  name: "claude",
  model: MODEL,
  open: openClaudeScene,
  shell: (command) => ({ name: "Bash", input: { command, description: "as scripted" } }),
};
const OTHERS: readonly Tried[] = [
  {
    name: "codex",
    model: CODEX_MODEL,
    open: openCodexScene,
    shell: (cmd) => ({ name: "exec_command", input: { cmd } }),
  },
  {
    name: "gemini",
    model: GEMINI_MODEL,
    open: openGeminiScene,
    shell: (command) => ({ name: "run_shell_command", input: { command } }),
  },
  { ...REAL_PI, name: "pi" },
  { ...REAL_QWEN, name: "qwen" },
];

let holdfast: BuiltCommand;
beforeAll(async () => {
  holdfast = await buildCommand();
}, 60_000);
afterAll(() => holdfast.remove());

const LIMIT = { timeout: 600_000 };

describe(`holdfast agents test, by seed ${SEED}`, () => {
  for (const tried of [CLAUDE, ...sampleBySeed(OTHERS, 1)]) {
    const found = findRealAgent(tried.name);
    const why = found.kind === "absent" ? ` (${found.why})` : "";
    const real = test.skipIf(found.kind === "absent");

    real(`the real ${tried.name} writes the requested file, and the cost is reported${why}`, LIMIT, async (context) => {
      const scene = await tried.open({ script: { rules: [] }, later: context.onTestFinished });
      scene.server.play(obedient(scene, tried.shell));
      const cwd = scratchDirectory(context.onTestFinished);
      const line = ["--json", "agents", "test", `${tried.name}:${tried.model}`, "--yes", "--yolo"];
      const { status, stdout, stderr } = await holdfast.run(line, { cwd, env: scene.env });
      expect(status, stdout + stderr).toBe(0);
      const { input, output } = scene.server.sent();
      expect(JSON.parse(stdout)).toMatchObject({
        ok: true,
        wrote: true,
        others: [],
        outcome: { kind: "completed", text: "done", usage: { inputTokens: input, outputTokens: output } },
      });
    });

    real(`a key that the provider of ${tried.name} refuses is something to do first${why}`, LIMIT, async (context) => {
      const fault = { kind: "status", status: 401 } as const;
      const script = { rules: [{ match: /(?:)/, steps: [{ fault }] }] };
      const scene = await tried.open({ script, later: context.onTestFinished });
      const cwd = scratchDirectory(context.onTestFinished);
      const line = ["agents", "test", `${tried.name}:${tried.model}`, "--yes"];
      const { status, stdout } = await holdfast.run(line, { cwd, env: scene.env });
      expect([status, stdout]).toEqual([4, expect.stringContaining("failed (auth)")]);
    });
  }
});

/** The words are made up for each call: the model takes them from the question. */
function obedient({ server }: AgentScene, shell: Tried["shell"]): ModelScript {
  const write: ModelStep = {
    get tool() {
      const words = /holdfast [0-9a-z]{8}/.exec(server.requests.at(-1)?.text ?? "")?.[0] ?? "nothing";
      return shell(`echo ${words} > hello.txt`);
    },
  };
  return { rules: [{ match: /hello\.txt/, steps: [write, { text: "done" }] }] };
}
