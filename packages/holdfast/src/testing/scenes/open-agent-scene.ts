import type { Agent, AgentTask } from "../../ports/agent.ts";
import type { ModelScript } from "../model-server/model-script.ts";
import { startModelServer, type ModelServer } from "../model-server/model-server.ts";
import { findRealAgent } from "../real-agents.ts";
import { scratchDirectory } from "../store-contract/scratch-directory.ts";

/** A real agent with a home of its own, and a scripted model that it talks to. */
export async function openAgentScene(params: {
  readonly agent: Agent;
  /** What it finds in its environment, besides PATH and HOME. It may be given files in its home. */
  readonly settle: (at: { readonly home: string; readonly url: string }) => AgentTask["env"];
  readonly script: ModelScript;
  readonly later: (undo: () => void | Promise<void>) => void;
}): Promise<AgentScene> {
  const { agent, settle, script, later } = params;
  const server = await startModelServer(script);
  later(() => server.close());
  const home = scratchDirectory(later);
  const found = findRealAgent(agent.name);
  const path = found.kind === "found" ? found.path : "";
  const env = { PATH: path, HOME: home, TMPDIR: home, ...settle({ home, url: server.url }) };
  const wrapped: Agent = { ...agent, run: (task) => agent.run({ ...task, env: { ...env, ...task.env } }) };
  return { server, env, agent: wrapped, cwd: scratchDirectory(later) };
}

export interface AgentScene {
  readonly server: ModelServer;
  readonly agent: Agent;
  readonly cwd: string;
  readonly env: AgentTask["env"];
}
