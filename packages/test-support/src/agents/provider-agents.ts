// Copilot, OpenCode, Pi and Qwen as real agents for the suites, each with settings that lead to a scripted model.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCopilotAgent, transcriptPath } from "@holdfast/agents/copilot";
import { createOpencodeAgent } from "@holdfast/agents/opencode";
import { createPiAgent } from "@holdfast/agents/pi";
import { createQwenAgent, sessionFile } from "@holdfast/agents/qwen";
import { readAgentText } from "@holdfast/agents/session-files";
import { systemClock } from "@holdfast/platform/clock";
import type { RealAgent } from "./real-agent-suite.ts";
import { openAgentScene } from "./real-agents.ts";

const copilotAgent = createCopilotAgent({ clock: systemClock });

/** A start takes two to three seconds of CPU time. */
export const REAL_COPILOT: RealAgent = {
  agent: copilotAgent,
  open: (params) => openAgentScene({ ...params, agent: copilotAgent, settle: writeCopilotSettings }),
  write: (path, text) => ({ name: "create", input: { path, file_text: text } }),
  shell: (command) => ({ name: "bash", input: { command, description: "a command" } }),
  model: "claude-sonnet-4.5",
  missingModel: "claude-opus-4.5",
  skips: {
    "usage that the agent does not report is null, which is not zero": "Copilot CLI always reports it",
    "a prompt of five megabytes that the agent does not read does no harm":
      "Copilot CLI refuses it before it calls the model",
  },
  isRecorded({ env }, session, answers) {
    const place = transcriptPath({ session, env });
    return existsSync(place) && readFileSync(place, "utf8").split('"session.usage_record"').length > answers;
  },
  slowness: 8,
  samples: { contract: 2, kills: 1, faults: 1 },
};

function writeCopilotSettings({ url }: { readonly url: string }) {
  return {
    COPILOT_OFFLINE: "true",
    COPILOT_PROVIDER_TYPE: "anthropic",
    COPILOT_PROVIDER_BASE_URL: url,
    // It masks its key wherever that text occurs, so the key must not be a common word.
    COPILOT_PROVIDER_API_KEY: "a-key-of-the-suite",
    COPILOT_MODEL: "claude-sonnet-4.5",
  };
}

const opencodeAgent = createOpencodeAgent({ clock: systemClock });

/** A start takes five seconds of CPU time, so few cases run by default. */
export const REAL_OPENCODE: RealAgent = {
  agent: opencodeAgent,
  open: (params) => openAgentScene({ ...params, agent: opencodeAgent, settle: writeOpencodeSettings }),
  write: (path, text) => ({ name: "write", input: { filePath: path, content: text } }),
  shell: (command) => ({ name: "bash", input: { command, description: "a command" } }),
  model: "scripted/model",
  missingModel: "scripted/gone",
  skips: {
    "usage that the agent does not report is null, which is not zero": "opencode always reports it",
    "two calls at once: the end of one does not affect the other":
      "its first start makes a database; real.slow.test.ts",
  },
  isSilent: true,
  priceOf: ({ input, output }) => input + 2 * output,
  slowness: 12,
  samples: { contract: 1, kills: 1, faults: 1 },
};

function writeOpencodeSettings({ home, url }: { readonly home: string; readonly url: string }) {
  const model = { tool_call: true, limit: { context: 20_000_000, output: 8000 }, cost: { input: 1, output: 2 } };
  const provider = {
    npm: "@ai-sdk/openai-compatible",
    options: { baseURL: `${url}/v1`, apiKey: "scripted" },
    models: { model, gone: model },
  };
  const config = {
    model: "scripted/model",
    small_model: "scripted/model",
    share: "disabled",
    provider: { scripted: provider },
  };
  return {
    ...Object.fromEntries(["CONFIG", "DATA", "STATE", "CACHE"].map((kind) => [`XDG_${kind}_HOME`, `${home}/${kind}`])),
    OPENCODE_CONFIG_CONTENT: JSON.stringify(config),
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
    // Otherwise it would fetch a package for missing plugins in the background.
    npm_config_registry: "http://127.0.0.1:9/",
    npm_config_fetch_retries: "0",
  };
}

const piAgent = createPiAgent({ clock: systemClock });

export const REAL_PI: RealAgent = {
  agent: piAgent,
  open: (params) => openAgentScene({ ...params, agent: piAgent, settle: writePiSettings }),
  write: (path, text) => ({ name: "write", input: { path, content: text } }),
  shell: (command) => ({ name: "bash", input: { command } }),
  model: "scripted/model",
  missingModel: "unknown/model",
  skips: { "usage that the agent does not report is null, which is not zero": "pi always reports it" },
  priceOf: ({ input, output }) => input + 2 * output,
  slowness: 4,
  samples: { contract: 2, kills: 1, faults: 2 },
};

function writePiSettings({ home, url }: { readonly home: string; readonly url: string }) {
  const cost = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 };
  const model = { id: "model", name: "Scripted", input: ["text"], cost, contextWindow: 20_000_000, maxTokens: 8000 };
  const provider = { baseUrl: url, api: "anthropic-messages", apiKey: "scripted", models: [model] };
  const folder = join(home, ".pi", "agent");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "models.json"), JSON.stringify({ providers: { scripted: provider } }));
  // It must not retry ten times.
  const retry = { enabled: false, provider: { maxRetries: 0 } };
  writeFileSync(join(folder, "settings.json"), JSON.stringify({ retry }));
  return { PI_OFFLINE: "1" };
}

const qwenAgent = createQwenAgent({ clock: systemClock });

/** A start takes two to three seconds of CPU time. */
export const REAL_QWEN: RealAgent = {
  agent: qwenAgent,
  open: (params) => openAgentScene({ ...params, agent: qwenAgent, settle: writeQwenSettings }),
  write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
  shell: (command) => ({ name: "run_shell_command", input: { command, is_background: false } }),
  model: "scripted-model",
  missingModel: "no-such-model",
  skips: {
    "usage that the agent does not report is null, which is not zero": "Qwen Code always reports it",
    "a prompt of five megabytes that the agent does not read does no harm":
      "Qwen Code refuses it before it calls the model",
  },
  isRecorded: ({ env, cwd }, session, answers) =>
    readAgentText(sessionFile({ session, cwd, env })).split(".api_response").length > answers,
  slowness: 8,
  samples: { contract: 2, kills: 1, faults: 1 },
};

function writeQwenSettings({ home, url }: { readonly home: string; readonly url: string }) {
  settleQwen(home, { memory: false });
  return { OPENAI_API_KEY: "scripted", OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: "scripted-model" };
}

/** It connects only to the model. With `memory` it silently calls the model a second time, for what to remember of the work. */
export function settleQwen(home: string, params: { readonly memory: boolean }): void {
  const settings = {
    security: { auth: { selectedType: "openai" } },
    privacy: { usageStatisticsEnabled: false },
    general: { disableAutoUpdate: true, enableAutoUpdate: false },
    memory: { enableManagedAutoMemory: params.memory },
  };
  mkdirSync(join(home, ".qwen"), { recursive: true });
  writeFileSync(join(home, ".qwen", "settings.json"), JSON.stringify(settings));
}
