import { join } from "node:path";
import { createClaudeAgent } from "../../agents/claude/claude.ts";
import type { Agent, AgentTask } from "../../ports/agent.ts";
import { systemClock } from "../../system/clock.ts";
import type { ModelScript } from "../model-server/model-script.ts";
import { startModelServer, type ModelServer } from "../model-server/model-server.ts";
import { findRealAgent } from "../real-agents.ts";
import { scratchDirectory } from "../store-contract/scratch-directory.ts";

export const REAL_CLAUDE = findRealAgent("claude");
/** One whose price it knows: 3 and 15 US dollars a million. */
export const MODEL = "claude-sonnet-4-5";

/** The real Claude Code with a home of its own, and a scripted model that it talks to. */
export async function openClaudeScene(params: {
  readonly script: ModelScript;
  readonly later: (undo: () => void | Promise<void>) => void;
}): Promise<ClaudeScene> {
  const server = await startModelServer(params.script);
  params.later(() => server.close());
  const home = scratchDirectory(params.later);
  const env = {
    PATH: REAL_CLAUDE.kind === "found" ? REAL_CLAUDE.path : "",
    HOME: home,
    CLAUDE_CONFIG_DIR: join(home, ".claude"),
    ANTHROPIC_BASE_URL: server.url,
    ANTHROPIC_API_KEY: "a-key-for-tests-only",
    // Nothing but the model is talked to, and it is not asked ten times.
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_TELEMETRY: "1",
    DISABLE_AUTOUPDATER: "1",
    CLAUDE_CODE_MAX_RETRIES: "1",
  };
  const agent = createClaudeAgent({ clock: systemClock });
  const wrapped: Agent = { ...agent, run: (task) => agent.run({ ...task, env: { ...env, ...task.env } }) };
  return { server, env, agent: wrapped, cwd: scratchDirectory(params.later) };
}

export interface ClaudeScene {
  readonly server: ModelServer;
  readonly agent: Agent;
  readonly cwd: string;
  readonly env: AgentTask["env"];
}
