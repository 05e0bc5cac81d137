// The CLI adapter for Claude Code: arguments, output lines, usage, failures and session files.

import { existsSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import type { Agent, AgentEvent, AgentTask, AgentUsage, FailureCause } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asRecords, asText, isRecord, textOf } from "@holdfast/core/json";
import {
  CLI_CAPABILITIES,
  type CliAdapter,
  type CliAgentParams,
  type CliArgs,
  type CliCall,
  type CliFailure,
  type CliResult,
  type LoginProblem,
  NO_TOKENS,
  type ParsedLine,
  type TokenCount,
  addTokens,
  createCliAgent,
  createFailures,
  permissionArgs,
  sumTokens,
  toolDetail,
} from "./cli-agent.ts";
import { UNKNOWN_USAGE, causeOfResponse, causeOfStatus, isoTime } from "./failure-cause.ts";
import {
  type SessionKey,
  type TurnRecord,
  asCount,
  asNumber,
  createFileSessions,
  listNames,
  parseJsonRecord,
  readAgentText,
  sizeOf,
} from "./session-files.ts";

/** `claude:MODEL`: Claude Code. */
export function createClaudeAgent(params: CliAgentParams): Agent {
  const adapter: CliAdapter<ClaudeState, Before> = {
    name: "claude",
    title: "Claude Code",
    program: "claude",
    install: "Install it: `npm install -g @anthropic-ai/claude-code`, then log in with `claude auth login`.",
    capabilities: { ...CLI_CAPABILITIES, forkAtMessage: true, chooseSession: true, cost: true },
    sessions: claudeSessions,
    initial: INITIAL_CLAUDE_STATE,
    findSession: (session, call) => findTranscript(locate(session, call)),
    plan(call, from) {
      const args = claudeArgs(call);
      const isRoot = process.getuid?.() === 0;
      const sandbox = sandboxOf({ args, isRoot, isContainer: isContainer(process.env), env: call.env });
      if (sandbox.kind === "refused") return { kind: "refused", ...ROOT_WITHOUT_SANDBOX };
      return {
        kind: "start",
        args,
        env: sandbox.env,
        before: { from, sizes: transcriptSizes(locate(call.session, call)) },
      };
    },
    read: readClaudeLine,
    end: ({ state, resumes }) => classifyClaude(state, { resumes }),
    usage(state, call, { from, sizes }) {
      // A fork's file begins with a copy of messages that other calls paid for, so only the stream is counted.
      const isFork = from !== null && call.session !== call.task.session;
      return claudeUsage({
        state,
        costBefore: () => (from === null ? 0 : totalCost(readAgentText(from, 0, sizes.get(from)))),
        added: () => (isFork ? [] : readAppended(locate(call.session, call), sizes)),
      });
    },
    async checkLogin(run) {
      return parseLoginStatus(await run(["auth", "status"]));
    },
  };
  return createCliAgent(adapter, params);
}

/** The session's files when a call began. */
interface Before {
  /** The transcript of the session to resume; null for a new session. */
  readonly from: string | null;
  /** Length of each of the session's files. */
  readonly sizes: ReadonlyMap<string, number>;
}

function locate(session: string, { task, env }: CliCall): TranscriptLocation {
  return locateTranscript({ session, cwd: task.cwd, env });
}

/** Claude Code's record of a session: one append-only file. Subagents have separate files, which no resume reads. */
export const claudeSessions = createFileSessions({
  title: "Claude Code",
  find: (key) => findTranscript(locateTranscript(key)),
  create: (key) => locateTranscript(key).file,
  tokensIn: (text) => sumTokens(withTranscripts(INITIAL_CLAUDE_STATE, [text]).values()),
  readTurn: readTurnLine,
  lastMessage: lastMessageIn,
});
/**
 * The usage of this call alone. Results count everything before them, including subagents, with its cost. If the call
 * was killed, the rest is counted per message from the stream and the transcript, without a cost.
 */
