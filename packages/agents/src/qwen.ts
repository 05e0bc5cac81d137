// The CLI adapter for Qwen Code: arguments, output lines, usage, failures and session files.

import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Agent, AgentEvent, AgentUsage, FailureCause } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asRecords, asText, isRecord, textOf } from "@holdfast/core/json";
import {
  CLI_CAPABILITIES,
  type CliAdapter,
  type CliAgentParams,
  type CliArgs,
  type CliCall,
  type CliEnd,
  type CliResult,
  type ParsedLine,
  type TokenCount,
  createCliAgent,
  createFailures,
  permissionArgs,
  sumTokens,
  toolDetail,
  unwrapLauncher,
  usageSince,
} from "./cli-agent.ts";
import { causeOfProvider } from "./failure-cause.ts";
import {
  type SessionKey,
  type TurnRecord,
  asCount,
  asNumber,
  createFileSessions,
  existing,
  parseJsonRecord,
  readAgentText,
  realPathOf,
} from "./session-files.ts";

/** `qwen:MODEL`: Qwen Code. */
export function createQwenAgent(params: CliAgentParams): Agent {
  /** `before` is the content of the session's file when the call began. */
  const adapter: CliAdapter<QwenState, string> = {
    name: "qwen",
    title: "Qwen Code",
    program: "qwen",
    install:
      "Install it: `npm install -g @qwen-code/qwen-code`, then run `qwen` once and log in, or set OPENAI_API_KEY.",
    capabilities: { ...CLI_CAPABILITIES, chooseSession: true, cost: false },
    sessions: qwenSessions,
    initial: INITIAL_QWEN_STATE,
    // Qwen Code would start itself a second time with more memory, and killing the first process would leave the second
    // running.
    environment: { QWEN_CODE_NO_RELAUNCH: "true", QWEN_CODE_SUPPRESS_YOLO_WARNING: "1" },
    native: (path) => unwrapLauncher(path, innerProgram),
    sessionIds: "5",
    findSession: (session, { task, env }) => existing(sessionFile({ session, cwd: task.cwd, env })),
    plan: (call) => ({ kind: "start", args: qwenArgs(call), before: sessionText(call) }),
    read: readQwenLine,
    end: ({ call, before, ...params }) =>
      classifyQwen({ ...params, refused: parseRequestRecord(sessionText(call), before).refused }),
    // The result omits the usage of killed calls; the session record contains each answer, a moment after the output.
    usage({ answers }, call, before) {
      const recorded = usageSince(parseRequestRecord(sessionText(call), before).answers, new Set());
      const printed = usageSince(answers, new Set());
      return tokensIn(printed) > tokensIn(recorded) ? printed : recorded;
    },
  };
  return createCliAgent(adapter, params);
}

function tokensIn({ inputTokens, outputTokens }: AgentUsage): number {
  return (inputTokens ?? 0) + (outputTokens ?? 0);
}

function sessionText({ session, task, env }: CliCall): string {
  return readAgentText(sessionFile({ session, cwd: task.cwd, env }));
}

/** The arguments of Qwen Code. Without a prompt argument it reads standard input, which may have any length. */
export function qwenArgs({ task, session, extra }: CliArgs): readonly string[] {
  const ours = ["--approval-mode", task.yolo ? "yolo" : "auto-edit"];
  return [
    "--output-format",
    "stream-json",
    // Each piece of an answer resets the idle limit.
    "--include-partial-messages",
    ...permissionArgs({ ours, extra, words: ["--yolo", "-y", "--approval-mode"] }),
    ...(task.model === null ? [] : ["--model", task.model]),
    task.session === null ? "--session-id" : "--resume",
    session,
  ];
}

/** The script that npm installs as `qwen` starts Node a second time. This is what it starts. */
function innerProgram(script: string): readonly [string, ...string[]] | null {
  const inner = join(dirname(script), "cli.js");
  return basename(script) === "cli-entry.js" && existsSync(inner) ? ["node", "--expose-gc", inner] : null;
}

/** Qwen Code's record of a session: one file. */
const qwenSessions = createFileSessions({
  title: "Qwen Code",
  find: sessionFile,
  create: sessionFile,
  tokensIn: (text) => sumTokens(parseRequestRecord(text).answers.values()),
  readTurn: readTurnLine,
  relocate: moveSession,
});

