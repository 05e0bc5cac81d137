// The CLI adapter for Gemini CLI: arguments, output lines, usage, failures and session files.

import { existsSync, renameSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Agent, AgentSessions, FailureCause } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asRecords, asText, sha256, textOf } from "@holdfast/core/json";
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
  unpricedUsage,
  usageSince,
} from "./cli-agent.ts";
import { type CausePatterns, causeOfResponse, causeOfStatus, isoTime, matchCause } from "./failure-cause.ts";
import {
  type Environment,
  type SessionKey,
  asCount,
  asNumber,
  listNames,
  parseJsonRecord,
  readAgentText,
  readSessionFile,
  realPathOf,
  writeSessionFile,
} from "./session-files.ts";

/** `gemini:MODEL`: Gemini CLI. */
export function createGeminiAgent(params: CliAgentParams): Agent {
  /** `before` has the ids of the messages in the session when the call began. */
  const adapter: CliAdapter<GeminiState, ReadonlySet<string>> = {
    name: "gemini",
    title: "Gemini CLI",
    program: "gemini",
    install:
      "Install it: `npm install -g @google/gemini-cli`, then set GEMINI_API_KEY, or run `gemini` once and log in.",
    capabilities: { ...CLI_CAPABILITIES, chooseSession: true, cost: false },
    sessions: geminiSessions,
    initial: INITIAL_GEMINI_STATE,
    // Gemini CLI would start itself a second time with more memory, and killing the first process would leave the
    // second running.
    environment: { GEMINI_CLI_NO_RELAUNCH: "true" },
    findSession: (session, call) => mainFile(locate(session, call)),
    isTaken: (session, call) => findChats(locate(session, call)).length > 0,
    plan(call) {
      const { prompt } = call.task;
      if (Buffer.byteLength(prompt) > MAX_PROMPT_BYTES) return tooLong(prompt);
      removeEmptyChats(locate(call.session, call));
      return { kind: "start", args: geminiArgs(call), before: new Set(answersOf(call).keys()) };
    },
    read: readGeminiLine,
    end: classifyGemini,
    // The result counts this process alone, including side calls. Without a result, the new answers in the session's
    // files are counted.
    usage(state, call, before) {
      const total = state.result?.tokens ?? null;
      return total === null ? usageSince(answersOf(call), before) : unpricedUsage(total);
    },
    // No command reports the login, so the settings are read.
    checkLogin: () =>
      Promise.resolve(hasAccess(process.env) ? null : { problem: "Gemini CLI is not logged in", hint: LOG_IN }),
  };
  return createCliAgent(adapter, params);
}

function answersOf(call: CliCall): ReadonlyMap<string, TokenCount> {
  return new Map(findChats(locate(call.session, call)).flatMap(({ answers }) => [...answers]));
}

function locate(session: string, { task, env }: CliCall): TranscriptLocation {
  return locateTranscript({ session, cwd: task.cwd, env });
}

/** The arguments of Gemini CLI. Without a prompt argument it reads standard input, which may have any length. */
export function geminiArgs({ task, session, extra }: CliArgs): readonly string[] {
  const ours = task.yolo ? ["--yolo"] : ["--approval-mode", "auto_edit"];
  return [
    "--output-format",
    "stream-json",
    // The worktree is ours; whether it is trusted was decided when the run started.
    "--skip-trust",
    ...permissionArgs({ ours, extra, words: ["--yolo", "-y", "--approval-mode"] }),
    ...(task.model === null ? [] : ["--model", task.model]),
    task.session === null ? "--session-id" : "--resume",
    session,
  ];
}

/** Gemini CLI's record of a session: the one of its files that contains messages. It cannot fork at a message. */
const geminiSessions: AgentSessions = {
  async read({ session, cwd }) {
    const path = mainFile(locateTranscript({ session, cwd, env: process.env }));
    const text = readSessionFile({ path, title: "Gemini CLI" });
    return text === null ? null : { text, lastMessage: null };
  },
  async write({ session, cwd, text }) {
    const location = locateTranscript({ session, cwd, env: process.env });
    const path =
      mainFile(location) ?? join(folderFor(location), "chats", chatFileName(location, parseChat(text).startTime));
    writeSessionFile({ path, text });
    // Any other file of the session is newer than the restored one.
    for (const chat of findChats(location)) if (chat.path !== path) rmSync(chat.path, { force: true });
  },
  tokensIn: (text) => sumTokens(parseChat(text).answers.values()),
  askedIn: (text, prompt) =>
    text.split("\n").some((line) => {
      const record = parseJsonRecord(line);
      return [record, ...asRecords(asRecord(record["$set"])["messages"])].some(
        ({ type, content }) => type === "user" && textOf(content).includes(prompt.trim()),
      );
    }),
};