export function claudeUsage(params: {
  readonly state: ClaudeState;
  /** Lines that this call added to the session's transcripts; read only if no result closed the count. */
  readonly added: () => readonly string[];
  /** The session's cumulative cost when the call began, because older versions continue to add to it. */
  readonly costBefore: () => number;
}): AgentUsage {
  const { state } = params;
  const { result } = state;
  const open = result !== null && state.pending.size === 0 ? new Map() : withTranscripts(state, params.added());
  if (result === null && open.size === 0) return UNKNOWN_USAGE;
  const total = [...open.values()].reduce(addTokens, addTokens(state.spent, NO_TOKENS));
  const usage = { inputTokens: total.input, outputTokens: total.output };
  if (open.size === 0) return { ...usage, microUsd: costOf(params) };
  // Results count cached tokens only by their price, so after one the rest cannot be priced by a list.
  const parts = result === null ? { cachedTokens: total.cached ?? 0, cacheWriteTokens: total.cacheWrite ?? 0 } : {};
  return { ...usage, ...parts, microUsd: null, ...(state.model === null ? {} : { model: state.model }) };
}

function costOf({
  state,
  costBefore,
}: {
  readonly state: ClaudeState;
  readonly costBefore: () => number;
}): number | null {
  const { result, spent } = state;
  if (result === null) return null;
  if (result.isItemized) return spent.microUsd === null ? null : Math.round(spent.microUsd);
  return result.totalCostUsd === null ? null : Math.max(0, Math.round((result.totalCostUsd - costBefore()) * 1e6));
}

function withTranscripts(
  state: Pick<ClaudeState, "pending" | "counted">,
  added: readonly string[],
): ReadonlyMap<string, TokenCount> {
  const open = new Map(state.pending);
  for (const line of added.flatMap((text) => text.split("\n"))) {
    // Most of a transcript is system prompts and tool output.
    if (!line.includes('"assistant"')) continue;
    const message = asRecord(parseJsonRecord(line)["message"]);
    const id = asText(message["id"]);
    const tokens = tokensOf(message["usage"]);
    if (id === "" || tokens === null || message["model"] === "<synthetic>" || state.counted.has(id)) continue;
    open.set(id, greatest(open.get(id), tokens));
  }
  return open;
}

/** The last cumulative cost in a transcript, in US dollars. Versions that count each process separately write none. */
export function totalCost(transcript: string): number {
  const at = transcript.lastIndexOf('{"type":"cost-state"');
  if (at === -1) return 0;
  const end = transcript.indexOf("\n", at);
  return asNumber(parseJsonRecord(transcript.slice(at, end === -1 ? undefined : end))["totalCostUSD"]) ?? 0;
}

/** The last message at which a session can be forked: an answer of the model itself. */
export function lastMessageIn(transcript: string): string | null {
  for (let end = transcript.length; end > 0;) {
    const start = transcript.lastIndexOf("\n", end - 1) + 1;
    const line = transcript.slice(start, end);
    end = start - 1;
    if (!line.includes('"assistant"')) continue;
    const entry = parseJsonRecord(line);
    const { model } = asRecord(entry["message"]);
    const id = asText(entry["uuid"]);
    if (entry["type"] === "assistant" && entry["isSidechain"] !== true && model !== "<synthetic>" && id !== "")
      return id;
  }
  return null;
}

/** Skips lines of subagents, which have their own turns, and internal notes, which belong to no turn. */
function readTurnLine(line: JsonRecord): TurnRecord | null {
  if (line["isSidechain"] === true || line["isMeta"] === true) return null;
  const message = asRecord(line["message"]);
  const content = message["content"];
  if (line["type"] === "user") {
    const isResult = asRecords(content).some(({ type }) => type === "tool_result");
    return isResult ? { kind: "open" } : { kind: "prompt", text: textOf(content) };
  }
  if (line["type"] !== "assistant") return null;
  return message["stop_reason"] === "end_turn" ? { kind: "answer", text: textOf(content) } : { kind: "open" };
}

/** Docker and Podman create a file; others set a variable. */
function isContainer(env: NodeJS.ProcessEnv): boolean {
  const isNamed = (env["container"] ?? "") !== "" || (env["KUBERNETES_SERVICE_HOST"] ?? "") !== "";
  return isNamed || existsSync("/.dockerenv") || existsSync("/run/.containerenv");
}

