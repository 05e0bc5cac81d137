import { expect, test } from "vitest";
import { prepareCall } from "../testing/agent-contract/harness.ts";
import { withEnvironment } from "../testing/agent-contract/with-environment.ts";
import type { ModelScript, ModelTool } from "../testing/model-server/model-script.ts";
import { findRealAgent } from "../testing/real-agents.ts";
import { MODEL, openClaudeScene } from "../testing/scenes/claude-scene.ts";
import { CODEX_MODEL, openCodexScene } from "../testing/scenes/codex-scene.ts";
import { REAL_COPILOT } from "../testing/scenes/copilot-scene.ts";
import type { AgentScene } from "../testing/scenes/open-agent-scene.ts";
import { REAL_PI } from "../testing/scenes/pi-scene.ts";
import { REAL_QWEN } from "../testing/scenes/qwen-scene.ts";

type Later = (undo: () => void | Promise<void>) => void;

interface Row {
  readonly name: string;
  readonly open: (params: { readonly script: ModelScript; readonly later: Later }) => Promise<AgentScene>;
  readonly model: string;
  readonly shell: (command: string) => ModelTool;
}

const ROWS: readonly Row[] = [
  { ...REAL_COPILOT, name: "copilot" },
  { ...REAL_PI, name: "pi" },
  { ...REAL_QWEN, name: "qwen" },
  {
    name: "claude",
    open: openClaudeScene,
    model: MODEL,
    shell: (command) => ({ name: "Bash", input: { command, description: "as scripted" } }),
  },
  {
    name: "codex",
    open: openCodexScene,
    model: CODEX_MODEL,
    shell: (cmd) => ({ name: "exec_command", input: { cmd } }),
  },
];

const PROMPT = "Do it now.\nAll of it.";

test.for(ROWS)(
  "the record of the real $name shows a turn that ended, by its prompt, and never one that was cut off",
  { timeout: 240_000 },
  async (row, { skip, onTestFinished }) => {
    const found = findRealAgent(row.name);
    if (found.kind === "absent") return skip(found.why);
    const steps = [{ tool: row.shell("echo hi") }, { text: "All done." }];
    const scene = await row.open({ script: { rules: [{ match: /(?:)/, steps }] }, later: onTestFinished });
    const { sessions } = scene.agent;
    const { task } = prepareCall(scene, { prompt: PROMPT, model: row.model });
    const outcome = await scene.agent.run(task);
    const at = { session: outcome.session ?? "", cwd: scene.cwd };
    const text = (await withEnvironment(scene.env, async () => sessions?.read(at)))?.text ?? "";
    expect(sessions?.answerIn?.(text, PROMPT)).toBe("All done.");
    expect(sessions?.answerIn?.(text, "Something else.")).toBeNull();
    const { inputTokens, outputTokens } = outcome.usage;
    expect(sessions?.tokensIn?.(text)).toEqual({ input: inputTokens, output: outputTokens });
    // Cut anywhere before the end of the answer, the turn is open; so is one that begins after it.
    const end = text.lastIndexOf("All done.");
    for (let at = 0; at < 40; at += 1) {
      const cut = Math.floor((end * at) / 40);
      expect(sessions?.answerIn?.(text.slice(0, cut), PROMPT), `cut at ${cut} of ${text.length}`).toBeNull();
    }
  },
);
