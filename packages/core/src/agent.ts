import { HoldfastError } from "@holdfast/platform/error";
import type { ExecutionConfig } from "./checkpoint.ts";
import { isRecord } from "./json.ts";

/**
 * A coding agent: a process that reads a prompt and edits files in a worktree. `run` never rejects for what the agent
 * did: a failure is a value, classified. It returns only when the agent and every process it started are gone.
 * A second call is a new try: the agent may edit again, so callers keep files and call together (a checkpoint each).
 */
export interface Agent {
  /** What stands before the colon of `provider:model`. */
  readonly name: string;
  readonly capabilities: AgentCapabilities;
  /** Its own record of sessions; null: what it prints is all that there is of a conversation. */
  readonly sessions: AgentSessions | null;
  /** For an agent whose sessions Holdfast can read and cannot put back, such as rows of its database. */
  readonly records?: SessionReader;
  run(task: AgentTask): Promise<AgentOutcome>;
  /** The program that a call would start, with its arguments and the names of its variables. Starts nothing. */
  preview?(task: AgentTask): AgentPreview;
  /** Is it installed, which version, does it answer? For doctor; spends no token. */
  probe(): Promise<AgentProbe>;
}

export interface AgentPreview {
  /** The program and its arguments; the prompt is `<prompt>` and a new session's id `<session>`. */
  readonly argv: readonly string[];
  /** Names of the variables that it would find in its environment. */
  readonly env: readonly string[];
}

export interface AgentCapabilities {
  /** Continues an earlier session, so that an interrupted turn need not be done again. */
  readonly resume: boolean;
  readonly forkAtMessage: boolean;
  readonly chooseSession: boolean;
  readonly usage: boolean;
  readonly cost: boolean;
  readonly structuredOutput: boolean;
  /** Can be given a seed, and heeds it as far as it can. Absent: it has no way to be told. */
  readonly seed?: boolean;
}

/**
 * The files in which an agent keeps its sessions. A copy goes into each checkpoint, so that a conversation can be gone back to like files can,
 * and outlives the agent's own housekeeping. What is in a copy is masked, and so is what is put back.
 */
export interface AgentSessions {
  /** As it is now; null: the agent has none of that name for this worktree. */
  read(params: { readonly session: string; readonly cwd: string }): Promise<AgentTranscript | null>;
  /** Takes the place of what is there, whole or not at all: the next call with this session goes on from it. */
  write(params: { readonly session: string; readonly cwd: string; readonly text: string }): Promise<void>;
  /** What all answers in such a record have taken, for calls that died with whoever would have counted them; null: it does not tell. */
  tokensIn?(text: string): { readonly input: number; readonly output: number } | null;
  /**
   * The agent's last words, where such a record surely shows that its last turn began with this prompt and has ended; null: it does not. For turns
   * that ended after Holdfast had ended.
   */
  answerIn?(text: string, prompt: string): string | null;
}

/** What an agent's own storage shows of a session. */
export interface SessionReader {
  /** Of all answers in it, as `tokensIn`; null: it is not there. */
  tokens(at: SessionPlace): Promise<{ readonly input: number; readonly output: number } | null>;
  /** As `answerIn`. */
  answer(at: SessionPlace, prompt: string): Promise<string | null>;
}

export interface SessionPlace {
  readonly session: string;
  readonly cwd: string;
}

export interface AgentTranscript {
  /** In the agent's own format, secrets masked. */
  readonly text: string;
  /** Id of the last message, where the agent names them. */
  readonly lastMessage: string | null;
}

export interface AgentTask {
  /** Marks every process of this call in its environment (HOLDFAST_MARK), so that all of them can be found and ended. */
  readonly mark: string;
  readonly cwd: string;
  readonly prompt: string;
  /** What it is for: "impl", "review", "simplify", "rebase", or a workflow's own word. */
  readonly role: string;
  /** Part after the colon of `provider:model`; null: the agent's default. */
  readonly model: string | null;
  /** To go on with; null: a new one. */
  readonly session: string | null;
  /**
   * Go on from this message of `session`, as a `message` event told it, in a new session; what came after it is forgotten there and the old one
   * is left as it is. Only given to agents that can (`forkAtMessage`).
   */
  readonly forkAt?: string | null;
  /** May act without asking. */
  readonly yolo: boolean;
  readonly timeoutMs: number | null;
  /** No sign of life for this long is a hang. */
  readonly idleMs: number | null;
  /** Iteration and attempt, for agents that follow a script. */
  readonly iteration: number;
  readonly attempt: number;
  /** Of the run, for agents that take one (HOLDFAST_SEED). Absent or null: the run has none. */
  readonly seed?: number | null;
  /** Further environment of the child. Ours, less GIT_* and HOLDFAST_*, is the base. */
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Every raw line, for the log, the live view and the copy in the checkpoint; secrets are masked. Must not throw. */
  readonly onEvent: (event: AgentEvent) => void;
}

export type AgentEvent =
  | { readonly kind: "session"; readonly id: string }
  /** Each message of the agent's that has an id, in their order; a session can be forked at one where the agent can. */
  | { readonly kind: "message"; readonly id: string }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "tool"; readonly name: string; readonly detail: string }
  | { readonly kind: "usage"; readonly tokens: number }
  | { readonly kind: "raw"; readonly line: string }
  /** So many of the lines that it printed held a secret, which is masked in all that is kept. */
  | { readonly kind: "masked"; readonly lines: number }
  /** The program that was started for the call, secrets masked, and without the prompt. */
  | { readonly kind: "process"; readonly argv: readonly string[] };

