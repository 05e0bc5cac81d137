// The CLI adapter for GitHub Copilot CLI: arguments, output lines, usage, failures and session files.

import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Agent, AgentSessions, AgentTask, AgentUsage, FailureCause } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asRecords, asText } from "@holdfast/core/json";
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
  writeSessionFile,
} from "./session-files.ts";

/** Copilot CLI's record of a session: one file. */
const copilotSessions: AgentSessions = {
  async read({ session }) {
    const text = readSessionFile({ path: transcriptPath({ session, env: process.env }), title: "Copilot CLI" });
    return text === null ? null : { text, lastMessage: null };
  },
  async write({ session, text }) {
    writeSessionFile({ path: transcriptPath({ session, env: process.env }), text });
  },
  // Copilot CLI writes the tokens some time after the answer. No record therefore means unknown, not zero.
  tokensIn(text) {
    const answers = [...tokensByEvent(text).values()];
    if (answers.length === 0) return null;
    return {
      input: answers.reduce((sum, answer) => sum + answer.input, 0),
      output: answers.reduce((sum, answer) => sum + answer.output, 0),
    };
  },
  answerIn: (text, prompt) => findCompletedTurn(text, prompt, readTurnLine),
};

function readTurnLine(line: JsonRecord): TurnRecord | null {
  const type = asText(line["type"]);
  const data = asRecord(line["data"]);
  if (type === "user.message") return { kind: "prompt", text: asText(data["content"]) };
  // A turn end follows every message, even within a turn with tools. The last message is one without a tool request.
  if (type === "assistant.turn_end" || !/^(?:assistant|tool)\./.test(type)) return null;
  const isLast = type === "assistant.message" && asRecords(data["toolRequests"]).length === 0;
  return isLast ? { kind: "answer", text: asText(data["content"]) } : { kind: "open" };
}

/** `copilot:MODEL`: GitHub Copilot CLI. */
export function createCopilotAgent(params: CliAgentParams): Agent {
  return createCliAgent(COPILOT, params);
}

interface Call {
  readonly read: CopilotState;
  /** Ids of the usage records in the session when the call began. */
  readonly before: ReadonlySet<string>;
}

const INSTALL = "Install it: npm install -g @github/copilot, then run `copilot login`.";

const COPILOT: CliAdapter<Call> = {
  name: "copilot",
  title: "Copilot CLI",
  program: "copilot",
  install: INSTALL,
  capabilities: {
    resume: true,
    forkAtMessage: false,
    chooseSession: true,
    usage: true,
    cost: false,
    structuredOutput: false,
  },
  sessions: copilotSessions,
  // Copilot CLI prints nothing while a command runs.
  idleMs: 15 * 60_000,
  native: (path) => [nativeBinary(path)],
  isTaken: (session, { env }) => existsSync(transcriptPath({ session, env })),
  plan(call) {
    const { task, session } = call;
    if (session === null) throw new TypeError("Copilot CLI's session is chosen before it starts");
    const text = recordOf(call);
    if (task.session !== null && text === null) return lost(task.session);
    return {
      kind: "start",
      args: copilotArgs({ task, session, extra: call.extra }),
      input: task.prompt,
      env: {},
      state: { read: INITIAL_COPILOT_STATE, before: new Set(tokensByEvent(text ?? "").keys()) },
    };
  },
  read(state, line) {
    const step = readCopilotLine(state.read, line);
    return { ...step, state: { ...state, read: step.state } };
  },
  end: ({ read }, exit, { task }) => classifyCopilot({ state: read, exit, resumes: task.session !== null }),
  usage: usageOf,
  probe: (run) => probeVersion(run, { program: "copilot", install: INSTALL }),
};

/** The output contains no tokens. The session record contains them for each answer, even of a killed call. */
function usageOf({ before }: Call, call: CliCall): AgentUsage {
  const own = [...tokensByEvent(recordOf(call) ?? "")].filter(([id]) => !before.has(id)).map(([, spent]) => spent);
  if (own.length === 0) return UNKNOWN_USAGE;
  const sum = (of: "input" | "output") => own.reduce((total, spent) => total + spent[of], 0);
  return unpricedUsage({ input: sum("input"), output: sum("output") });
}

function recordOf({ session, env }: CliCall): string | null {
  return readAgentFile(transcriptPath({ session: session ?? "", env }))?.toString("utf8") ?? null;
}

function lost(session: string) {
  return sessionNotFound(`Copilot CLI has nothing of session ${session}`);
}