/** Qwen Code finds only sessions whose lines name its own worktree. */
function moveSession(text: string, cwd: string): string {
  const lines = text.split("\n").map((line) => {
    const entry = parseJsonRecord(line);
    return typeof entry["cwd"] === "string" && entry["cwd"] !== cwd ? JSON.stringify({ ...entry, cwd }) : line;
  });
  return lines.join("\n");
}

/** An answer and its tool calls are one line, written when the answer is complete. */
function readTurnLine(line: JsonRecord): TurnRecord | null {
  const parts = asRecords(asRecord(line["message"])["parts"]);
  const text = textOf(parts.filter(({ thought }) => thought !== true));
  switch (line["type"]) {
    case "system":
      return null;
    case "user":
      return { kind: "prompt", text };
    case "assistant": {
      const isWhole = typeof asRecord(line["usageMetadata"])["totalTokenCount"] === "number";
      return isWhole && !parts.some((part) => isRecord(part["functionCall"]))
        ? { kind: "answer", text }
        : { kind: "open" };
    }
    default:
      return { kind: "open" };
  }
}

/** Where Qwen Code stores a session that began in `cwd`. It identifies worktrees by their real paths. */
export function sessionFile({ session, cwd, env }: SessionKey): string {
  const home = env["QWEN_RUNTIME_DIR"] || env["QWEN_HOME"] || join(env["HOME"] ?? "/", ".qwen");
  return join(home, "projects", realPathOf(cwd).replaceAll(/[^a-zA-Z0-9]/g, "-"), "chats", `${session}.jsonl`);
}

/** State after the output lines of one call so far. */
interface QwenState {
  readonly result: QwenResult | null;
  readonly hasActed: boolean;
  /** Tokens of each answer in the output by message id. Side requests and subagents are only in the session's file. */
  readonly answers: ReadonlyMap<string, TokenCount>;
}

export interface QwenResult {
  readonly isError: boolean;
  readonly text: string;
  readonly error: string;
  /** Names of tools that were denied. */
  readonly denied: readonly string[];
}

export const INITIAL_QWEN_STATE: QwenState = { result: null, hasActed: false, answers: new Map() };

export function readQwenLine(state: QwenState, line: string): ParsedLine<QwenState> {
  const event = parseJsonRecord(line);
  const id = asText(event["session_id"]);
  const step = readEvent(state, event);
  return id === "" ? step : { ...step, events: [{ kind: "session", id }, ...step.events] };
}

function readEvent(state: QwenState, event: JsonRecord): ParsedLine<QwenState> {
  switch (event["type"]) {
    case "assistant": {
      const message = asRecord(event["message"]);
      const events = eventsOf(message["content"]);
      const { input_tokens: input, total_tokens: total, cache_read_input_tokens: cached } = asRecord(message["usage"]);
      const tokens = countTokens(input, total, cached);
      const next = { ...state, hasActed: state.hasActed || events.length > 0 };
      if (tokens === null) return { state: next, events };
      const answers = new Map([...state.answers, [asText(message["id"]), tokens]]);
      return { state: { ...next, answers }, events, response: message["stop_reason"] === "tool_use" ? "more" : "last" };
    }
    case "result":
      return { state: { ...state, result: resultOf(event) }, events: [] };
    default:
      return { state, events: [] };
  }
}

/** Qwen Code reports a failure as a text of the model, which is skipped here. */
function eventsOf(content: unknown): readonly AgentEvent[] {
  return asRecords(content).flatMap((part): readonly AgentEvent[] => {
    const text = asText(part["text"]);
    if (part["type"] === "text" && text !== "" && !text.startsWith("[API Error:")) return [{ kind: "text", text }];
    if (part["type"] !== "tool_use") return [];
    return [{ kind: "tool", name: asText(part["name"]), detail: toolDetail(part["input"], DETAILS) }];
  });
}

function resultOf(event: JsonRecord): QwenResult {
  return {
    isError: event["is_error"] !== false,
    text: asText(event["result"]),
    error: asText(asRecord(event["error"])["message"]),
    denied: asRecords(event["permission_denials"]).map((denial) => asText(denial["tool_name"])),
  };
}

const DETAILS = ["command", "file_path", "path", "pattern", "query", "url", "prompt"];

