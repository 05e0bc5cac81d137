// The agent contract: what an adapter for a coding agent implements, how it reports results and failures, and how
// `provider:model` is parsed.
import { usageError } from "@holdfast/platform/error";
import type { ExecutionConfig } from "./checkpoint.ts";
import { isRecord } from "./json.ts";
import { optionError } from "./options.ts";

/**
 * A coding agent: a process that reads a prompt and edits files in a worktree. `run` never rejects for what the agent
 * did: a failure is a classified value. It returns only when the agent and every process that it started are gone. A
 * second call is a new attempt and may edit again, so callers save the files with each call in one checkpoint.
 */
export interface Agent {
  /** The part of `provider:model` before the colon. */
  readonly name: string;
  readonly capabilities: AgentCapabilities;
  /** The agent's own session records. null: its output is the only record of a conversation. */
  readonly sessions: AgentSessions | null;
  /** For an agent whose sessions Holdfast can read but cannot put back, such as rows of the agent's database. */
  readonly records?: SessionReader;
  /** A resumed session replays its messages to the adapter, which then chooses between `prompt` and `continuation`. */
  readonly replays?: boolean;
  run(task: AgentTask): Promise<AgentOutcome>;
  /** Returns the program that a call would start, with its arguments and variable names. It starts nothing. */
  preview?(task: AgentTask): AgentPreview;
  /** Checks whether the agent is installed, which version it has, and whether it responds. For `doctor`; spends no tokens. */
  probe(): Promise<AgentProbe>;
}

export interface AgentPreview {
  /** The program and its arguments. The prompt is shown as `<prompt>` and a new session's id as `<session>`. */
  readonly argv: readonly string[];
  /** Names of the variables in the agent's environment. */
  readonly env: readonly string[];
}

export interface AgentCapabilities {
  /** The agent can resume an earlier session, so that an interrupted turn need not be repeated. */
  readonly resume: boolean;
  readonly forkAtMessage: boolean;
  readonly chooseSession: boolean;
  readonly usage: boolean;
  /** false: no call reports its tokens, so each one counts as an assumed number. Absent: a call may report them. */
  readonly reportsTokens?: false;
  readonly cost: boolean;
  readonly structuredOutput: boolean;
  /** The agent accepts a seed and applies it as far as it can. Absent: it does not accept one. */
  readonly seed?: boolean;
}

/**
 * The files in which an agent stores its sessions. Each checkpoint gets a copy, so that a restore also restores the
 * conversation, even after the agent has deleted its own record. Copies are masked, so a record that is put back is
 * masked too.
 */
export interface AgentSessions {
  /** Reads the current record. null: the agent has no such session for this worktree. */
  read(params: { readonly session: string; readonly cwd: string }): Promise<AgentTranscript | null>;
  /** Replaces the record atomically. The next call with this session continues from it. */
  write(params: { readonly session: string; readonly cwd: string; readonly text: string }): Promise<void>;
  /** Total tokens of all answers in such a record, to count a call that died with its process. null: the record does not show them. */
  tokensIn?(text: string): { readonly input: number; readonly output: number } | null;
  /**
   * Returns the agent's final message when the record proves that its last turn began with this prompt and has ended,
   * else null. It is used for turns that ended after Holdfast died.
   */
  answerIn?(text: string, prompt: string): string | null;
  /**
   * Whether the record shows that the agent got this prompt, alone or inside a longer one. Such a session is continued
   * without the task. Absent: unknown, so the whole task is sent.
   */
  askedIn?(text: string, prompt: string): boolean;
}

/** Reads a session from the agent's own storage. */
export interface SessionReader {
  /** Total tokens of all answers, like `tokensIn`. null: the session does not exist. */
  tokens(at: SessionPlace): Promise<{ readonly input: number; readonly output: number } | null>;
  /** The final message of a finished turn, like `answerIn`. */
  answer(at: SessionPlace, prompt: string): Promise<string | null>;
  /** Whether the agent got this prompt, like `askedIn`. */
  asked(at: SessionPlace, prompt: string): Promise<boolean>;
}

export interface SessionPlace {
  readonly session: string;
  readonly cwd: string;
}

export interface AgentTranscript {
  /** Text in the agent's own format, with secrets masked. */
  readonly text: string;
  /** Id of the last message. null: the agent does not number messages. */
  readonly lastMessage: string | null;
}