/** The arguments of Copilot CLI. Without a prompt argument it reads standard input, which may have any length. */
export function copilotArgs(params: {
  readonly task: Pick<AgentTask, "model" | "yolo" | "session">;
  /** The session id of the call: `task.session`, or a new one. */
  readonly session: string;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, session, extra } = params;
  const ours = [task.yolo ? "--yolo" : "--allow-tool=write"];
  return [
    "--output-format=json",
    "--no-auto-update",
    ...permissionArgs({ ours, extra, words: ["--yolo", "--allow-all", "--allow-all-tools"] }),
    ...(task.model === null ? [] : [`--model=${task.model}`]),
    `${task.session === null ? "--session-id" : "--resume"}=${session}`,
  ];
}

/** State after the output lines of one call so far. */
export interface CopilotState {
  /** The text of the last message. */
  readonly text: string;
  /** The exit code in its final event; null if that event was not received. */
  readonly exitCode: number | null;
  /** The error with which it failed. */
  readonly error: CopilotError | null;
  /** The last rejected request; null again after the next answer. */
  readonly refused: CopilotError | null;
  readonly hasActed: boolean;
  /** Names of the called tools by call id. */
  readonly calls: ReadonlyMap<string, string>;
  /** Names of tools that were denied. */
  readonly denied: ReadonlySet<string>;
}

interface CopilotError {
  readonly type: string;
  readonly message: string;
  readonly status: number | null;
}

export const INITIAL_COPILOT_STATE: CopilotState = {
  text: "",
  exitCode: null,
  error: null,
  refused: null,
  hasActed: false,
  calls: new Map(),
  denied: new Set(),
};

export function readCopilotLine(state: CopilotState, line: string): ParsedLine<CopilotState> {
  const event = parseJsonRecord(line);
  const step = readEvent(state, event, asRecord(event["data"]));
  // Between a rejection and the next answer, Copilot CLI only reports that it retries.
  return step.state.refused === null || step.state.exitCode !== null ? step : { ...step, waiting: true };
}

function readEvent(state: CopilotState, event: JsonRecord, data: JsonRecord): ParsedLine<CopilotState> {
  switch (event["type"]) {
    case "assistant.message": {
      const text = asText(data["content"]);
      if (text === "") return { state: { ...state, refused: null }, events: [] };
      return { state: { ...state, text, hasActed: true, refused: null }, events: [{ kind: "text", text }] };
    }
    case "assistant.message_start":
      return { state: { ...state, refused: null }, events: [] };
    case "tool.execution_start": {
      const name = asText(data["toolName"]);
      const calls = new Map([...state.calls, [asText(data["toolCallId"]), name]]);
      const tool = { kind: "tool", name, detail: detailOf(data["arguments"]) } as const;
      return { state: { ...state, calls, hasActed: true }, events: [tool] };
    }
    case "tool.execution_complete":
      return { state: readResult(state, data), events: [] };
    case "model.call_failure": {
      const refused = { type: "", message: asText(data["errorMessage"]), status: numberOf(data["statusCode"]) };
      return { state: { ...state, refused }, events: [] };
    }
    case "session.error":
      return { state: { ...state, error: errorOf(data) }, events: [] };
    case "result": {
      const id = asText(event["sessionId"]);
      const exitCode = numberOf(event["exitCode"]) ?? 1;
      return { state: { ...state, exitCode }, events: id === "" ? [] : [{ kind: "session", id }] };
    }
    default:
      return { state, events: [] };
  }
}

function readResult(state: CopilotState, data: JsonRecord): CopilotState {
  if (asRecord(data["error"])["code"] !== "denied") return state;
  const name = state.calls.get(asText(data["toolCallId"])) ?? "a tool";
  return { ...state, denied: new Set([...state.denied, name]) };
}

