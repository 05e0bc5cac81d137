import { existsSync, readFileSync } from "node:fs";
import { createCopilotAgent } from "../../agents/copilot/copilot.ts";
import { transcriptPlace } from "../../agents/copilot/transcript-place.ts";
import { systemClock } from "../../system/clock.ts";
import { openAgentScene } from "./open-agent-scene.ts";
import type { RealAgent } from "../real-agent-suite.ts";

const agent = createCopilotAgent({ clock: systemClock });

/** A start takes it two to three seconds of work. */
export const REAL_COPILOT: RealAgent = {
  agent,
  open: (params) => openAgentScene({ ...params, agent, settle }),
  write: (path, text) => ({ name: "create", input: { path, file_text: text } }),
  shell: (command) => ({ name: "bash", input: { command, description: "a command" } }),
  model: "claude-sonnet-4.5",
  missingModel: "claude-opus-4.5",
  apart: {
    "what the agent does not say about its usage is null, which is not zero": "Copilot CLI always says",
    "a prompt of five megabytes that nobody reads harms nobody": "Copilot CLI refuses it before it asks",
  },
  isRecorded({ env }, session, answers) {
    const place = transcriptPlace({ session, env });
    return existsSync(place) && readFileSync(place, "utf8").split('"session.usage_record"').length > answers;
  },
  slowness: 8,
  samples: { contract: 2, kills: 1, faults: 1 },
};

function settle({ url }: { readonly url: string }) {
  return {
    COPILOT_OFFLINE: "true",
    COPILOT_PROVIDER_TYPE: "anthropic",
    COPILOT_PROVIDER_BASE_URL: url,
    // It masks its key wherever the word stands.
    COPILOT_PROVIDER_API_KEY: "a-key-of-the-suite",
    COPILOT_MODEL: "claude-sonnet-4.5",
  };
}