function mainFile(location: TranscriptLocation): string | null {
  return findChats(location).find(({ isEmpty }) => !isEmpty)?.path ?? null;
}

/** Gemini CLI finds the project directory by the worktree path inside it, and first in its own list of projects. */
function folderFor({ tmp, cwd }: TranscriptLocation): string {
  const [folder] = projectFolders({ tmp, cwd });
  if (folder !== undefined) return folder;
  const listed = asText(asRecord(parseJsonRecord(readAgentText(join(tmp, "../projects.json")))["projects"])[cwd]);
  const made = join(tmp, listed === "" ? `worktree-${sha256(cwd).slice(0, 12)}` : listed);
  writeSessionFile({ path: join(made, ".project_root"), text: cwd });
  return made;
}

/**
 * Gemini CLI repeats the prompt on its output. Output that is not through the pipe when it exits is lost, including the
 * result.
 */
const MAX_PROMPT_BYTES = 600_000;

function tooLong(prompt: string) {
  const message = `Gemini CLI loses its result after a prompt of ${Buffer.byteLength(prompt)} bytes; the limit is ${MAX_PROMPT_BYTES}`;
  return { kind: "refused", cause: "context_too_long", message, hint: null, until: null } as const;
}

/** State after the output lines of one call so far. */
export interface GeminiState {
  /** The text since the last tool call. */
  readonly text: string;
  readonly result: GeminiResult | null;
  /** The last error event, because a failed result may contain no message. */
  readonly trouble: string;
  readonly hasActed: boolean;
  /** Names of the called tools by call id, until their result arrives. */
  readonly calls: ReadonlyMap<string, string>;
  /** Names of tools that were denied. */
  readonly denied: ReadonlySet<string>;
}

interface GeminiResult {
  readonly isError: boolean;
  readonly message: string;
  readonly tokens: TokenCount | null;
}

export const INITIAL_GEMINI_STATE: GeminiState = {
  text: "",
  result: null,
  trouble: "",
  hasActed: false,
  calls: new Map(),
  denied: new Set(),
};

export function readGeminiLine(state: GeminiState, line: string): ParsedLine<GeminiState> {
  const event = parseJsonRecord(line);
  switch (event["type"]) {
    case "init": {
      const id = asText(event["session_id"]);
      return { state, events: id === "" ? [] : [{ kind: "session", id }] };
    }
    case "message":
      return event["role"] === "assistant" ? readMessage(state, event) : { state, events: [] };
    case "tool_use":
      return readCall(state, event);
    case "tool_result":
      // The session's file has the response that called the tool.
      return { state: readAnswer(state, event), events: [], response: "more" };
    case "error":
      return { state: { ...state, trouble: asText(event["message"]) }, events: [] };
    case "result":
      return { state: { ...state, result: resultOf(event, state.trouble) }, events: [] };
    default:
      return { state, events: [] };
  }
}

function readMessage(state: GeminiState, event: JsonRecord): ParsedLine<GeminiState> {
  const text = asText(event["content"]);
  if (text === "") return { state, events: [] };
  const whole = event["delta"] === true ? `${state.text}${text}` : text;
  return { state: { ...state, text: whole, hasActed: true }, events: [{ kind: "text", text }] };
}

function readCall(state: GeminiState, event: JsonRecord): ParsedLine<GeminiState> {
  const name = asText(event["tool_name"]);
  const calls = new Map([...state.calls, [asText(event["tool_id"]), name]]);
  return {
    state: { ...state, text: "", hasActed: true, calls },
    events: [{ kind: "tool", name, detail: toolDetail(event["parameters"], DETAILS) }],
  };
}

