import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createPiAgent } from "../../agents/pi/pi.ts";
import { systemClock } from "../../system/clock.ts";
import { openAgentScene } from "./open-agent-scene.ts";
import type { RealAgent } from "../real-agent-suite.ts";

const agent = createPiAgent({ clock: systemClock });

export const REAL_PI: RealAgent = {
  agent,
  open: (params) => openAgentScene({ ...params, agent, settle }),
  write: (path, text) => ({ name: "write", input: { path, content: text } }),
  shell: (command) => ({ name: "bash", input: { command } }),
  model: "scripted/model",
  missingModel: "nobody/knows",
  apart: { "what the agent does not say about its usage is null, which is not zero": "pi always says" },
  priceOf: ({ input, output }) => input + 2 * output,
  slowness: 4,
  samples: { contract: 4, kills: 2, faults: 3 },
};

function settle({ home, url }: { readonly home: string; readonly url: string }) {
  const cost = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 };
  const model = { id: "model", name: "Scripted", input: ["text"], cost, contextWindow: 20_000_000, maxTokens: 8000 };
  const provider = { baseUrl: url, api: "anthropic-messages", apiKey: "scripted", models: [model] };
  const folder = join(home, ".pi", "agent");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "models.json"), JSON.stringify({ providers: { scripted: provider } }));
  // It is not to ask again ten times.
  const retry = { enabled: false, provider: { maxRetries: 0 } };
  writeFileSync(join(folder, "settings.json"), JSON.stringify({ retry }));
  return { PI_OFFLINE: "1" };
}