export interface AgentTask {
  /** Environment mark (HOLDFAST_MARK) of every process of this call, by which Holdfast finds and terminates all of them. */
  readonly mark: string;
  readonly cwd: string;
  readonly prompt: string;
  /** Sent instead of `prompt` if the resumed session shows that it has `prompt`. Only passed to agents with `replays`. */
  readonly continuation?: string;
  /** Purpose of the call: "impl", "review", "simplify", "rebase", or a word that the workflow defines. */
  readonly role: string;
  /** Part after the colon of `provider:model`; null: the agent's default. */
  readonly model: string | null;
  /** The session to resume. null: start a new one. */
  readonly session: string | null;
  /**
   * Continue in a new session from this message of `session`; the id comes from a `message` event. Later messages are
   * not part of the new session, and the old session is unchanged. Only passed to agents with `forkAtMessage`.
   */
  readonly forkAt?: string | null;
  /** True when the agent may use tools without asking for permission. */
  readonly yolo: boolean;
  readonly timeoutMs: number | null;
  /** Milliseconds without output after which the agent counts as hung. null: no limit. */
  readonly idleMs: number | null;
  /** Iteration and attempt, for scripted agents. */
  readonly iteration: number;
  readonly attempt: number;
  /** The run's seed, for agents that accept one (HOLDFAST_SEED). Absent or null: the run has none. */
  readonly seed?: number | null;
  /** Additional variables of the child's environment. The base is the allow-list of agent-environment.ts. */
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Receives every raw line, for the log, the live view and the checkpoint, with secrets masked. It must not throw. */
  readonly onEvent: (event: AgentEvent) => void;
}

export type AgentEvent =
  | { readonly kind: "session"; readonly id: string }
  /** A message with an id, in order. Agents with `forkAtMessage` can fork the session there. */
  | { readonly kind: "message"; readonly id: string }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "tool"; readonly name: string; readonly detail: string }
  /**
   * Tokens that this call has used since its last such event, sent with each response of the model if the agent streams
   * its usage. `total` is the usage of the whole call so far. The engine ends a call whose usage reaches a limit, unless
   * the response `isLast`: then the call ends by itself.
   */
  | { readonly kind: "usage"; readonly tokens: number; readonly total?: AgentUsage; readonly isLast?: boolean }
  | { readonly kind: "raw"; readonly line: string }
  /** Number of output lines that contained a secret. The secret is masked in everything that Holdfast stores. */
  | { readonly kind: "masked"; readonly lines: number }
  /** The program that was started for the call, with secrets masked and without the prompt. */
  | { readonly kind: "process"; readonly argv: readonly string[] };

/** Usage of this call alone, however the agent counts. null: the agent does not report it, which is not zero. */
export interface AgentUsage {
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  /** Input tokens that came from a cache. Absent: not reported, so the call has no price if cached tokens cost a different amount. */
  readonly cachedTokens?: number;
  /** Input tokens that were written to a cache, at their own price. Absent: none, or at the price of input. */
  readonly cacheWriteTokens?: number;
  readonly microUsd: number | null;
  /** The model that answered, for a call that names none. Absent: not reported. */
  readonly model?: string;
}

/** The usage without numbers that cannot be true, such as negative ones: those are unknown. As zero they would pass every limit. */
export function knownUsage({ cachedTokens, cacheWriteTokens, ...usage }: AgentUsage): AgentUsage {
  const known = (value: number | null | undefined): number | null =>
    value === undefined || value === null || !Number.isFinite(value) || value < 0 ? null : value;
  const [cached, cacheWrite] = [known(cachedTokens), known(cacheWriteTokens)];
  return {
    ...usage,
    inputTokens: known(usage.inputTokens),
    outputTokens: known(usage.outputTokens),
    microUsd: known(usage.microUsd),
    ...(cached === null ? {} : { cachedTokens: cached }),
    ...(cacheWrite === null ? {} : { cacheWriteTokens: cacheWrite }),
  };
}

/** Why an agent call failed. The agent's adapter classifies the failure, because it knows the program. */
export const FAILURE_CAUSES = [
  "rate_limit",
  "overload",
  "network",
  "auth",
  "billing",
  "proxy", // HTML instead of the provider's answer: a proxy or a captive portal intercepts the request
  "too_old", // the provider, or a flag that Holdfast needs, requires a newer version of the program
  "refusal", // the model declined to answer
  "context_too_long",
  "permission_denied",
  "missing", // the program is not installed
  "session_lost", // cannot be resumed: unknown, no transcript, or refused by the provider; a fresh session works
  "hang",
  "timeout",
  "crash",
  "killed",
  "interrupted", // by Holdfast's own abort signal
] as const;
export type FailureCause = (typeof FAILURE_CAUSES)[number];