const ROOT_WITHOUT_SANDBOX: CliFailure = {
  cause: "missing",
  message: "Claude Code does not skip permissions as root outside of a sandbox, and no container was found here",
  hint: "Run Holdfast as another user, or without --yolo. If this machine is a sandbox, set IS_SANDBOX=1.",
  until: null,
};

/** The arguments of Claude Code. The prompt is passed on standard input, because an argument is limited to 128 KB. */
export function claudeArgs({ task, session, extra }: CliArgs): readonly string[] {
  const ours = task.yolo ? ["--dangerously-skip-permissions"] : ["--permission-mode", "acceptEdits"];
  return [
    "--print",
    "--output-format",
    "stream-json",
    "--verbose",
    // Without them a long answer prints nothing for a long time, and the usage of a killed call would be unknown.
    "--include-partial-messages",
    ...(task.model === null ? [] : ["--model", task.model]),
    ...permissionArgs({ ours, extra, words: ["--dangerously-skip-permissions", "--permission-mode"] }),
    ...sessionArgs(task, session),
  ];
}

function sessionArgs(task: Pick<AgentTask, "session" | "forkAt">, session: string): readonly string[] {
  if (task.session === null) return ["--session-id", session];
  const forkAt = task.forkAt ?? null;
  if (forkAt === null) return ["--resume", session];
  return ["--resume", task.session, "--fork-session", "--resume-session-at", forkAt, "--session-id", session];
}

/**
 * As root, Claude Code refuses to skip permissions unless IS_SANDBOX is set. Holdfast sets it only in a container, and
 * never overrides the user's own value.
 */
export function sandboxOf(params: {
  readonly args: readonly string[];
  readonly isRoot: boolean;
  readonly isContainer: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}): { readonly kind: "start"; readonly env: Readonly<Record<string, string>> } | { readonly kind: "refused" } {
  const { args, env } = params;
  if (!params.isRoot || !args.includes("--dangerously-skip-permissions")) return { kind: "start", env: {} };
  const own = env["IS_SANDBOX"] ?? "";
  const isSandbox = own === "" ? params.isContainer : !/^(?:0|false|no|off)$/i.test(own);
  // Claude Code accepts only the value "1".
  return isSandbox ? { kind: "start", env: { IS_SANDBOX: "1" } } : { kind: "refused" };
}

/** Parses the `usage` of messages and results; null if it is none. */
function tokensOf(value: unknown): TokenCount | null {
  const usage = asRecord(value);
  if (typeof usage["input_tokens"] !== "number") return null;
  const inputs = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
  return {
    input: sum(usage, inputs),
    output: sum(usage, ["output_tokens"]),
    cached: sum(usage, ["cache_read_input_tokens"]),
    cacheWrite: sum(usage, ["cache_creation_input_tokens"]),
  };
}

/** Parses `modelUsage`: tokens and cost by model. microUsd is null if Claude Code only estimates a price. */
function modelTokensOf(value: unknown): TokenCount & { readonly microUsd: number | null } {
  let tokens = NO_TOKENS;
  let microUsd: number | null = 0;
  for (const entry of Object.values(asRecord(value))) {
    const usage = asRecord(entry);
    const inputs = ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
    tokens = addTokens(tokens, { input: sum(usage, inputs), output: sum(usage, ["outputTokens"]) });
    const known = typeof usage["costUSD"] === "number" && usage["costBasis"] !== "unknown";
    microUsd = known && microUsd !== null ? microUsd + sum(usage, ["costUSD"]) * 1e6 : null;
  }
  return { ...tokens, microUsd };
}

/**
 * The same message is reported several times, first with a placeholder for its output tokens. The greatest value is the
 * final one.
 */
function greatest(one: TokenCount | undefined, other: TokenCount): TokenCount {
  if (one === undefined) return other;
  return {
    input: Math.max(one.input, other.input),
    output: Math.max(one.output, other.output),
    cached: Math.max(one.cached ?? 0, other.cached ?? 0),
    cacheWrite: Math.max(one.cacheWrite ?? 0, other.cacheWrite ?? 0),
  };
}

