// Real agent programs with a home directory of their own and a scripted model: Claude Code, Codex and Gemini.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createAcpAgent } from "@holdfast/agents/acp";
import { createClaudeAgent } from "@holdfast/agents/claude";
import { createCodexAgent } from "@holdfast/agents/codex";
import { createGeminiAgent } from "@holdfast/agents/gemini";
import type { Agent, AgentTask } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import { scratchDirectory } from "../scratch-directory.ts";
import type { ModelScript } from "./model-script.ts";
import { type ModelServer, startModelServer } from "./model-server.ts";

/** A real agent with its own home directory and a scripted model. */
export async function openAgentScene(params: {
  readonly agent: Agent;
  /** Returns its environment besides PATH and HOME. It may also write files into the home directory. */
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

/** An agent program as its vendor ships it, from test-agents/, where `npm run test:slow` installs it. Otherwise the reason for a skip. */
export function findRealAgent(
  program: string,
): { readonly kind: "found"; readonly path: string } | { readonly kind: "absent"; readonly why: string } {
  if (process.env["HOLDFAST_NO_AGENTS"] === "1")
    return { kind: "absent", why: "HOLDFAST_NO_AGENTS=1 asks for no real agents" };
  const bin = join(ROOT, "test-agents/node_modules/.bin");
  if (existsSync(join(bin, program))) return { kind: "found", path: [bin, process.env["PATH"]].join(delimiter) };
  const log = join(ROOT, "test-agents/install-problem.log");
  const reason = existsSync(log) ? readFileSync(log, "utf8").trim() : "npm run test:slow installs it";
  return { kind: "absent", why: `the real ${program} is not installed: ${reason}` };
}

const ROOT = join(import.meta.dirname, "../../../..");

export const REAL_CLAUDE = findRealAgent("claude");
/** A model whose price Claude Code knows: 3 and 15 US dollars per million tokens. */
export const MODEL = "claude-sonnet-4-5";

interface SceneParams {
  readonly script: ModelScript;
  readonly later: (undo: () => void | Promise<void>) => void;
}

/** The real Claude Code with its own home directory and a scripted model. */
export async function openClaudeScene(params: SceneParams): Promise<AgentScene> {
  const settle = ({ home, url }: { readonly home: string; readonly url: string }) => ({
    TMPDIR: tmpdir(),
    CLAUDE_CONFIG_DIR: join(home, ".claude"),
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: "a-key-for-tests-only",
    // It connects only to the model, and does not retry ten times.
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_TELEMETRY: "1",
    DISABLE_AUTOUPDATER: "1",
    CLAUDE_CODE_MAX_RETRIES: "1",
  });
  return await openAgentScene({ ...params, agent: createClaudeAgent({ clock: systemClock }), settle });
}

export const REAL_CODEX = findRealAgent("codex");
/** A model that Codex knows: it offers its patch tool to no other. */
export const CODEX_MODEL = "gpt-5.5";

/** The real Codex with its own home directory and a scripted model. */
export async function openCodexScene(params: SceneParams): Promise<AgentScene> {
  const settle = ({ home, url }: { readonly home: string; readonly url: string }) => {
    const folder = join(home, ".codex");
    mkdirSync(folder);
    writeFileSync(join(folder, "config.toml"), configOf(url));
    // Codex' sandbox allows writes in TMPDIR, which must not be the home directory.
    return { TMPDIR: tmpdir(), CODEX_HOME: folder, SCRIPTED_KEY: "scripted" };
  };
  return await openAgentScene({ ...params, agent: createCodexAgent({ clock: systemClock }), settle });
}

/** Disables four retries and a wait of five minutes. */
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

export const REAL_GEMINI = findRealAgent("gemini");
export const GEMINI_MODEL = "gemini-2.5-pro";

/** The real Gemini CLI with its own home directory and a scripted model. */
export async function openGeminiScene(params: SceneParams): Promise<AgentScene> {
  const settle = ({ home, url }: { readonly home: string; readonly url: string }) => {
    mkdirSync(join(home, ".gemini"));
    writeFileSync(join(home, ".gemini", "settings.json"), JSON.stringify(SETTINGS));
    return { GEMINI_API_KEY: "scripted", GOOGLE_GEMINI_BASE_URL: url };
  };
  return await openAgentScene({ ...params, agent: createGeminiAgent({ clock: systemClock }), settle });
}

/** It connects only to the model, and does not retry ten times. */
const SETTINGS = {
  security: { auth: { selectedType: "gemini-api-key" } },
  privacy: { usageStatisticsEnabled: false },
  // Without a name it would ask a second model which one to use. A script may repeat itself, which loop detection would take for a faulty
  // model.
  model: { name: GEMINI_MODEL, disableLoopDetection: true },
  general: { disableAutoUpdate: true, disableUpdateNag: true, maxAttempts: 1 },
};

/** The real Gemini CLI over the Agent Client Protocol: it asks before it acts, and reads and writes files through its client. */
export const ACP_LINE = "exec gemini --acp --skip-trust";

export async function openAcpScene(params: SceneParams): Promise<AgentScene> {
  const scene = await openGeminiScene(params);
  const agent = createAcpAgent({ clock: systemClock });
  const env = { ...scene.env, GEMINI_CLI_NO_RELAUNCH: "true" };
  return { ...scene, agent: { ...agent, run: (task) => agent.run({ ...task, env: { ...env, ...task.env } }) } };
}