/** Of this call alone, whatever way the agent counts. null: it does not say, which is not zero. */
export interface AgentUsage {
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  /** Of the input, what a cache gave. Absent: it does not say, so that the tokens have no price where a cache has one of its own. */
  readonly cachedTokens?: number;
  readonly microUsd: number | null;
}

/** Why a call of an agent came to nothing. Told by the agent's adapter, which knows its program. */
export const FAILURE_CAUSES = [
  "rate_limit",
  "overload",
  "network",
  "auth",
  "billing",
  "proxy", // HTML instead of the provider's answer: a proxy or a captive portal is in between
  "too_old", // the provider, or a flag that we need, asks for a newer version of the program
  "refusal", // the model declined to answer
  "context_too_long",
  "permission_denied",
  "missing", // the program is not there
  "session_lost", // cannot be gone on with: unknown, no transcript, or refused by the provider; a fresh one can
  "hang",
  "timeout",
  "crash",
  "killed",
  "interrupted", // by our own signal
] as const;
export type FailureCause = (typeof FAILURE_CAUSES)[number];

export type AgentOutcome =
  | {
      readonly kind: "completed";
      /** The agent's last words: what parsers read. */
      readonly text: string;
      readonly session: string | null;
      readonly usage: AgentUsage;
    }
  | {
      readonly kind: "failed";
      readonly cause: FailureCause;
      readonly message: string;
      readonly hint: string | null;
      /** When the provider says it will answer again, ISO 8601. */
      readonly until: string | null;
      readonly session: string | null;
      readonly usage: AgentUsage;
      /** Nothing was done, in no time: worth a retry that costs no iteration. */
      readonly instant: boolean;
    };

export interface AgentProbe {
  readonly installed: boolean;
  readonly version: string | null;
  readonly problem: string | null;
  readonly hint: string | null;
}

/** What may stand before the colon of `provider:model`; the command line names them without loading any of them. */
export const AGENT_NAMES = [
  "acp",
  "claude",
  "codex",
  "command",
  "copilot",
  "gemini",
  "opencode",
  "pi",
  "qwen",
  "scripted",
  "scripted-session",
] as const;

/** Ours: they need no program of a certain maker. */
const OWN: readonly string[] = ["acp", "command", "scripted", "scripted-session"];

/** Those that are a maker's program, which is installed or not. */
export const AGENT_PROGRAMS: readonly string[] = AGENT_NAMES.filter((name) => !OWN.includes(name));

/** For a hint: "claude, codex, …". */
export const AGENT_LIST: string = AGENT_NAMES.join(", ");

/** `claude:opus` is agent and model; `claude` alone has the agent's default. */
export function splitAgent(named: string): { readonly provider: string; readonly model: string | null } {
  const colon = named.indexOf(":");
  return colon === -1
    ? { provider: named, model: null }
    : { provider: named.slice(0, colon), model: named.slice(colon + 1) };
}

/** Further arguments for the makers' programs, by agent. */
export type AgentArgs = Readonly<Record<string, readonly string[]>>;

/** undefined: this is none, or it has arguments that are not the user's to give. */
export function parseAgentArgs(value: unknown): AgentArgs | undefined {
  if (!isRecord(value)) return undefined;
  const found: Record<string, readonly string[]> = {};
  for (const [name, list] of Object.entries(value)) {
    const args = Array.isArray(list) ? list.filter((arg): arg is string => typeof arg === "string") : [];
    if (!AGENT_PROGRAMS.includes(name) || !Array.isArray(list) || args.length !== list.length) return undefined;
    // What is no option would be taken for the prompt.
    if (args.length > 0 && args[0]?.startsWith("-") !== true) return undefined;
    if (args.some((arg) => arg === "" || arg.includes("\0") || isOurs(arg))) return undefined;
    found[name] = args;
  }
  return found;
}

/** Session, prompt, model and the way in which it tells what it does are Holdfast's: without them a run could not go on. */
function isOurs(arg: string): boolean {
  const [option = ""] = arg.split("=");
  return OURS.includes(option);
}

const OURS: readonly string[] = [
  "-",
  "--",
  "--acp",
  "--continue",
  "--dir",
  "--fork-session",
  "--format",
  "--help",
  "--input-format",
  "--json",
  "--last",
  "--mode",
  "--model",
  "--output-format",
  "--print",
  "--prompt",
  "--resume",
  "--session",
  "--session-id",
  "--version",
];

interface AgentChoice {
  readonly provider: string;
  readonly model: string | null;
}

/** `provider:model` of the call, else what the run is configured with. What follows the first colon is the agent's own. */
export function chooseAgent(model: string | null, config: Pick<ExecutionConfig, "agent" | "model">): AgentChoice {
  if (model !== null) return parse(model);
  if (config.agent !== null) return { provider: config.agent, model: config.model };
  if (config.model !== null) return parse(config.model);
  throw new HoldfastError({
    code: "USAGE",
    message: "No agent is named, neither by the call nor by the run",
    hint: "Name one as provider:model.",
  });
}

function parse(text: string): AgentChoice {
  const { provider, model } = splitAgent(text);
  if (provider !== "") return { provider, model: model === "" ? null : model };
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(text)} names no agent`,
    hint: "Write provider:model.",
  });
}
