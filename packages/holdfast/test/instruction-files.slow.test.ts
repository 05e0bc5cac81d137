import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { REAL_COPILOT, REAL_OPENCODE, REAL_PI, REAL_QWEN } from "@holdfast/test-support/agents/provider-agents";
import {
  CODEX_MODEL,
  GEMINI_MODEL,
  MODEL,
  findRealAgent,
  openClaudeScene,
  openCodexScene,
  openGeminiScene,
} from "@holdfast/test-support/agents/real-agents";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { prepareCall } from "@holdfast/testing/agent-contract";
import { filesToRead } from "@holdfast/workflows/impl/task-facts";

// A prompt names the instruction files that the agent does not load by itself. The model of each real agent shows which.

const AGENTS = [
  { agent: "claude", open: openClaudeScene, model: MODEL },
  { agent: "codex", open: openCodexScene, model: CODEX_MODEL },
  { agent: "gemini", open: openGeminiScene, model: GEMINI_MODEL },
  ...[REAL_COPILOT, REAL_OPENCODE, REAL_PI, REAL_QWEN].map((real) => ({ ...real, agent: real.agent.name })),
];
/** Only newer versions load these, so the prompt names them to all. */
const NEWER = ["claude with AGENTS.md", "qwen with AGENTS.md", "qwen with AGENTS.md and CLAUDE.md"];
const REPOSITORIES = [["AGENTS.md", "CLAUDE.md"], ["AGENTS.md"], ["CLAUDE.md"]];
const ROWS = AGENTS.flatMap(({ agent, open, model }) =>
  REPOSITORIES.map((files) => ({ name: `${agent} with ${files.join(" and ")}`, agent, open, model, files })),
);

for (const { name, agent, open, model, files } of sampleBySeed(ROWS, 1)) {
  const found = findRealAgent(agent);
  const why = found.kind === "absent" ? ` (${found.why})` : "";
  test.skipIf(found.kind === "absent")(
    `the prompt names every file that the agent does not load: the real ${name}${why}`,
    { timeout: 600_000 },
    async ({ onTestFinished }) => {
      const scene = await open({ script: { rules: [] }, later: onTestFinished });
      execFileSync("git", ["init", "-q"], { cwd: scene.cwd });
      const textOf = (file: string): string => `These are the rules of ${file}.`;
      for (const file of files) writeFileSync(join(scene.cwd, file), `${textOf(file)}\n`);
      const outcome = await scene.agent.run(prepareCall(scene, { prompt: "Say ok.", model }).task);
      expect(outcome).toMatchObject({ kind: "completed" });
      const asked = JSON.stringify(scene.server.requests.map(({ body }) => body));
      const isLoaded = (file: string): boolean => asked.includes(textOf(file));
      const expected = NEWER.includes(name) ? files : files.filter((file) => !isLoaded(file));
      expect(filesToRead(files, `${agent}:${model}`)).toEqual(expected);
      if (NEWER.includes(name)) expect(files.filter(isLoaded)).toEqual(["AGENTS.md"]);
    },
  );
}