const DETAILS = ["command", "file_path", "dir_path", "pattern", "query", "url", "prompt"];

function readAnswer(state: GeminiState, event: JsonRecord): GeminiState {
  const id = asText(event["tool_id"]);
  const name = state.calls.get(id) ?? "a tool";
  const calls = new Map([...state.calls].filter(([key]) => key !== id));
  if (!isDenied(name, asText(asRecord(event["error"])["type"]))) return { ...state, calls };
  return { ...state, calls, denied: new Set([...state.denied, name]) };
}

/** A denied shell is not offered to the model at all. A call to it then fails as an unregistered tool. */
function isDenied(name: string, error: string): boolean {
  return error === "policy_violation" || (error === "tool_not_registered" && name === "run_shell_command");
}

function resultOf(event: JsonRecord, trouble: string): GeminiResult {
  return {
    isError: event["status"] !== "success",
    message: asText(asRecord(event["error"])["message"]) || trouble,
    tokens: tokensOf(event["stats"]),
  };
}

/** Classifies the result by the provider's answer in the message, or else by the status in the exit code. */
export function classifyGemini(params: CliEnd<GeminiState>): CliResult {
  const { state, exit } = params;
  const { result } = state;
  if (result === null) return classifyNoResult(exit, params.resumes);
  if (!result.isError) return state.denied.size === 0 ? { kind: "completed", text: state.text } : denied(state.denied);
  const { cause, until } = causeOf(result, params);
  return failure(cause, asText(errorOf(result.message)["message"]) || inBrackets(result.message), until);
}

/** Gemini CLI has special exit codes for errors before the start. */
function classifyNoResult({ kind, code, stderr }: CliEnd<GeminiState>["exit"], resumes: boolean): CliResult {
  if (kind !== "exited") return { kind: "open" };
  const cause =
    code === 41 ? "auth" : code === 42 && resumes && /resuming session/i.test(stderr) ? "session_lost" : null;
  if (cause === null) return { kind: "open" };
  const lines = stderr.split("\n");
  const errors = lines.filter((line) => line.trim() !== "" && !/^(?:YOLO mode|Warning:|Ripgrep)/.test(line));
  return failure(cause, errors.slice(-3).join(" "));
}

function causeOf(
  { message }: GeminiResult,
  { state, exit, resumes, now }: CliEnd<GeminiState>,
): { readonly cause: FailureCause; readonly until: string | null } {
  const error = errorOf(message);
  const code = error["code"];
  const status = typeof code === "number" ? code : statusOf(exit.code);
  const reasons = asRecords(error["details"]).map((detail) => asText(detail["reason"]));
  const cause =
    causeOfResponse(message) ??
    (reasons.includes("API_KEY_INVALID") ? "auth" : matchCause(PATTERNS, message)) ??
    causeOfStatus(status) ??
    // This is the first request of a resumed session. If the provider rejects it, the history is invalid.
    (status === 400 && resumes && !state.hasActed ? "session_lost" : "crash");
  return { cause, until: isoTime(status === 429 ? resetTime(message, now) : null) };
}

const PATTERNS: CausePatterns = [
  [/API key (?:not valid|expired)/i, "auth"],
  [/exceeds the maximum number of tokens|context window will overflow/i, "context_too_long"],
  [/billing (?:to be|is not) enabled|credits are depleted/i, "billing"],
  [/models?\/?\S* is not found|model .*not found/i, "missing"],
  // A stream that ends in the middle of a line, or a response that is not a stream at all.
  [/Incomplete JSON segment|\bterminated\b|fetch failed|socket|ECONN|ENOTFOUND|ETIMEDOUT|network/i, "network"],
];

/** Gemini CLI exits with the HTTP status of the failed request, of which an exit code keeps the last eight bits. */
function statusOf(code: number | null): number | null {
  return STATUSES.find((status) => status % 256 === code) ?? null;
}

const STATUSES = [400, 401, 402, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529];

const LOG_IN = "Set GEMINI_API_KEY, or run `gemini` once by hand and log in.";

const { failure, denied } = createFailures({
  name: "gemini",
  title: "Gemini CLI",
  hints: {
    auth: LOG_IN,
    billing: "Enable billing for the Google project, or use another key.",
    missing: "Choose a model that the account may use: gemini:MODEL, or gemini for its default.",
    permission_denied: "Run with --yolo, or allow the tool in ~/.gemini/settings.json.",
  },
});

