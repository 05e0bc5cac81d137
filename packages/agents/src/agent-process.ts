import { join } from "node:path";
import type { Writable } from "node:stream";
import type { AgentEvent, AgentTask } from "@holdfast/core/agent";
import { type Variables, agentVariables } from "@holdfast/core/agent-environment";
import { MASK, createLineMask, maskSecrets, secretValues } from "@holdfast/core/mask";
import {
  type MarkedExit,
  childEnvironment,
  createLineSplitter,
  createOutputTail,
  runMarked,
} from "@holdfast/platform/marked-process";
import { readAgentFile } from "./session-files.ts";

/**
 * Runs the program behind an agent call: its lines are events as they come, and nothing of it is left when this returns. Whatever it said is
 * masked here, so that no secret goes further, to a log, a checkpoint or a journal.
 */
export async function runAgentProcess(params: {
  readonly task: AgentTask;
  /** What it finds in its environment besides the facts of the call: `agentEnvironment`. */
  readonly env: Readonly<Record<string, string>>;
  readonly command: string;
  readonly args: readonly string[];
  readonly input: string;
  /** Each line of standard output, besides the raw event that every line is. */
  readonly onLine: (line: string) => void;
  /** Each line of standard error, masked. */
  readonly onErrorLine?: (line: string) => void;
  readonly onStop?: () => void;
  /** For a program that is talked with: its standard input, and what it says, unmasked and as it comes. */
  readonly conversation?: { readonly begin: (stdin: Writable) => void; readonly hear: (text: string) => void };
}): Promise<AgentExit> {
  const { task } = params;
  const tail = { stdout: createOutputTail(TEXT_CHARACTERS), stderr: createOutputTail(STDERR_CHARACTERS) };
  const emit = ignoreListenerErrors(task.onEvent);
  const secrets = secretValues({ ...process.env, ...task.env });
  const mask = (text: string): string => maskSecrets(text, secrets);
  // What spans several lines is known by the lines before: each stream has a memory of its own.
  const ofLine = { stdout: createLineMask(secrets), stderr: createLineMask(secrets) };
  let masked = 0;
  const hide = (source: "stdout" | "stderr", line: string): string => {
    const hidden = ofLine[source](line);
    if (hidden !== line) masked += 1;
    return hidden;
  };
  const lines = {
    stdout: createLineSplitter({
      onLine(line) {
        const hidden = hide("stdout", line);
        emit({ kind: "raw", line: withoutPieces(hidden) });
        params.onLine(hidden);
      },
    }),
    stderr: createLineSplitter({
      onLine(line) {
        const hidden = hide("stderr", line);
        emit({ kind: "raw", line: hidden });
        params.onErrorLine?.(hidden);
      },
    }),
  };
  emit({ kind: "process", argv: [params.command, ...params.args].map((arg) => mask(withoutPrompt(arg, task))) });
  const exit = await runMarked({
    command: params.command,
    args: params.args,
    cwd: task.cwd,
    env: childEnvironment({ base: params.env, mark: task.mark, env: { ...task.env, ...factsOf(task) } }),
    mark: task.mark,
    input: params.input,
    ...(params.conversation === undefined ? {} : { converse: params.conversation.begin }),
    timeoutMs: task.timeoutMs,
    idleMs: task.idleMs,
    signal: task.signal,
    ...(params.onStop === undefined ? {} : { onStop: params.onStop }),
    onOutput(source, text) {
      tail[source].add(text);
      lines[source].add(text);
      if (source === "stdout") params.conversation?.hear(text);
    },
  });
  lines.stdout.end();
  lines.stderr.end();
  if (masked > 0) emit({ kind: "masked", lines: masked });
  return { ...exit, stdout: mask(tail.stdout.text()), stderr: mask(tail.stderr.text()) };
}

export interface AgentExit extends MarkedExit {
  /** The last million characters. */
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Claude Code and Qwen Code print an answer piece by piece, and then as a whole. A secret that is cut by the pieces is seen in none of them, so the
 * pieces are not kept.
 */
function withoutPieces(line: string): string {
  if (!line.includes('"stream_event"') || !line.includes('_delta"')) return line;
  return line.replaceAll(/("(?:text|thinking|partial_json|signature)"\s{0,2}:\s{0,2}")(?:[^"\\]|\\.)*/g, `$1${MASK}`);
}

const TEXT_CHARACTERS = 1_000_000;
const STDERR_CHARACTERS = 16_000;

/** What the program may want to know about the call; the workflow adds its own (HOLDFAST_ISSUE, …) through the task's environment. */
function factsOf(task: AgentTask): Readonly<Record<string, string>> {
  return {
    HOLDFAST_ROLE: task.role,
    HOLDFAST_ITERATION: String(task.iteration),
    HOLDFAST_ATTEMPT: String(task.attempt),
    HOLDFAST_YOLO: task.yolo ? "1" : "0",
    ...(task.seed === undefined || task.seed === null ? {} : { HOLDFAST_SEED: String(task.seed) }),
    ...(task.model === null ? {} : { HOLDFAST_MODEL: task.model }),
    ...(task.session === null ? {} : { HOLDFAST_SESSION: task.session }),
  };
}

/** It is told with the call already, and may be a megabyte. */
function withoutPrompt(arg: string, { prompt }: AgentTask): string {
  return prompt !== "" && arg.includes(prompt) ? arg.replace(prompt, () => "<prompt>") : arg;
}

/** A listener must not throw; one that does must not cost the run its agent call. */
export function ignoreListenerErrors(listener: AgentTask["onEvent"]): (event: AgentEvent) => void {
  return (event) => {
    try {
      listener(event);
    } catch {
      return;
    }
  };
}

/** What of our own environment reaches the program behind an agent, with the call's own variables on top. */
export function agentEnvironment(params: {
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
  const read = (folder: string, file: string): string => readAgentFile(join(folder, file))?.toString("utf8") ?? "";
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
