import type { Writable } from "node:stream";
import { createLineMask, MASK, maskSecrets, secretValues } from "../core/mask.ts";
import type { AgentEvent, AgentTask } from "../ports/agent.ts";
import { childEnvironment } from "../system/child-environment.ts";
import { runMarked, type MarkedExit } from "../system/marked-process.ts";
import { createLines } from "../system/output-lines.ts";
import { createTail } from "../system/output-tail.ts";

/**
 * Runs the program behind an agent call: its lines are events as they come, and nothing of it is left when this returns. Whatever it said is
 * masked here, so that no secret goes further, to a log, a checkpoint or a journal.
 */
export async function runAgentProcess(params: {
  readonly task: AgentTask;
  /** What it finds in its environment besides the facts of the call: `passedEnvironment`. */
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
  const tail = { stdout: createTail(TEXT_CHARACTERS), stderr: createTail(STDERR_CHARACTERS) };
  const emit = quietly(task.onEvent);
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
    stdout: createLines({
      onLine(line) {
        const hidden = hide("stdout", line);
        emit({ kind: "raw", line: withoutPieces(hidden) });
        params.onLine(hidden);
      },
    }),
    stderr: createLines({
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
export function quietly(listener: AgentTask["onEvent"]): (event: AgentEvent) => void {
  return (event) => {
    try {
      listener(event);
    } catch {
      return;
    }
  };
}