/** Parses `[API Error: …]`, which contains the provider's answer or plain text. */
function errorOf(message: string): JsonRecord {
  try {
    return asRecord(asRecord(JSON.parse(inBrackets(message)))["error"]);
  } catch {
    return {};
  }
}

function inBrackets(message: string): string {
  return /^\[API Error: (.*?)\](?:\n|$)/s.exec(message)?.[1] ?? message;
}

/**
 * The time when a quota resets, in milliseconds since the epoch. It is parsed from the text of a rejection, because
 * Gemini CLI passes on no field.
 */
export function resetTime(message: string, now: number): number | null {
  const span = /(?:retry (?:after|in)|reset after) ((?:[\d.]+(?:ms|[dhms]))+)/i.exec(message)?.[1];
  if (span !== undefined) return now + spanOf(span);
  return /daily quota/i.test(message) ? nextMidnight(now) : null;
}

function spanOf(text: string): number {
  const spans = [...text.matchAll(/([\d.]+)(ms|[dhms])/g)];
  return spans.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ""] ?? 0), 0);
}

const HOUR = 3_600_000;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: HOUR, d: 24 * HOUR };

/**
 * Midnight in the time zone in which Google counts days, with daylight saving. If the clocks change that night, the
 * first guess is an hour off and is corrected.
 */
function nextMidnight(now: number): number {
  const clock = new Intl.DateTimeFormat("en-US", { timeZone: ZONE, hourCycle: "h23", timeStyle: "medium" });
  const passed = (at: number) => {
    const [hours = 0, minutes = 0, seconds = 0] = clock.format(at).split(":").map(Number);
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + (at % 1000);
  };
  const guess = now + 24 * HOUR - passed(now);
  const off = passed(guess);
  return off === 0 ? guess : off < 12 * HOUR ? guess - off : guess + 24 * HOUR - off;
}

const ZONE = "America/Los_Angeles";

/**
 * Parses the `stats` of a result, or the `tokens` of a message in a session's file; null if it is neither. Reasoning is
 * counted separately from answers or not at all. The total contains both.
 */
function tokensOf(value: unknown): TokenCount | null {
  const usage = asRecord(value);
  const input = asNumber(usage["input_tokens"] ?? usage["input"]);
  const total = asNumber(usage["total_tokens"] ?? usage["total"]);
  if (input === null || total === null || input < 0 || total < input) return null;
  return { input, output: total - input, cached: asCount(usage["cached"]) };
}

/** The content of a session's file: lines that add or replace a message by its id, or set fields of the session. */
interface Chat {
  readonly session: string;
  /** ISO 8601, from the file itself. */
  readonly startTime: string;
  /** Tokens of each answer by message id. */
  readonly answers: ReadonlyMap<string, TokenCount>;
  /** True if the file contains no message of the user or the model: it cannot be resumed. */
  readonly isEmpty: boolean;
}

export function parseChat(text: string): Chat {
  let session = "";
  let startTime = "";
  let isEmpty = true;
  const answers = new Map<string, TokenCount>();
  for (const line of text.split("\n")) {
    // The last line of a killed call may be incomplete.
    const record = parseJsonRecord(line);
    const set = asRecord(record["$set"]);
    session ||= asText(record["sessionId"]);
    startTime ||= asText(record["startTime"]);
    for (const message of [record, ...asRecords(set["messages"])]) {
      if (isMessage(message)) isEmpty = false;
      const tokens = message["type"] === "gemini" ? tokensOf(message["tokens"]) : null;
      if (tokens !== null) answers.set(asText(message["id"]), tokens);
    }
  }
  return { session, startTime, answers, isEmpty };
}

/** The first message is generated by Gemini CLI and describes its environment. */
function isMessage({ type, content }: JsonRecord): boolean {
  if (type === "gemini") return true;
  return type === "user" && !textOf(content).trimStart().startsWith("<session_context>");
}

interface ChatFile extends Chat {
  readonly path: string;
}

/** The files of one session, ordered by name and therefore by the minute in which they were created. */
export function findChats(location: TranscriptLocation): readonly ChatFile[] {
  return chatsIn(location, location.ending).filter(({ session }) => session === location.session);
}

