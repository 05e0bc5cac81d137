import { join } from "node:path";
import { agentVariables, type Variables } from "../core/agent/agent-environment.ts";
import type { AgentTask } from "../ports/agent.ts";
import { readOwnFile } from "./frame/own-files.ts";

/** What of our own environment reaches the program behind an agent, with the call's own variables on top. */
export function passedEnvironment(params: {
  readonly agent: string;
  readonly task: Pick<AgentTask, "model" | "env">;
  readonly args?: readonly string[];
  /** `agents.env`: what the user passes to every agent. */
  readonly named?: readonly string[] | undefined;
}): Readonly<Record<string, string>> {
  const { agent, task, args = [], named = [] } = params;
  const variables = { ...process.env, ...task.env };
  const login = loginVariables(agent, variables);
  return { ...agentVariables({ variables, agent, model: task.model, args, named, login }), ...task.env };
}

/** Names that the user's own settings of an agent give as its login. A repository's settings are not read. */
function loginVariables(agent: string, env: Variables): readonly string[] {
  const home = env["HOME"] ?? "/";
  const read = (folder: string, file: string): string => readOwnFile(join(folder, file))?.toString("utf8") ?? "";
  switch (agent) {
    case "claude": {
      const text = read(env["CLAUDE_CONFIG_DIR"] || join(home, ".claude"), "settings.json");
      return CLOUDS.filter(([flag]) => flag.test(text)).map(([, names]) => names);
    }
    case "codex": {
      const text = read(env["CODEX_HOME"] || join(home, ".codex"), "config.toml");
      const bedrock = /^\s*model_provider\s*=\s*["']amazon-bedrock/m.test(text) ? ["AWS_*"] : [];
      return [...namesIn(text, /^\s*env_key\s*=\s*["']([A-Za-z_]\w*)["']/gm), ...bedrock];
    }
    case "opencode": {
      const folder = join(env["XDG_CONFIG_HOME"] || join(home, ".config"), "opencode");
      const texts = ["opencode.json", "opencode.jsonc", "config.json"].map((file) => read(folder, file));
      return namesIn(texts.join("\n"), /\{env:([A-Za-z_]\w*)\}/g);
    }
    case "pi": {
      const folder = env["PI_CODING_AGENT_DIR"] || join(home, ".pi", "agent");
      return namesIn(read(folder, "models.json"), /"apiKey"\s*:\s*"\$?([A-Z_][A-Z0-9_]*)"/g);
    }
    case "qwen":
      return namesIn(
        read(env["QWEN_HOME"] || join(home, ".qwen"), "settings.json"),
        /"envKey"\s*:\s*"([A-Za-z_]\w*)"/g,
      );
    default:
      return [];
  }
}

const CLOUDS: readonly (readonly [RegExp, string])[] = [
  [/"CLAUDE_CODE_USE_BEDROCK"\s*:\s*"(?:1|true)"/, "AWS_*"],
  [/"CLAUDE_CODE_USE_VERTEX"\s*:\s*"(?:1|true)"/, "GOOGLE_*"],
  [/"CLAUDE_CODE_USE_FOUNDRY"\s*:\s*"(?:1|true)"/, "AZURE_*"],
];

function namesIn(text: string, pattern: RegExp): readonly string[] {
  return [...text.matchAll(pattern)].map(([, name = ""]) => name);
}
