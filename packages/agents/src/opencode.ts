// The CLI adapter for OpenCode: arguments, output lines, usage, failures and its session database.

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Agent, AgentTask, FailureCause, SessionReader } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asText } from "@holdfast/core/json";
import { createMasking } from "@holdfast/core/mask";
import {
  CLI_CAPABILITIES,
  type CliAdapter,
  type CliAgentParams,
  type CliEnd,
  type CliResult,
  NO_TOKENS,
  type ParsedLine,
  type TokenCount,
  addTokens,
  createCliAgent,
  createFailures,
  permissionArgs,
  pricedUsage,
  sumTokens,
  toolDetail,
} from "./cli-agent.ts";
import { causeOfMessage, causeOfProvider, causeOfResponse, retryTime } from "./failure-cause.ts";
import { type Environment, asCount, asNumber, parseJsonRecord } from "./session-files.ts";

/** `opencode:PROVIDER/MODEL`. */
export function createOpencodeAgent(params: CliAgentParams): Agent {
  const adapter: CliAdapter<OpencodeState> = {
    name: "opencode",
    title: "opencode",
    program: "opencode",
    install: "Install it: `npm install -g opencode-ai`, then run `opencode auth login`.",
    capabilities: { ...CLI_CAPABILITIES, chooseSession: false, cost: true },
    // All sessions are in one database, which Holdfast reads and never writes.
    sessions: null,
    records: opencodeRecords,
    initial: INITIAL_OPENCODE_STATE,
    environment: { OPENCODE_DISABLE_AUTOUPDATE: "1" },
    plan: ({ task, env, extra }) => ({
      kind: "start",
      args: opencodeArgs({ task, extra }),
      env: opencodeEnv({ task, env }),
      before: null,
    }),
    read: readOpencodeLine,
    isWaiting: (line) => STREAM_ERROR.test(line),
    isOverflow,
    end: classifyOpencode,
    // Each step is reported once, for this call alone.
    usage: ({ spent }) => pricedUsage(spent),
  };
  return createCliAgent(adapter, params);
}

/**
 * The arguments of OpenCode; the prompt is passed on standard input. With a title, OpenCode does not ask a model for
 * one.
 */
export function opencodeArgs(params: {
  readonly task: Pick<AgentTask, "cwd" | "model" | "yolo" | "session" | "role">;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, extra } = params;
  return [
    "run",
    // OpenCode retries a failed request for ever and reports that only in its log.
    "--print-logs",
    "--log-level",
    "ERROR",
    "--format",
    "json",
    "--dir",
    task.cwd,
    "--title",
    task.role,
    ...permissionArgs({ ours: task.yolo ? ["--auto"] : [], extra, words: ["--auto"] }),
    ...(task.model === null ? [] : ["--model", task.model]),
    ...(task.session === null ? [] : ["--session", task.session]),
  ];
}

/**
 * OpenCode uses PWD instead of its working directory. By default it allows everything. Without yolo it may edit files
 * in the worktree, and requests that need approval are denied, because no user can be asked.
 */
export function opencodeEnv(params: {
  readonly task: Pick<AgentTask, "cwd" | "yolo">;
  readonly env: Environment;
}): Readonly<Record<string, string>> {
  const { task, env } = params;
  const isOwn = task.yolo || (env["OPENCODE_PERMISSION"] ?? "") !== "";
  return { PWD: task.cwd, ...(isOwn ? {} : { OPENCODE_PERMISSION: JSON.stringify(ASK) }) };
}

const ASK = { bash: "ask", webfetch: "ask", external_directory: "ask" };

/** OpenCode has no terminal event: a call is complete when its last step ended with the reason "stop". */
export function classifyOpencode(params: CliEnd<OpencodeState>): CliResult {
  const { state, exit } = params;
  const waiting = waitingInLog(exit.stderr);
  // The call was ended because OpenCode summarized its history repeatedly and the prompt remained too long.
  if (exit.kind === "idle" && waiting.kind === "waiting" && waiting.cause === "context_too_long") return waiting;
  if (state.error !== null) return failedWith(state.error, params);
  if (params.resumes && exit.kind === "exited" && exit.code !== 0 && /Session not found/.test(exit.stderr))
    return failure("session_lost", "the session does not exist");
  if (state.isEmpty) return { ...failure("network", "the provider's answers are empty"), kind: "waiting" };
  if (state.reason === null) return waiting;
  if (state.denied.size > 0) return denied(state.denied);
  if (state.reason === "stop") return { kind: "completed", text: state.text };
  const cause = causeOfResponse(state.reason) ?? "crash";
  return failure(cause, `stopped before the end: ${state.reason}`);
}