function errorOf(data: JsonRecord): CopilotError {
  return { type: asText(data["errorType"]), message: asText(data["message"]), status: numberOf(data["statusCode"]) };
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

/** The part of a tool's input that is worth showing to the user. */
function detailOf(value: unknown): string {
  const input = asRecord(value);
  for (const key of ["command", "path", "pattern", "url", "query", "prompt"]) {
    const text = asText(input[key]);
    if (text !== "") return text;
  }
  return "";
}

export function classifyCopilot(params: {
  readonly state: CopilotState;
  readonly exit: Pick<AgentExit, "kind" | "code" | "stderr">;
  readonly resumes: boolean;
}): CliResult {
  const { state, exit, resumes } = params;
  const isFirst = resumes && !state.hasActed;
  if (state.error !== null) return { kind: "failed", ...failureOf(state.error, state.refused, isFirst) };
  if (state.exitCode === null) return withoutResult(state, exit, isFirst);
  if (state.denied.size > 0)
    return { kind: "failed", ...failure("permission_denied", `not allowed to use ${[...state.denied].join(", ")}`) };
  // Copilot CLI prints this text instead of an answer and reports no failure.
  if (state.exitCode === 0 && /^The model returned no content because .*blocked by content filtering/.test(state.text))
    return { kind: "failed", ...failure("refusal", state.text) };
  if (state.exitCode === 0) return { kind: "completed", text: state.text };
  return { kind: "failed", ...failure("crash", `its result is ${state.exitCode}`) };
}

/** Copilot CLI reports errors before the start only as text. */
function withoutResult(
  { refused }: CopilotState,
  { kind, code, stderr }: Pick<AgentExit, "kind" | "code" | "stderr">,
  isFirst: boolean,
): CliResult {
  if (refused !== null) return { kind: "waiting", ...failureOf(refused, null, isFirst) };
  if (kind !== "exited" || code === 0) return { kind: "open" };
  const [, words = ""] = /^(?:Error: )?(.+)/m.exec(stderr) ?? [];
  if (/No session, task, or name matched/.test(stderr)) return { kind: "failed", ...failure("session_lost", words) };
  if (/No authentication information|not (?:logged in|authenticated)/i.test(stderr))
    return { kind: "failed", ...failure("auth", words) };
  return /model .*(?:not available|not found)/i.test(stderr)
    ? { kind: "failed", ...failure("missing", words) }
    : { kind: "open" };
}

function failureOf(error: CopilotError, refused: CopilotError | null, isFirst: boolean): CliFailure {
  const words = `${error.message} ${refused?.message ?? ""}`;
  const status = error.status ?? refused?.status ?? null;
  const cause =
    causeOfResponse(words) ??
    CAUSES[error.type] ??
    causeOfMessage(words) ??
    causeOfStatus(status) ??
    (status === 400 && isFirst ? "session_lost" : "crash");
  return failure(cause, error.message || "failed without a word");
}

const CAUSES: Readonly<Record<string, FailureCause>> = {
  authentication: "auth",
  authorization: "auth",
  quota: "billing",
  rate_limit: "rate_limit",
  context_limit: "context_too_long",
};

function failure(cause: FailureCause, words: string): CliFailure {
  return {
    cause,
    message: `Copilot CLI: ${words.slice(0, 500)}`,
    hint: HINTS[cause] ?? sharedHint(cause, "copilot"),
    until: null,
  };
}

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Run `copilot login`, or set COPILOT_GITHUB_TOKEN.",
  billing: "The plan's requests are used up: wait for the next month, or allow more in the account's settings.",
  missing: "Choose a model that the account may use: copilot:MODEL, or copilot for its default.",
  permission_denied: "Run with --yolo, or allow the tool in Copilot CLI's settings.",
};

/** The tokens of each answer by event id, from a session's file. The input includes cached tokens. */
export function tokensByEvent(text: string): ReadonlyMap<string, { readonly input: number; readonly output: number }> {
  const found = new Map<string, { readonly input: number; readonly output: number }>();
  for (const line of text.split("\n")) {
    if (!line.includes('"session.usage_record"')) continue;
    const event = parseJsonRecord(line);
    const usage = asRecord(asRecord(event["data"])["usage"]);
    const { inputTokens: input, outputTokens: output } = usage;
    if (event["type"] === "session.usage_record" && typeof input === "number" && typeof output === "number")
      found.set(asText(event["id"]), { input, output });
  }
  return found;
}

/** The path where Copilot CLI stores the events of a session, for any worktree. */
export function transcriptPath(params: {
  readonly session: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): string {
  const { session, env } = params;
  const home = env["COPILOT_HOME"] || join(env["HOME"] ?? "/", ".copilot");
  return join(home, "session-state", session, "events.jsonl");
}

/**
 * The Copilot binary behind the loader that npm installs. The loader is a second process, and if it is killed, Copilot
 * CLI continues alone. A path that is not this loader is returned unchanged.
 */
function nativeBinary(found: string): string {
  try {
    const script = realpathSync(found);
    return script.endsWith(".js") ? (besideLoader(script) ?? found) : found;
  } catch {
    return found;
  }
}

/** Tries glibc first and musl second, in the order of the loader on a glibc system. */
function besideLoader(script: string): string | null {
  const kinds = process.platform === "linux" ? ["linux", "linuxmusl"] : [process.platform];
  for (const kind of kinds) {
    try {
      const main = createRequire(script).resolve(`@github/copilot-${kind}-${process.arch}`);
      const binary = join(dirname(main), process.platform === "win32" ? "copilot.exe" : "copilot");
      if (existsSync(binary)) return binary;
    } catch {
      continue;
    }
  }
  return null;
}