function sum(record: JsonRecord, names: readonly string[]): number {
  return names.reduce((total, name) => total + asCount(record[name]), 0);
}

/** State after the output lines of one call so far. */
export interface ClaudeState {
  /** Tokens by message id, for messages that no result has counted yet. */
  readonly pending: ReadonlyMap<string, TokenCount>;
  readonly counted: ReadonlySet<string>;
  /** Sum of the results. One process produces several when background work wakes it up again. */
  readonly spent: TokenCount & { readonly microUsd: number | null };
  readonly result: ClaudeResult | null;
  /** Names of tools that were denied. */
  readonly denied: ReadonlySet<string>;
  /** Error code of the last failed request: `authentication_failed`, `rate_limit`, … */
  readonly error: string | null;
  /** Seconds since the epoch at which an exhausted limit resets. */
  readonly resetsAt: number | null;
  /** The model that Claude Code uses, by its full name. */
  readonly model: string | null;
}

interface ClaudeResult {
  readonly subtype: string;
  readonly isError: boolean;
  readonly text: string;
  readonly errors: readonly string[];
  readonly status: number | null;
  readonly terminalReason: string;
  /** Such as `connection_failed` or `tool_history_mismatch`. */
  readonly apiError: string;
  readonly turns: number;
  /** Cumulative over the session, or of this process, depending on the version. */
  readonly totalCostUsd: number | null;
  /** True if the result reports usage since the previous result. Older versions do not. */
  readonly isItemized: boolean;
}

export const INITIAL_CLAUDE_STATE: ClaudeState = {
  pending: new Map(),
  counted: new Set(),
  spent: { ...NO_TOKENS, microUsd: 0 },
  result: null,
  denied: new Set(),
  error: null,
  resetsAt: null,
  model: null,
};

export function readClaudeLine(state: ClaudeState, line: string): ParsedLine<ClaudeState> {
  const event = parseJsonRecord(line);
  switch (event["type"]) {
    case "system":
      return { state: readSystem(state, event), events: sessionOf(event) };
    case "assistant":
      return readAssistant(state, event);
    case "stream_event":
      return readStream(state, event);
    case "rate_limit_event":
      return { state: readLimit(state, asRecord(event["rate_limit_info"])), events: [] };
    case "result":
      return { state: readResult(state, event), events: [] };
    default:
      return { state, events: [] };
  }
}

function sessionOf(event: JsonRecord): readonly AgentEvent[] {
  const id = asText(event["session_id"]);
  return event["subtype"] === "init" && id !== "" ? [{ kind: "session", id }] : [];
}

/** Holdfast's own value in `ClaudeState.error`: the model declined to answer. */
const REFUSED = "model_refusal";

function readSystem(state: ClaudeState, event: JsonRecord): ClaudeState {
  if (asText(event["subtype"]).startsWith(REFUSED)) return { ...state, error: REFUSED };
  if (event["subtype"] === "init") return { ...state, model: asText(event["model"]) || null };
  if (event["subtype"] !== "permission_denied") return state;
  return { ...state, denied: new Set([...state.denied, asText(event["tool_name"])]) };
}

function readAssistant(state: ClaudeState, event: JsonRecord): ParsedLine<ClaudeState> {
  const message = asRecord(event["message"]);
  // Claude Code emits a synthetic message of the model when a request fails.
  const error = asText(event["error"]);
  if (error !== "" || message["model"] === "<synthetic>")
    return { state: { ...state, error: error === "" || state.error === REFUSED ? state.error : error }, events: [] };
  const isSubagent = typeof event["parent_tool_use_id"] === "string";
  const events = asRecords(message["content"]).flatMap((block) => blockEvents(block, isSubagent));
  const id = asText(event["uuid"]);
  if (!isSubagent && id !== "") events.push({ kind: "message", id });
  return { state: { ...countMessage(state, message["id"], message["usage"]), error: null }, events };
}

function blockEvents(block: JsonRecord, isSubagent: boolean): AgentEvent[] {
  const text = asText(block["text"]);
  if (block["type"] === "text" && text !== "" && !isSubagent) return [{ kind: "text", text }];
  if (block["type"] === "tool_use")
    return [{ kind: "tool", name: asText(block["name"]), detail: toolDetail(block["input"], DETAILS) }];
  return [];
}