/** A log line: a request failed and will be retried. */
export const STREAM_ERROR = /message="stream error".* error\.error="((?:[^"\\]|\\.)*)"/;

/**
 * True if the prompt is too long. OpenCode then summarizes its history and retries, without end if that does not help.
 */
export function isOverflow(line: string): boolean {
  const words = STREAM_ERROR.exec(line)?.[1];
  return words !== undefined && causeOfMessage(words) === "context_too_long";
}

/**
 * OpenCode retries a failed request for ever. Its last log entry of a failure shows what it waits for, as text without
 * a status.
 */
export function waitingInLog(stderr: string): CliResult {
  const line = stderr.split("\n").findLast((one) => STREAM_ERROR.test(one));
  if (line === undefined) return { kind: "open" };
  const message = (STREAM_ERROR.exec(line)?.[1] ?? "").replaceAll('\\"', '"');
  const limited = /rate.?limit|too many requests|\b429\b|quota/i.test(message) ? "rate_limit" : null;
  const cause = causeOfResponse(message) ?? limited ?? causeOfMessage(message) ?? "overload";
  return { ...failure(cause, message), kind: "waiting" };
}

function failedWith(error: JsonRecord, { state, resumes, now }: CliEnd<OpencodeState>): CliResult {
  const data = asRecord(error["data"]);
  const name = asText(error["name"]);
  const text = asText(data["message"]) || name;
  const message = `${text} ${asText(data["responseBody"])}`;
  const cause =
    CAUSES[name] ??
    causeOfProvider({ message, status: asNumber(data["statusCode"]), isFirst: resumes && !state.hasActed });
  const header = asText(asRecord(data["responseHeaders"])["retry-after"]);
  const until = cause === "rate_limit" || cause === "overload" ? retryTime(header, now) : null;
  const failed = failure(cause, text, until);
  // OpenCode uses this name for an unknown model and for any other unexpected error.
  return name === "UnknownError"
    ? { ...failed, hint: "Read opencode's log; `opencode models` lists its models." }
    : failed;
}

const CAUSES: Readonly<Record<string, FailureCause>> = {
  ProviderAuthError: "auth",
  ContextOverflowError: "context_too_long",
  MessageOutputLengthError: "context_too_long",
};

const { failure, denied } = createFailures({
  name: "opencode",
  title: "opencode",
  hints: {
    auth: "Run `opencode auth login`, or set the provider's key.",
    billing: "Pay the provider, or use another key.",
    missing: "Choose a model that `opencode models` lists: opencode:PROVIDER/MODEL.",
    permission_denied: "Run with --yolo, or allow the tool in opencode.json.",
  },
});

/** State after the output lines of one call so far. */
export interface OpencodeState {
  /** The text of the last step. */
  readonly text: string;
  /** Why the last step ended; null if none has ended, or a newer one has begun. */
  readonly reason: string | null;
  /** True if the last step was empty: OpenCode could not parse the response, and retries for ever. */
  readonly isEmpty: boolean;
  readonly error: JsonRecord | null;
  readonly hasActed: boolean;
  /** Names of tools that were denied. */
  readonly denied: ReadonlySet<string>;
  /** Sum of all completed steps; null if there is none. */
  readonly spent: OpencodeSpent | null;
}

interface OpencodeSpent extends TokenCount {
  /** US dollars, by OpenCode's own price list. */
  readonly cost: number;
}

export const INITIAL_OPENCODE_STATE: OpencodeState = {
  text: "",
  reason: null,
  isEmpty: false,
  error: null,
  hasActed: false,
  denied: new Set(),
  spent: null,
};

export function readOpencodeLine(state: OpencodeState, line: string): ParsedLine<OpencodeState> {
  const event = parseJsonRecord(line);
  const step = readEvent(state, event);
  const id = asText(event["sessionID"]);
  return id === "" ? step : { ...step, events: [{ kind: "session", id }, ...step.events] };
}

function readEvent(state: OpencodeState, event: JsonRecord): ParsedLine<OpencodeState> {
  const part = asRecord(event["part"]);
  switch (event["type"]) {
    case "step_start":
      return { state: { ...state, text: "", reason: null }, events: [], waiting: state.isEmpty };
    case "text": {
      const text = asText(part["text"]);
      if (text === "") return { state, events: [] };
      const whole = state.text === "" ? text : `${state.text}\n${text}`;
      return { state: { ...state, text: whole, hasActed: true }, events: [{ kind: "text", text }] };
    }
    case "tool_use":
      return readCall(state, part);
    case "step_finish":
      return readFinish(state, part);
    case "error":
      return { state: { ...state, error: asRecord(event["error"]) }, events: [] };
    default:
      return { state, events: [] };
  }
}

