import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCodexAgent } from "../../agents/codex/codex.ts";
import type { Agent, AgentTask } from "../../ports/agent.ts";
import { systemClock } from "../../system/clock.ts";
import type { ModelScript } from "../model-server/model-script.ts";
import { startModelServer, type ModelServer } from "../model-server/model-server.ts";
import { findRealAgent } from "../real-agents.ts";
import { scratchDirectory } from "../store-contract/scratch-directory.ts";

export const REAL_CODEX = findRealAgent("codex");
/** One that it knows: others are not given its tool for patches. */
export const CODEX_MODEL = "gpt-5.5";

/** The real Codex with a home of its own, and a scripted model that it talks to. */
export async function openCodexScene(params: {
  readonly script: ModelScript;
  readonly later: (undo: () => void | Promise<void>) => void;
}): Promise<CodexScene> {
  const server = await startModelServer(params.script);
  params.later(() => server.close());
  const home = join(scratchDirectory(params.later), ".codex");
  mkdirSync(home);
  writeFileSync(join(home, "config.toml"), configOf(server.url));
  const env = {
    PATH: REAL_CODEX.kind === "found" ? REAL_CODEX.path : "",
    HOME: join(home, ".."),
    CODEX_HOME: home,
    SCRIPTED_KEY: "scripted",
  };
  const agent = createCodexAgent({ clock: systemClock });
  const wrapped: Agent = { ...agent, run: (task) => agent.run({ ...task, env: { ...env, ...task.env } }) };
  return { server, env, agent: wrapped, cwd: scratchDirectory(params.later) };
}

export interface CodexScene {
  readonly server: ModelServer;
  readonly agent: Agent;
  readonly cwd: string;
  readonly env: AgentTask["env"];
}

/** Not asked four times, and not waited for five minutes. */
function configOf(url: string): string {
  return [
    `model = "${CODEX_MODEL}"`,
    'model_provider = "scripted"',
    "check_for_update_on_startup = false",
    "[features]",
    "plugins = false",
    "[analytics]",
    "enabled = false",
    "[model_providers.scripted]",
    'name = "scripted"',
    `base_url = "${url}/v1"`,
    'env_key = "SCRIPTED_KEY"',
    'wire_api = "responses"',
    "request_max_retries = 1",
    "stream_max_retries = 1",
    "stream_idle_timeout_ms = 60000",
  ].join("\n");
}
