// Runs the program of an agent call with masked output, and builds the environment it receives.

import { join } from "node:path";
import type { Writable } from "node:stream";
import type { AgentEvent, AgentTask } from "@holdfast/core/agent";
import { type Variables, agentVariables } from "@holdfast/core/agent-environment";
import { MASK, ownSecrets } from "@holdfast/core/known-secrets";
import { createLineMask, maskSecrets } from "@holdfast/core/mask";
import {
  type MarkedExit,
  childEnvironment,
  createLineSplitter,
  createOutputTail,
  runMarked,
} from "@holdfast/platform/marked-process";
import { readAgentText } from "./session-files.ts";

/**
 * Runs the program of an agent call. Its lines become events as they arrive, and no process of it remains when this
 * returns. Output is masked here, so that no secret reaches a log, a checkpoint or a journal.
 */
export async function runAgentProcess(params: {
  readonly task: AgentTask;
  /** Its environment besides the variables of the call, from `agentEnvironment`. */
  readonly env: Readonly<Record<string, string>>;
  readonly command: string;
  readonly args: readonly string[];
  readonly input: string;
  /** Called for each line of standard output, in addition to its raw event. */
  readonly onLine: (line: string) => void;
  /** Called for each line of standard error, masked. */
  readonly onErrorLine?: (line: string) => void;
  readonly onStop?: () => void;
  /** For an interactive program: receives its standard input and its unmasked output as it arrives. */
  readonly conversation?: { readonly begin: (stdin: Writable) => void; readonly onText: (text: string) => void };
}): Promise<AgentExit> {
  const { task } = params;
  const tail = { stdout: createOutputTail(TEXT_CHARACTERS), stderr: createOutputTail(STDERR_CHARACTERS) };
  const emit = ignoreListenerErrors(task.onEvent);
  const secrets = ownSecrets(task.env);
  const mask = (text: string): string => maskSecrets(text, secrets);
  // A secret may span several lines, so each stream keeps the state of its earlier lines.
  const ofLine = { stdout: createLineMask(mask), stderr: createLineMask(mask) };
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
        emit({ kind: "raw", line: dropPartialText(hidden) });
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
    env: childEnvironment({ base: params.env, mark: task.mark, env: { ...task.env, ...callVariables(task) } }),
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
      if (source === "stdout") params.conversation?.onText(text);
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
 * Claude Code and Qwen Code print an answer in pieces and then as a whole. A secret split across pieces is not detected
 * in any of them, so the pieces are dropped.
 */
function dropPartialText(line: string): string {
  if (!line.includes('"stream_event"') || !line.includes('_delta"')) return line;
  return line.replaceAll(/("(?:text|thinking|partial_json|signature)"\s{0,2}:\s{0,2}")(?:[^"\\]|\\.)*/g, `$1${MASK}`);
}

const TEXT_CHARACTERS = 1_000_000;
const STDERR_CHARACTERS = 16_000;

/**
 * Variables that describe the call to the program. The workflow adds its own (HOLDFAST_ISSUE, …) through the task's
 * environment.
 */
function callVariables(task: AgentTask): Readonly<Record<string, string>> {
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

/** The prompt is already recorded with the call, and may be a megabyte long. */
function withoutPrompt(arg: string, { prompt }: AgentTask): string {
  return prompt !== "" && arg.includes(prompt) ? arg.replace(prompt, () => "<prompt>") : arg;
}

/** A command line as a name in messages. */
export function commandLabel(command: string): string {
  const line = command.trim().replaceAll(/\s+/g, " ");
  return `\`${line.length > 80 ? `${line.slice(0, 79)}…` : line}\``;
}

/** A listener must not throw. If one does, the agent call must not fail because of it. */
export function ignoreListenerErrors(listener: AgentTask["onEvent"]): (event: AgentEvent) => void {
  return (event) => {
    try {
      listener(event);
    } catch {
      return;
    }
  };
}

/** The part of our environment that reaches the program of an agent, with the call's own variables on top. */
export function agentEnvironment(params: {
  readonly agent: string;
  readonly task: Pick<AgentTask, "model" | "env">;
  readonly args?: readonly string[];
  /** `agents.env`: variables that the user passes to every agent. */
  readonly named?: readonly string[] | undefined;
}): Readonly<Record<string, string>> {
  const { agent, task, args = [], named = [] } = params;
  const variables = { ...process.env, ...task.env };
  const login = loginVariables(agent, variables);
  return { ...agentVariables({ variables, agent, model: task.model, args, named, login }), ...task.env };
}

/** Names of login variables from the user's own settings of an agent. Settings of the repository are not read. */
function loginVariables(agent: string, env: Variables): readonly string[] {
  const home = env["HOME"] ?? "/";
  const read = (folder: string, file: string): string => readAgentText(join(folder, file));
  switch (agent) {
    case "claude": {
      const text = read(env["CLAUDE_CONFIG_DIR"] || join(home, ".claude"), "settings.json");
      return CLOUDS.filter(([flag]) => flag.test(text)).map(([, names]) => names);
    }
    case "codex": {
      const text = read(env["CODEX_HOME"] || join(home, ".codex"), "config.toml");
      const bedrock = /^\s*model_provider\s*=\s*["']amazon-bedrock/m.test(text) ? ["AWS_*"] : [];
      return [...variableNamesIn(text, /^\s*env_key\s*=\s*["']([A-Za-z_]\w*)["']/gm), ...bedrock];
    }
    case "opencode": {
      const folder = join(env["XDG_CONFIG_HOME"] || join(home, ".config"), "opencode");
      const texts = ["opencode.json", "opencode.jsonc", "config.json"].map((file) => read(folder, file));
      return variableNamesIn(texts.join("\n"), /\{env:([A-Za-z_]\w*)\}/g);
    }
    case "pi": {
      const folder = env["PI_CODING_AGENT_DIR"] || join(home, ".pi", "agent");
      return variableNamesIn(read(folder, "models.json"), /"apiKey"\s*:\s*"\$?([A-Z_][A-Z0-9_]*)"/g);
    }
    case "qwen":
      return variableNamesIn(
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

function variableNamesIn(text: string, pattern: RegExp): readonly string[] {
  return [...text.matchAll(pattern)].map(([, name = ""]) => name);
}