/** OpenCode reports a tool call only when it has ended. */
function readCall(state: OpencodeState, part: JsonRecord): ParsedLine<OpencodeState> {
  const name = asText(part["tool"]);
  const { status, error, input } = asRecord(part["state"]);
  const isDenied = status === "error" && DENIED.test(asText(error));
  const denied = isDenied ? new Set([...state.denied, name]) : state.denied;
  return {
    state: { ...state, hasActed: true, denied },
    events: [{ kind: "tool", name, detail: toolDetail(input, DETAILS) }],
  };
}

/** OpenCode has no field for a denial, so the text is matched. */
const DENIED = /^The user (?:rejected permission|has specified a rule which prevents)/;

const DETAILS = ["command", "filePath", "path", "pattern", "url", "description"];

function readFinish(state: OpencodeState, part: JsonRecord): ParsedLine<OpencodeState> {
  const own = tokensOf(part);
  const spent = {
    ...addTokens(state.spent ?? NO_TOKENS, own),
    cost: (state.spent?.cost ?? 0) + asCount(part["cost"]),
  };
  const tokens = own.input + own.output;
  const reason = asText(part["reason"]);
  const isEmpty = reason === "unknown" && tokens === 0 && state.text === "";
  return {
    state: { ...state, reason, isEmpty, spent },
    events: [],
    response: reason === "tool-calls" ? "more" : "last",
    waiting: isEmpty,
  };
}

/** The tokens of a step or a message: cached tokens are input, reasoning is output. */
function tokensOf(data: JsonRecord): TokenCount {
  const tokens = asRecord(data["tokens"]);
  const cache = asRecord(tokens["cache"]);
  return {
    input: asCount(tokens["input"]) + asCount(cache["read"]) + asCount(cache["write"]),
    output: asCount(tokens["output"]) + asCount(tokens["reasoning"]),
  };
}

/**
 * OpenCode stores all sessions in one SQLite database. Holdfast reads a session's messages from it and never writes it.
 */
const opencodeRecords: SessionReader = {
  async tokens({ session }) {
    const messages = await messagesOf(session);
    return messages === null ? null : sumTokens(messages.map(({ data }) => tokensOf(data)));
  },
  async answer({ session }, prompt) {
    const messages = (await messagesOf(session)) ?? [];
    const begin = messages.findLastIndex(({ data }) => data["role"] === "user");
    const last = messages.at(-1);
    // The finish reason "stop" marks the last message of a turn; before a tool call it is "tool-calls".
    if (last === undefined || last.data["role"] !== "assistant" || last.data["finish"] !== "stop") return null;
    if (last.data["error"] !== undefined || asRecord(last.data["time"])["completed"] === undefined) return null;
    const { mask } = createMasking();
    const asked = messages[begin]?.text ?? "";
    const isOwn = [asked, mask(asked)].some((text) => text.trim() === prompt.trim());
    return isOwn && last.text !== "" ? mask(last.text) : null;
  },
  async asked({ session }, prompt) {
    const { mask } = createMasking();
    const messages = (await messagesOf(session)) ?? [];
    return messages.some(
      ({ data, text }) => data["role"] === "user" && [text, mask(text)].some((asked) => asked.includes(prompt.trim())),
    );
  },
};

interface Message {
  readonly data: JsonRecord;
  readonly text: string;
}

/** The messages in order; null if the session or the database does not exist or has an unknown schema. */
async function messagesOf(session: string): Promise<readonly Message[] | null> {
  const path = databaseIn(process.env);
  if (!existsSync(path)) return null;
  const { DatabaseSync } = await import("node:sqlite");
  try {
    using database = new DatabaseSync(path, { readOnly: true });
    const parts = database.prepare("SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id").all(session);
    const messages = database.prepare("SELECT id, data FROM message WHERE session_id = ? ORDER BY id").all(session);
    if (messages.length === 0) return null;
    return messages.map(({ id, data }) => ({
      data: parseJsonRecord(asText(data)),
      text: parts
        .filter((part) => part["message_id"] === id)
        .map((part) => parseJsonRecord(asText(part["data"])))
        .flatMap((part) => (part["type"] === "text" && asText(part["text"]) !== "" ? [asText(part["text"])] : []))
        .join("\n"),
    }));
  } catch {
    return null;
  }
}

function databaseIn(env: Environment): string {
  const data = env["XDG_DATA_HOME"] || join(env["HOME"] ?? "/", ".local", "share");
  return join(data, "opencode", "opencode.db");
}