const DETAILS = ["command", "file_path", "path", "pattern", "url", "query", "description"];

function readStream(state: ClaudeState, line: JsonRecord): ParsedLine<ClaudeState> {
  const event = asRecord(line["event"]);
  const message = asRecord(event["message"]);
  if (event["type"] === "message_start")
    return { state: countMessage(state, message["id"], message["usage"]), events: [] };
  const id = asText(line["api_message_id"]);
  // Older versions omit the message id. Such a message cannot be distinguished from one already counted.
  if (event["type"] !== "message_delta" || id === "") return { state, events: [] };
  const isSubagent = typeof line["parent_tool_use_id"] === "string";
  const isLast = !isSubagent && asRecord(event["delta"])["stop_reason"] !== "tool_use";
  return {
    state: countMessage(state, id, event["usage"]),
    events: [],
    response: isLast ? "last" : "more",
  };
}

function countMessage(state: ClaudeState, id: unknown, usage: unknown): ClaudeState {
  // The end of a message may repeat only its output.
  const tokens = tokensOf({ input_tokens: 0, ...asRecord(usage) });
  if (typeof id !== "string" || !isRecord(usage) || tokens === null || state.counted.has(id)) return state;
  return { ...state, pending: new Map([...state.pending, [id, greatest(state.pending.get(id), tokens)]]) };
}

function readLimit(state: ClaudeState, info: JsonRecord): ClaudeState {
  const at = info["resetsAt"];
  return info["status"] === "rejected" && typeof at === "number" ? { ...state, resetsAt: at } : state;
}

function readResult(state: ClaudeState, event: JsonRecord): ClaudeState {
  const since = event["model_usage_since_last_result"];
  const isItemized = isRecord(since);
  const own = isItemized ? modelTokensOf(since) : { ...(tokensOf(event["usage"]) ?? NO_TOKENS), microUsd: null };
  const microUsd = own.microUsd === null || state.spent.microUsd === null ? null : own.microUsd + state.spent.microUsd;
  const denied = asRecords(event["permission_denials"]).map((denial) => asText(denial["tool_name"]));
  return {
    ...state,
    pending: new Map(),
    counted: new Set([...state.counted, ...state.pending.keys()]),
    spent: { ...addTokens(state.spent, own), microUsd },
    denied: new Set([...state.denied, ...denied]),
    result: {
      subtype: asText(event["subtype"]),
      isError: event["is_error"] !== false,
      text: asText(event["result"]),
      errors: Array.isArray(event["errors"]) ? event["errors"].map((error) => asText(error)) : [],
      status: asNumber(event["api_error_status"]),
      terminalReason: asText(event["terminal_reason"]),
      apiError: asText(event["api_error"]),
      turns: asNumber(event["num_turns"]) ?? 0,
      totalCostUsd: typeof event["total_cost_usd"] === "number" ? asCount(event["total_cost_usd"]) : null,
      isItemized,
    },
  };
}

/**
 * Classifies the last result by its fields: its text is for users, and its subtype is "success" even for a rejected
 * request.
 */
export function classifyClaude(state: ClaudeState, params: { readonly resumes: boolean }): CliResult {
  const { result } = state;
  if (result === null) return { kind: "open" };
  if (!result.isError && result.subtype === "success")
    return state.denied.size === 0 ? { kind: "completed", text: result.text } : denied(state.denied);
  const cause = causeOf(state, result, params.resumes);
  const until = cause === "rate_limit" && state.resetsAt !== null ? isoTime(state.resetsAt * 1000) : null;
  return failure(cause, errorText(result), until);
}

function causeOf(state: ClaudeState, result: ClaudeResult, resumes: boolean): FailureCause {
  const { status, apiError, terminalReason } = result;
  if (terminalReason === "prompt_too_long" || status === 413) return "context_too_long";
  if (state.error === REFUSED) return "refusal";
  const answer = causeOfResponse(errorText(result));
  if (answer !== null) return answer;
  if (apiError === "tool_history_mismatch") return "session_lost";
  if (apiError === "connection_failed") return "network";
  const byWord = ERRORS[state.error ?? ""];
  if (byWord !== undefined && status === null) return byWord;
  if (status !== null) return causeOfStatus(status) ?? byWord ?? refusal(state, resumes);
  if (terminalReason.startsWith("aborted")) return "killed";
  // The turn never started: Claude Code does not have the session, or the message to fork at.
  if (resumes && result.subtype === "error_during_execution" && result.turns === 0) return "session_lost";
  return terminalReason === "api_error" ? "network" : "crash";
}