export type AgentOutcome =
  | {
      readonly kind: "completed";
      /** The agent's final message, which parsers read. */
      readonly text: string;
      readonly session: string | null;
      readonly usage: AgentUsage;
    }
  | {
      readonly kind: "failed";
      readonly cause: FailureCause;
      readonly message: string;
      readonly hint: string | null;
      /** ISO 8601 time at which the provider says it will answer again. null: it names none. */
      readonly until: string | null;
      readonly session: string | null;
      readonly usage: AgentUsage;
      /** The agent failed at once and did nothing, so a retry need not cost an iteration. */
      readonly instant: boolean;
    };

export interface AgentProbe {
  readonly installed: boolean;
  readonly version: string | null;
  readonly problem: string | null;
  readonly hint: string | null;
}

/** Valid names before the colon of `provider:model`. The CLI lists them without loading the adapters. */
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

/** Adapters that do not depend on a vendor's program. Each needs a command or a script after the colon. */
const OWN: readonly string[] = ["acp", "command", "scripted", "scripted-session"];

/** Agents that are a vendor's program, which may or may not be installed. */
export const AGENT_PROGRAMS: readonly string[] = AGENT_NAMES.filter((name) => !OWN.includes(name));

/** Text for hints: "claude, codex, …". */
export const AGENT_LIST: string = AGENT_NAMES.join(", ");

/** `claude:opus` is agent and model. `claude` alone uses the agent's default model. */
export function splitAgent(named: string): { readonly provider: string; readonly model: string | null } {
  const colon = named.indexOf(":");
  return colon === -1
    ? { provider: named, model: null }
    : { provider: named.slice(0, colon), model: named.slice(colon + 1) };
}

/**
 * Checks the option `name`, which names an agent. Only the form is checked: a plug-in may add agents, and only the agent
 * knows its models.
 */
export function checkAgentName(name: string, value: string): string {
  const { provider, model } = splitAgent(value);
  if (/^\S+$/.test(provider) && (model === null ? !OWN.includes(provider) : /^\S/.test(model))) return value;
  const wanted = OWN.includes(provider)
    ? `what ${provider} runs after the colon, such as \`${provider}:${EXAMPLES[provider] ?? "agent.yaml"}\``
    : "`provider:model`, or the provider alone for its default model, such as `claude:opus` or `codex`";
  throw optionError(name, value, wanted);
}

const EXAMPLES: Readonly<Record<string, string>> = { acp: "my-agent --acp", command: "./my-agent" };

/** Additional arguments for the vendors' programs, by agent. */
export type AgentArgs = Readonly<Record<string, readonly string[]>>;

/** undefined: the value is invalid, or it contains arguments that only Holdfast may set. */
export function parseAgentArgs(value: unknown): AgentArgs | undefined {
  if (!isRecord(value)) return undefined;
  const found: Record<string, readonly string[]> = {};
  for (const [name, list] of Object.entries(value)) {
    const args = Array.isArray(list) ? list.filter((arg): arg is string => typeof arg === "string") : [];
    if (!AGENT_PROGRAMS.includes(name) || !Array.isArray(list) || args.length !== list.length) return undefined;
    // A first argument that is not an option would be read as the prompt.
    if (args.length > 0 && args[0]?.startsWith("-") !== true) return undefined;
    if (args.some((arg) => arg === "" || arg.includes("\0") || isOurs(arg))) return undefined;
    found[name] = args;
  }
  return found;
}

/** Options for session, prompt, model and output format belong to Holdfast. Without control over them a run could not resume. */
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

/** Chooses `provider:model` of the call, else the run's configuration. Only the first colon separates; the rest is the agent's. */
export function chooseAgent(model: string | null, config: Pick<ExecutionConfig, "agent" | "model">): AgentChoice {
  if (model !== null) return parse(model);
  if (config.agent !== null) return { provider: config.agent, model: config.model };
  if (config.model !== null) return parse(config.model);
  throw usageError("No agent is named, neither by the call nor by the run", "Name one as provider:model.");
}

function parse(text: string): AgentChoice {
  const { provider, model } = splitAgent(text);
  if (provider !== "") return { provider, model: model === "" ? null : model };
  throw usageError(`${JSON.stringify(text)} names no agent`, "Write provider:model.");
}