/** `refused` is the rejected request according to the session record. */
export function classifyQwen(
  params: Omit<CliEnd<QwenState>, "now"> & { readonly refused: QwenApiError | null },
): CliResult {
  const { state, refused, exit, resumes } = params;
  const { result } = state;
  const isFirst = resumes && !state.hasActed;
  if (result === null) return classifyNoResult(refused, exit, isFirst);
  if (result.isError) {
    const message = /^\[API Error: (.*?)\]?$/s.exec(result.error)?.[1] ?? result.error;
    return failure(causeOf(message, refused, isFirst), message);
  }
  return result.denied.length === 0 ? { kind: "completed", text: result.text } : denied(new Set(result.denied));
}

function causeOf(text: string, refused: QwenApiError | null, isFirst: boolean): FailureCause {
  // The text may start with the status, as in `[API Error: 401 …]`.
  const digits = /^(\d{3})\b/.exec(text)?.[1];
  const status = refused?.status ?? (digits === undefined ? null : Number(digits));
  const message = `${text} ${refused?.message ?? ""}`;
  return /Context is too large/i.test(message) ? "context_too_long" : causeOfProvider({ message, status, isFirst });
}

/** Qwen Code retries silently, which only its session record shows. It reports errors before the start only as text. */
function classifyNoResult(
  refused: QwenApiError | null,
  { kind, code, stderr }: CliEnd<QwenState>["exit"],
  isFirst: boolean,
): CliResult {
  if (refused !== null)
    return { ...failure(causeOf(refused.message, refused, isFirst), refused.message), kind: "waiting" };
  if (kind !== "exited" || code === 0) return { kind: "open" };
  const lost = /^No saved session found.*/m.exec(stderr)?.[0];
  if (lost !== undefined) return failure("session_lost", lost);
  const login = /^.*(?:No auth type|auth method|API[_ ]?KEY).*/im.exec(stderr)?.[0];
  return login === undefined ? { kind: "open" } : failure("auth", login);
}

const { failure, denied } = createFailures({
  name: "qwen",
  title: "Qwen Code",
  hints: {
    auth: "Set OPENAI_API_KEY (with OPENAI_BASE_URL and OPENAI_MODEL), or run `qwen` once by hand and log in.",
    billing: "Pay the provider, or use another key.",
    missing: "Choose a model that the provider has: qwen:MODEL, or qwen for its default.",
    permission_denied: "Run with --yolo, or allow the tool in ~/.qwen/settings.json.",
  },
});

/** The requests of one call, or of all, according to a session's file. */
interface QwenRecord {
  /** Tokens of each answer, including side calls, by the id of the line. */
  readonly answers: ReadonlyMap<string, TokenCount>;
  /** The last rejected request; null if an answer followed it. */
  readonly refused: QwenApiError | null;
}

export interface QwenApiError {
  readonly status: number | null;
  readonly message: string;
}

/** `before` is the content of the file when the call began. A session's file is append-only. */
export function parseRequestRecord(text: string, before = ""): QwenRecord {
  const answers = new Map<string, TokenCount>();
  let refused: QwenApiError | null = null;
  for (const line of (text.startsWith(before) ? text.slice(before.length) : text).split("\n")) {
    if (!line.includes('"ui_telemetry"')) continue;
    const entry = parseJsonRecord(line);
    const event = asRecord(asRecord(entry["systemPayload"])["uiEvent"]);
    const name = asText(event["event.name"]);
    // Side requests name a subagent. They are tried once, and the call does not wait for them.
    const isMain = asText(event["subagent_name"]) === "";
    const tokens = name.endsWith(".api_response") ? tokensOf(event) : null;
    if (tokens !== null) answers.set(asText(entry["uuid"]), tokens);
    if (tokens !== null && isMain) refused = null;
    if (name.endsWith(".api_error") && isMain)
      refused = { status: asNumber(event["status_code"]), message: asText(event["error_message"]) };
  }
  return { answers, refused };
}

function tokensOf(event: JsonRecord): TokenCount | null {
  const { input_token_count: input, total_token_count: total, cached_content_token_count: cached } = event;
  return countTokens(input, total, cached);
}

/** Reasoning is counted separately from answers or not at all. The total contains both. */
function countTokens(input: unknown, total: unknown, cached: unknown): TokenCount | null {
  if (typeof input !== "number" || typeof total !== "number" || total < input) return null;
  return { input: asCount(input), output: total - input, cached: asCount(cached) };
}