const ERRORS: Readonly<Record<string, FailureCause | undefined>> = {
  authentication_failed: "auth",
  oauth_org_not_allowed: "auth",
  billing_error: "billing",
  rate_limit: "rate_limit",
  overloaded: "overload",
  model_not_found: "missing",
};

/** The provider rejected the request. If it is the first request of a resumed session, the history is invalid. */
function refusal(state: ClaudeState, resumes: boolean): FailureCause {
  return resumes && state.spent.input === 0 && state.counted.size === 0 ? "session_lost" : "crash";
}

function errorText({ text, errors, subtype }: ClaudeResult): string {
  return text || errors.join("; ") || `ended with ${subtype}`;
}

const LOG_IN = "Log in with `claude auth login`, or set ANTHROPIC_API_KEY.";

const { failure, denied } = createFailures({
  name: "claude",
  title: "Claude Code",
  hints: {
    auth: LOG_IN,
    billing: "Add credit to the Anthropic account, or log in with another one.",
    missing: "Choose a model that the account may use: claude:MODEL, or claude for its default.",
    permission_denied: "Run with --yolo, or allow the tool in the repository's .claude/settings.json.",
  },
});

/** The session's file, in the expected project directory or any other; null if there is none. */
export function findTranscript(location: TranscriptLocation): string | null {
  if (existsSync(location.file)) return location.file;
  const name = basename(location.file);
  for (const project of foldersIn(location.projects)) {
    const file = join(location.projects, project, name);
    if (existsSync(file)) return file;
  }
  return null;
}

/** Length of each file of the session, used later to find what one call added. */
export function transcriptSizes(location: TranscriptLocation): ReadonlyMap<string, number> {
  const file = findTranscript(location);
  if (file === null) return new Map();
  const subagents = join(file.slice(0, -".jsonl".length), "subagents");
  const others = listNames(subagents).filter((name) => name.endsWith(".jsonl"));
  const files = [file, ...others.map((name) => join(subagents, name))];
  return new Map(files.map((path) => [path, sizeOf(path)]));
}

/** The text added to each file since. A file that is too large or not a regular file yields an empty text. */
export function readAppended(location: TranscriptLocation, before: ReadonlyMap<string, number>): readonly string[] {
  return [...transcriptSizes(location).keys()].map((path) => readAgentText(path, before.get(path)));
}

function foldersIn(path: string): readonly string[] {
  return listNames(path).filter(
    (name) => statSync(join(path, name), { throwIfNoEntry: false })?.isDirectory() === true,
  );
}

/**
 * The path where Claude Code stores a session that began in `cwd`. After a move, the id may be in another project's
 * directory.
 */
export function locateTranscript({ session, cwd, env }: SessionKey): TranscriptLocation {
  const projects = join(env["CLAUDE_CONFIG_DIR"] || join(env["HOME"] ?? "/", ".claude"), "projects");
  const project = join(projects, cwd.replaceAll(/[^a-zA-Z0-9]/g, "-"));
  return { projects, file: join(project, `${session}.jsonl`) };
}

interface TranscriptLocation {
  /** Contains one directory per working directory. */
  readonly projects: string;
  /** The files of subagents are in a directory of the same name without the extension. */
  readonly file: string;
}

/**
 * Parses `claude auth status`, which reads stored credentials without a network request. Versions without this command
 * report nothing about a login.
 */
export function parseLoginStatus(answer: { readonly stdout: Uint8Array }): LoginProblem | null {
  const { loggedIn } = parseJsonRecord(Buffer.from(answer.stdout).toString("utf8"));
  return loggedIn === false ? { problem: "Claude Code is not logged in", hint: LOG_IN } : null;
}
