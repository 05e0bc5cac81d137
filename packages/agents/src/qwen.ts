// The CLI adapter for Qwen Code: arguments, output lines, usage, failures and session files.

import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Agent, AgentEvent, AgentSessions, AgentTask, AgentUsage, FailureCause } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asRecords, asText, isRecord, textOf } from "@holdfast/core/json";
import type { AgentExit } from "./agent-process.ts";
import {
  type CliAdapter,
  type CliAgentParams,
  type CliCall,
  type CliFailure,
  type CliResult,
  type ParsedLine,
  createCliAgent,
  permissionArgs,
  probeVersion,
  sessionNotFound,
  unpricedUsage,
} from "./cli-agent.ts";
import { UNKNOWN_USAGE, causeOfMessage, causeOfResponse, causeOfStatus, sharedHint } from "./failure-cause.ts";
import {
  type TurnRecord,
  findCompletedTurn,
  parseJsonRecord,
  readAgentFile,
  readSessionFile,
  realPathOf,
  writeSessionFile,
} from "./session-files.ts";

/** The arguments of Qwen Code. Without a prompt argument it reads standard input, which may have any length. */
export function qwenArgs(params: {
  readonly task: Pick<AgentTask, "model" | "yolo" | "session">;
  /** The session id of the call: `task.session`, or a new one. */
  readonly session: string;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, session, extra } = params;
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

/**
 * Qwen Code would start itself a second time with more memory, and killing the first process would leave the second
 * running.
 */
const QWEN_ENV = { QWEN_CODE_NO_RELAUNCH: "true", QWEN_CODE_SUPPRESS_YOLO_WARNING: "1" };

/**
 * The script that npm installs as `qwen` starts Node a second time, and if it is killed, Qwen Code continues alone.
 * Therefore Holdfast starts the inner program directly. A path that is not this script is returned unchanged.
 */
function innerProgram(found: string): readonly [string, ...string[]] {
  try {
    const script = realpathSync(found);
    const inner = join(dirname(script), "cli.js");
    return basename(script) === "cli-entry.js" && existsSync(inner) ? ["node", "--expose-gc", inner] : [found];
  } catch {
    return [found];
  }
}

/** Qwen Code's record of a session: one file. */
const qwenSessions: AgentSessions = {
  async read({ session, cwd }) {
    const text = readSessionFile({ path: sessionFile({ session, cwd, env: process.env }), title: "Qwen Code" });
    return text === null ? null : { text, lastMessage: null };
  },
  async write({ session, cwd, text }) {
    writeSessionFile({ path: sessionFile({ session, cwd, env: process.env }), text });
  },
  tokensIn(text) {
    const { input, output } = sumTokens(parseRequestRecord(text));
    return { input, output };
  },
  answerIn: (text, prompt) => findCompletedTurn(text, prompt, readTurnLine),
};

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

/** The unmasked session file, for counting; null if there is none. */
export function readSessionText(params: Parameters<typeof transcriptPath>[0]): string | null {
  return readAgentFile(sessionFile(params))?.toString("utf8") ?? null;
}

/** Qwen Code identifies worktrees by their real paths. */
export function sessionFile(params: Parameters<typeof transcriptPath>[0]): string {
  return transcriptPath({ ...params, cwd: realPathOf(params.cwd) });
}

/** `qwen:MODEL`: Qwen Code. */
export function createQwenAgent(params: CliAgentParams): Agent {
  return createCliAgent(QWEN, params);
}

interface Call {
  readonly read: QwenState;
  /** The content of the session's file when the call began. */
  readonly before: string;
}

const INSTALL =
  "Install it: npm install -g @qwen-code/qwen-code, then run `qwen` once and log in, or set OPENAI_API_KEY.";

const QWEN: CliAdapter<Call> = {
  name: "qwen",
  title: "Qwen Code",
  program: "qwen",
  install: INSTALL,
  capabilities: {
    resume: true,
    forkAtMessage: false,
    chooseSession: true,
    usage: true,
    cost: false,
    structuredOutput: false,
  },
  sessions: qwenSessions,
  // Qwen Code prints nothing while a command runs and while it retries.
  idleMs: 15 * 60_000,
  environment: QWEN_ENV,
  native: innerProgram,
  sessionIds: "5",
  isTaken: (session, { task, env }) => existsSync(sessionFile({ session, cwd: task.cwd, env })),
  plan(call) {
    const { task, session } = call;
    if (session === null) throw new TypeError("Qwen Code's session is chosen before it starts");
    const text = contentText(call);
    if (task.session !== null && text === null) return lost(task.session);
    const state = { read: INITIAL_QWEN_STATE, before: text ?? "" };
    return { kind: "start", args: qwenArgs({ task, session, extra: call.extra }), input: task.prompt, env: {}, state };
  },
  read(state, line) {
    const step = readQwenLine(state.read, line);
    return { ...step, state: { ...state, read: step.state } };
  },
  end(state, exit, call) {
    const { refused } = ownRecord(state, call);
    return classifyQwen({ state: state.read, refused, exit, resumes: call.task.session !== null });
  },
  usage: usageOf,
  probe: (run) => probeVersion(run, { program: "qwen", install: INSTALL }),
};

/** The result omits the usage of killed calls; the session record contains each answer. */
function usageOf(state: Call, call: CliCall): AgentUsage {
  const own = ownRecord(state, call);
  return own.answers.size === 0 ? UNKNOWN_USAGE : unpricedUsage(sumTokens(own));
}

function ownRecord({ before }: Call, call: CliCall): QwenRecord {
  return parseRequestRecord(contentText(call) ?? "", before);
}

function contentText({ session, task, env }: CliCall): string | null {
  return readSessionText({ session: session ?? "", cwd: task.cwd, env });
}

function lost(session: string) {
  return sessionNotFound(`Qwen Code has nothing of session ${session} for this worktree`);
}

/** State after the output lines of one call so far. */
interface QwenState {
  readonly result: QwenResult | null;
  readonly hasActed: boolean;
}

export interface QwenResult {
  readonly isError: boolean;
  readonly text: string;
  readonly error: string;
  /** Names of tools that were denied. */
  readonly denied: readonly string[];
}

export const INITIAL_QWEN_STATE: QwenState = { result: null, hasActed: false };

export function readQwenLine(state: QwenState, line: string): ParsedLine<QwenState> {
  const event = parseJsonRecord(line);
  const id = asText(event["session_id"]);
  const step = readEvent(state, event);
  return id === "" ? step : { ...step, events: [{ kind: "session", id }, ...step.events] };
}

function readEvent(state: QwenState, event: JsonRecord): ParsedLine<QwenState> {
  switch (event["type"]) {
    case "assistant": {
      const events = eventsOf(asRecord(event["message"])["content"]);
      return { state: { ...state, hasActed: state.hasActed || events.length > 0 }, events };
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
    return [{ kind: "tool", name: asText(part["name"]), detail: detailOf(part["input"]) }];
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

/** The part of a tool's input that is worth showing to the user. */
function detailOf(value: unknown): string {
  const input = asRecord(value);
  for (const key of ["command", "file_path", "path", "pattern", "query", "url", "prompt"]) {
    const text = asText(input[key]);
    if (text !== "") return text;
  }
  return "";
}

export function classifyQwen(params: {
  readonly state: QwenState;
  /** The rejected request according to the session record. */
  readonly refused: QwenApiError | null;
  readonly exit: Pick<AgentExit, "kind" | "code" | "stderr">;
  readonly resumes: boolean;
}): CliResult {
  const { state, refused, exit, resumes } = params;
  const { result } = state;
  const isFirst = resumes && !state.hasActed;
  if (result === null) return withoutResult(refused, exit, isFirst);
  if (result.isError) {
    const words = wordsOf(result.error);
    return { kind: "failed", ...failure(causeOf(words, refused, isFirst), words) };
  }
  const denied = [...new Set(result.denied)];
  if (denied.length === 0) return { kind: "completed", text: result.text };
  return { kind: "failed", ...failure("permission_denied", `not allowed to use ${denied.join(", ")}`) };
}

function causeOf(words: string, refused: QwenApiError | null, isFirst: boolean): FailureCause {
  // The text may start with the status, as in `[API Error: 401 …]`.
  const said = /^(\d{3})\b/.exec(words)?.[1];
  const status = refused?.status ?? (said === undefined ? null : Number(said));
  const all = `${words} ${refused?.message ?? ""}`;
  if (/Context is too large/i.test(all)) return "context_too_long";
  return (
    causeOfResponse(all) ??
    causeOfMessage(all) ??
    causeOfStatus(status) ??
    (status === 400 && isFirst ? "session_lost" : "crash")
  );
}

function wordsOf(error: string): string {
  return /^\[API Error: (.*?)\]?$/s.exec(error)?.[1] ?? (error || "failed without a word");
}

/** Qwen Code retries silently, which only its session record shows. It reports errors before the start only as text. */
function withoutResult(
  refused: QwenApiError | null,
  { kind, code, stderr }: Pick<AgentExit, "kind" | "code" | "stderr">,
  isFirst: boolean,
): CliResult {
  if (refused !== null)
    return { kind: "waiting", ...failure(causeOf(refused.message, refused, isFirst), refused.message) };
  if (kind !== "exited" || code === 0) return { kind: "open" };
  const lost = /^No saved session found.*/m.exec(stderr)?.[0];
  if (lost !== undefined) return { kind: "failed", ...failure("session_lost", lost) };
  const login = /^.*(?:No auth type|auth method|API[_ ]?KEY).*/im.exec(stderr)?.[0];
  return login === undefined ? { kind: "open" } : { kind: "failed", ...failure("auth", login) };
}

function failure(cause: FailureCause, words: string): CliFailure {
  return {
    cause,
    message: `Qwen Code: ${words.slice(0, 500)}`,
    hint: HINTS[cause] ?? sharedHint(cause, "qwen"),
    until: null,
  };
}

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Set OPENAI_API_KEY (with OPENAI_BASE_URL and OPENAI_MODEL), or run `qwen` once by hand and log in.",
  billing: "Pay the provider, or use another key.",
  missing: "Choose a model that the provider has: qwen:MODEL, or qwen for its default.",
  permission_denied: "Run with --yolo, or allow the tool in ~/.qwen/settings.json.",
};

/** The requests of one call, or of all, according to a session's file. */
interface QwenRecord {
  /** Tokens of each answer, including side calls, by the id of the line. */
  readonly answers: ReadonlyMap<string, TokenCount>;
  /** The last rejected request; null if an answer followed it. */
  readonly refused: QwenApiError | null;
}

/** The input includes cached tokens. */
interface TokenCount {
  readonly input: number;
  readonly output: number;
  readonly cached: number;
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
    if (name.endsWith(".api_error") && isMain) refused = refusalOf(event);
  }
  return { answers, refused };
}

/** Reasoning is counted separately from answers or not at all. The total contains both. */
function tokensOf(event: JsonRecord): TokenCount | null {
  const { input_token_count: input, total_token_count: total, cached_content_token_count: cached } = event;
  if (typeof input !== "number" || typeof total !== "number" || total < input) return null;
  return { input, output: total - input, cached: typeof cached === "number" ? cached : 0 };
}

function refusalOf(event: JsonRecord): QwenApiError {
  const status = event["status_code"];
  return { status: typeof status === "number" ? status : null, message: asText(event["error_message"]) };
}

export function sumTokens({ answers }: QwenRecord): TokenCount {
  const sum = (of: keyof TokenCount) => [...answers.values()].reduce((total, tokens) => total + tokens[of], 0);
  return { input: sum("input"), output: sum("output"), cached: sum("cached") };
}

/** Where Qwen Code stores a session that began in `cwd`, which must be a real path. */
export function transcriptPath(params: {
  readonly session: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): string {
  const { session, cwd, env } = params;
  const home = env["QWEN_RUNTIME_DIR"] || env["QWEN_HOME"] || join(env["HOME"] ?? "/", ".qwen");
  return join(home, "projects", cwd.replaceAll(/[^a-zA-Z0-9]/g, "-"), "chats", `${session}.jsonl`);
}
