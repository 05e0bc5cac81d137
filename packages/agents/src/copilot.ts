// The CLI adapter for GitHub Copilot CLI: arguments, output lines, usage, failures and session files.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Agent, FailureCause } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asRecords, asText } from "@holdfast/core/json";
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
import { causeOfProvider, causeOfResponse } from "./failure-cause.ts";
import {
  type Environment,
  type TurnRecord,
  asCount,
  asNumber,
  createFileSessions,
  existing,
  parseJsonRecord,
  readAgentText,
} from "./session-files.ts";

/** `copilot:MODEL`: GitHub Copilot CLI. */
export function createCopilotAgent(params: CliAgentParams): Agent {
  /** `before` has the ids of the usage records in the session when the call began. */
  const adapter: CliAdapter<CopilotState, ReadonlySet<string>> = {
    name: "copilot",
    title: "Copilot CLI",
    program: "copilot",
    install: "Install it: `npm install -g @github/copilot`, then run `copilot login`.",
    capabilities: { ...CLI_CAPABILITIES, chooseSession: true, cost: false },
    sessions: copilotSessions,
    initial: INITIAL_COPILOT_STATE,
    native: (path) => unwrapLauncher(path, nativeBinary),
    findSession: (session, { env }) => existing(transcriptPath({ session, env })),
    plan: (call) => ({ kind: "start", args: copilotArgs(call), before: new Set(answersOf(call).keys()) }),
    read: readCopilotLine,
    end: classifyCopilot,
    // The output contains no tokens. The session record contains them for each answer, even of a killed call.
    usage: (_, call, before) => usageSince(answersOf(call), before),
  };
  return createCliAgent(adapter, params);
}

function answersOf(call: CliCall): ReadonlyMap<string, TokenCount> {
  return tokensByEvent(readAgentText(transcriptPath(call)));
}

/** Copilot CLI's record of a session: one file. */
const copilotSessions = createFileSessions({
  title: "Copilot CLI",
  find: transcriptPath,
  create: transcriptPath,
  // Copilot CLI writes the tokens some time after the answer. No record therefore means unknown, not zero.
  tokensIn(text) {
    const answers = tokensByEvent(text);
    return answers.size === 0 ? null : sumTokens(answers.values());
  },
  readTurn: readTurnLine,
});

function readTurnLine(line: JsonRecord): TurnRecord | null {
  const type = asText(line["type"]);
  const data = asRecord(line["data"]);
  if (type === "user.message") return { kind: "prompt", text: asText(data["content"]) };
  // A turn end follows every message, even within a turn with tools. The last message is one without a tool request.
  if (type === "assistant.turn_end" || !/^(?:assistant|tool)\./.test(type)) return null;
  const isLast = type === "assistant.message" && asRecords(data["toolRequests"]).length === 0;
  return isLast ? { kind: "answer", text: asText(data["content"]) } : { kind: "open" };
}

/** The arguments of Copilot CLI. Without a prompt argument it reads standard input, which may have any length. */
export function copilotArgs({ task, session, extra }: CliArgs): readonly string[] {
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
      const tool = { kind: "tool", name, detail: toolDetail(data["arguments"], DETAILS) } as const;
      return { state: { ...state, calls, hasActed: true }, events: [tool] };
    }
    case "tool.execution_complete":
      return { state: readResult(state, data), events: [], response: "more" };
    // Copilot CLI writes the tokens of an answer to the session's file a moment after it has printed the answer.
    case "model.call_start":
      return { state, events: [], response: "more" };
    case "model.call_failure": {
      const refused = { type: "", message: asText(data["errorMessage"]), status: asNumber(data["statusCode"]) };
      return { state: { ...state, refused }, events: [] };
    }
    case "session.error":
      return { state: { ...state, error: errorOf(data) }, events: [] };
    case "result": {
      const id = asText(event["sessionId"]);
      const exitCode = asNumber(event["exitCode"]) ?? 1;
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
  return { type: asText(data["errorType"]), message: asText(data["message"]), status: asNumber(data["statusCode"]) };
}

const DETAILS = ["command", "path", "pattern", "url", "query", "prompt"];

