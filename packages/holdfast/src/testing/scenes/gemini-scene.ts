import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createGeminiAgent } from "../../agents/gemini/gemini.ts";
import type { Agent, AgentTask } from "../../ports/agent.ts";
import { systemClock } from "../../system/clock.ts";
import type { ModelScript } from "../model-server/model-script.ts";
import { startModelServer, type ModelServer } from "../model-server/model-server.ts";
import { findRealAgent } from "../real-agents.ts";
import { scratchDirectory } from "../store-contract/scratch-directory.ts";

export const REAL_GEMINI = findRealAgent("gemini");
export const GEMINI_MODEL = "gemini-2.5-pro";

/** The real Gemini CLI with a home of its own, and a scripted model that it talks to. */
export async function openGeminiScene(params: {
  readonly script: ModelScript;
  readonly later: (undo: () => void | Promise<void>) => void;
}): Promise<GeminiScene> {
  const server = await startModelServer(params.script);
  params.later(() => server.close());
  const home = scratchDirectory(params.later);
  mkdirSync(join(home, ".gemini"));
  writeFileSync(join(home, ".gemini", "settings.json"), JSON.stringify(SETTINGS));
  const env = {
    PATH: REAL_GEMINI.kind === "found" ? REAL_GEMINI.path : "",
    HOME: home,
    // It leaves reports of failed requests there.
    TMPDIR: home,
    GEMINI_API_KEY: "scripted",
    GOOGLE_GEMINI_BASE_URL: server.url,
  };
  const agent = createGeminiAgent({ clock: systemClock });
  const wrapped: Agent = {
    ...agent,
    run: (task) => agent.run({ ...task, env: { ...env, ...task.env } }),
  };
  return { server, env, agent: wrapped, cwd: scratchDirectory(params.later) };
}

export interface GeminiScene {
  readonly server: ModelServer;
  readonly agent: Agent;
  readonly cwd: string;
  readonly env: AgentTask["env"];
}

/** Nothing but the model is talked to, and it is not asked ten times. */
const SETTINGS = {
  security: { auth: { selectedType: "gemini-api-key" } },
  privacy: { usageStatisticsEnabled: false },
  // What it would choose by itself it chooses by asking a second model.
  // A script may say the same thing over and over, which it would take for a model gone astray.
  model: { name: GEMINI_MODEL, disableLoopDetection: true },
  general: { disableAutoUpdate: true, disableUpdateNag: true, maxAttempts: 1 },
};
