import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createQwenAgent } from "../../agents/qwen/qwen.ts";
import { readRecord } from "../../agents/qwen/sessions.ts";
import { systemClock } from "../../system/clock.ts";
import { openAgentScene } from "./open-agent-scene.ts";
import type { RealAgent } from "../real-agent-suite.ts";

const agent = createQwenAgent({ clock: systemClock });

/** A start takes it two to three seconds of work. */
export const REAL_QWEN: RealAgent = {
  agent,
  open: (params) => openAgentScene({ ...params, agent, settle }),
  write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
  shell: (command) => ({ name: "run_shell_command", input: { command, is_background: false } }),
  model: "scripted-model",
  missingModel: "no-such-model",
  apart: {
    "what the agent does not say about its usage is null, which is not zero": "Qwen Code always says",
    "a prompt of five megabytes that nobody reads harms nobody": "Qwen Code refuses it before it asks",
  },
  isRecorded: ({ env, cwd }, session, answers) =>
    (readRecord({ session, cwd, env }) ?? "").split(".api_response").length > answers,
  slowness: 8,
  samples: { contract: 2, kills: 1, faults: 1 },
};

function settle({ home, url }: { readonly home: string; readonly url: string }) {
  settleQwen(home, { memory: false });
  return { OPENAI_API_KEY: "scripted", OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: "scripted-model" };
}

/** Nothing but the model is talked to. With `memory` it is asked a second time, in silence, for what is worth to be kept of the work. */
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