export function classifyCopilot({ state, exit, resumes }: Omit<CliEnd<CopilotState>, "now">): CliResult {
  const isFirst = resumes && !state.hasActed;
  if (state.error !== null) return failureOf(state.error, state.refused, isFirst);
  if (state.exitCode === null) return classifyNoResult(state, exit, isFirst);
  if (state.denied.size > 0) return denied(state.denied);
  // Copilot CLI prints this text instead of an answer and reports no failure.
  if (state.exitCode === 0 && /^The model returned no content because .*blocked by content filtering/.test(state.text))
    return failure("refusal", state.text);
  if (state.exitCode === 0) return { kind: "completed", text: state.text };
  return failure("crash", `its result is ${state.exitCode}`);
}

/** Copilot CLI reports errors before the start only as text. */
function classifyNoResult(
  { refused }: CopilotState,
  { kind, code, stderr }: CliEnd<CopilotState>["exit"],
  isFirst: boolean,
): CliResult {
  if (refused !== null) return { ...failureOf(refused, null, isFirst), kind: "waiting" };
  if (kind !== "exited" || code === 0) return { kind: "open" };
  const [, message = ""] = /^(?:Error: )?(.+)/m.exec(stderr) ?? [];
  if (/No session, task, or name matched/.test(stderr)) return failure("session_lost", message);
  if (/No authentication information|not (?:logged in|authenticated)/i.test(stderr)) return failure("auth", message);
  return /model .*(?:not available|not found)/i.test(stderr) ? failure("missing", message) : { kind: "open" };
}

function failureOf(error: CopilotError, refused: CopilotError | null, isFirst: boolean) {
  const message = `${error.message} ${refused?.message ?? ""}`;
  const status = error.status ?? refused?.status ?? null;
  const cause = causeOfResponse(message) ?? CAUSES[error.type] ?? causeOfProvider({ message, status, isFirst });
  return failure(cause, error.message);
}

const CAUSES: Readonly<Record<string, FailureCause>> = {
  authentication: "auth",
  authorization: "auth",
  quota: "billing",
  rate_limit: "rate_limit",
  context_limit: "context_too_long",
};

const { failure, denied } = createFailures({
  name: "copilot",
  title: "Copilot CLI",
  hints: {
    auth: "Run `copilot login`, or set COPILOT_GITHUB_TOKEN.",
    billing: "The plan's requests are used up: wait for the next month, or allow more in the account's settings.",
    missing: "Choose a model that the account may use: copilot:MODEL, or copilot for its default.",
    permission_denied: "Run with --yolo, or allow the tool in Copilot CLI's settings.",
  },
});

/** The tokens of each answer by event id, from a session's file. The input includes cached tokens. */
export function tokensByEvent(text: string): ReadonlyMap<string, TokenCount> {
  const found = new Map<string, TokenCount>();
  for (const line of text.split("\n")) {
    if (!line.includes('"session.usage_record"')) continue;
    const event = parseJsonRecord(line);
    const usage = asRecord(asRecord(event["data"])["usage"]);
    const { inputTokens: input, outputTokens: output } = usage;
    if (event["type"] === "session.usage_record" && typeof input === "number" && typeof output === "number")
      found.set(asText(event["id"]), { input: asCount(input), output: asCount(output) });
  }
  return found;
}

/** The path where Copilot CLI stores the events of a session, for any worktree. */
export function transcriptPath({ session, env }: { readonly session: string; readonly env: Environment }): string {
  const home = env["COPILOT_HOME"] || join(env["HOME"] ?? "/", ".copilot");
  return join(home, "session-state", session, "events.jsonl");
}

/** The binary behind npm's launcher. Tries glibc first and musl second, like the launcher on a glibc system. */
function nativeBinary(script: string): readonly [string] | null {
  if (!script.endsWith(".js")) return null;
  const kinds = process.platform === "linux" ? ["linux", "linuxmusl"] : [process.platform];
  for (const kind of kinds) {
    try {
      const main = createRequire(script).resolve(`@github/copilot-${kind}-${process.arch}`);
      const binary = join(dirname(main), process.platform === "win32" ? "copilot.exe" : "copilot");
      if (existsSync(binary)) return [binary];
    } catch {
      continue;
    }
  }
  return null;
}
