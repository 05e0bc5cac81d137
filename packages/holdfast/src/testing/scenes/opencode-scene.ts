import { createOpencodeAgent } from "../../agents/opencode/opencode.ts";
import { systemClock } from "../../system/clock.ts";
import { openAgentScene } from "./open-agent-scene.ts";
import type { RealAgent } from "../real-agent-suite.ts";

const agent = createOpencodeAgent({ clock: systemClock });

/** A start takes it five seconds of work, so that few cases are run by default. */
export const REAL_OPENCODE: RealAgent = {
  agent,
  open: (params) => openAgentScene({ ...params, agent, settle }),
  write: (path, text) => ({ name: "write", input: { filePath: path, content: text } }),
  shell: (command) => ({ name: "bash", input: { command, description: "a command" } }),
  model: "scripted/model",
  missingModel: "scripted/gone",
  apart: {
    "what the agent does not say about its usage is null, which is not zero": "opencode always says",
    "two calls at once: the end of one leaves the other alone": "its first start makes a database; real.slow.test.ts",
  },
  isSilent: true,
  priceOf: ({ input, output }) => input + 2 * output,
  slowness: 12,
  samples: { contract: 1, kills: 1, faults: 1 },
};

function settle({ home, url }: { readonly home: string; readonly url: string }) {
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
    // In the background it would fetch a package for plugins that are not there.
    npm_config_registry: "http://127.0.0.1:9/",
    npm_config_fetch_retries: "0",
  };
}