/**
 * A session resumed in a later minute gets a second file without messages. Gemini CLI treats that file as corrupt. When
 * another session starts in the same place, it removes that file and every other file of the same session. Therefore we
 * remove files without messages first.
 */
function removeEmptyChats(location: TranscriptLocation): void {
  const chats = chatsIn(location, ".jsonl");
  for (const { path, session, isEmpty } of chats) {
    const isDouble = chats.some((other) => other.session === session && other.path !== path && !other.isEmpty);
    if (isEmpty && isDouble) rmSync(path, { force: true });
  }
}

function chatsIn(location: TranscriptLocation, ending: string): readonly ChatFile[] {
  return projectFolders(location)
    .flatMap((project) => {
      const folder = join(project, "chats");
      const names = listNames(folder).filter((name) => name.startsWith("session-") && name.endsWith(ending));
      return names.toSorted().map((name) => join(folder, name));
    })
    .map((path) => ({ path, ...parseChat(readAgentText(path)) }));
}

/** The project directories that belong to this worktree. */
function projectFolders({ tmp, cwd }: Pick<TranscriptLocation, "tmp" | "cwd">): readonly string[] {
  const roots = new Set([cwd, realPathOf(cwd)]);
  return listNames(tmp)
    .map((project) => join(tmp, project))
    .filter((folder) => roots.has(readAgentText(join(folder, ".project_root")).trim()));
}

/**
 * Where Gemini CLI stores a session that began in `cwd`: `<tmp>/<project>/chats/session-<minute>-<first eight of the
 * id>.jsonl`. Only `<tmp>/<project>/.project_root` maps a project name to a worktree. A session may have several files,
 * one for each minute in which it was resumed.
 */
export function locateTranscript({ session, cwd, env }: SessionKey): TranscriptLocation {
  const home = env["GEMINI_CLI_HOME"] || (env["HOME"] ?? "/");
  return { tmp: join(home, ".gemini", "tmp"), cwd, session, ending: `-${session.slice(0, 8)}.jsonl` };
}

interface TranscriptLocation {
  readonly tmp: string;
  readonly cwd: string;
  readonly session: string;
  readonly ending: string;
}

/** The name of a session file that was created at that time. */
function chatFileName({ ending }: TranscriptLocation, startTime: string): string {
  const minute = startTime.slice(0, "2026-01-01T00:00".length).replaceAll(/[^\dT]/g, "-");
  return `session-${minute === "" ? "1970-01-01T00-00" : minute}${ending}`;
}

function hasAccess(env: Environment): boolean {
  const given = ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"];
  if (given.some((name) => (env[name] ?? "") !== "")) return true;
  const home = env["GEMINI_CLI_HOME"] || (env["HOME"] ?? "/");
  const settings = parseJsonRecord(readAgentText(join(home, ".gemini", "settings.json")));
  const chosen = asText(asRecord(asRecord(settings["security"])["auth"])["selectedType"]);
  // A key may also be in a .env file or in the keyring. Only a login with Google has its own file.
  return chosen === "oauth-personal" ? readAgentText(join(home, ".gemini", "oauth_creds.json")) !== "" : chosen !== "";
}

/**
 * Gemini CLI names a session file after the minute. If a session is loaded in the minute it was created, Gemini CLI
 * opens the same file again, empty, and the session is lost. Therefore a file of this minute is renamed to an earlier
 * one first; Gemini CLI finds it by its content. An empty duplicate of another session would destroy that session too
 * (see removeEmptyChats).
 */
export function protectGeminiSession(session: string | null, { task, env }: Pick<CliCall, "task" | "env">): void {
  const location = locateTranscript({ session: session ?? "", cwd: task.cwd, env });
  removeEmptyChats(location);
  if (session === null) return;
  for (const { path } of findChats(location)) {
    const older = join(dirname(path), basename(path).replace(MINUTE, EARLIEST));
    if (older !== path && !existsSync(older)) renameSync(path, older);
  }
}

const MINUTE = /^session-\d{4}-\d\d-\d\dT\d\d-\d\d/;
const EARLIEST = "session-2000-01-01T00-00";
