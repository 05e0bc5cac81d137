// The CLI adapter for Gemini CLI: arguments, output lines, usage, failures and session files.

import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Agent, AgentProbe, AgentSessions, AgentTask, AgentUsage, FailureCause } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asRecords, asText, sha256, textOf } from "@holdfast/core/json";
import type { ProcessResult } from "@holdfast/platform/subprocess";
import type { AgentExit } from "./agent-process.ts";
import {
  type CliAdapter,
  type CliAgentParams,
  type CliCall,
  type CliResult,
  type ParsedLine,
  createCliAgent,
  permissionArgs,
  probeVersion,
  sessionNotFound,
  unpricedUsage,
} from "./cli-agent.ts";
import { UNKNOWN_USAGE, causeOfResponse, sharedHint } from "./failure-cause.ts";
import {
  listNames,
  parseJsonRecord,
  readAgentFile,
  readSessionFile,
  realPathOf,
  writeSessionFile,
} from "./session-files.ts";

/** The arguments of Gemini CLI. Without a prompt argument it reads standard input, which may have any length. */
export function geminiArgs(params: {
  readonly task: Pick<AgentTask, "model" | "yolo" | "session">;
  /** The session id of the call: `task.session`, or a new one. */
  readonly session: string;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, session, extra } = params;
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

/**
 * Gemini CLI would start itself a second time with more memory, and killing the first process would leave the second
 * running.
 */
const GEMINI_ENV = { GEMINI_CLI_NO_RELAUNCH: "true" };

/** Gemini CLI's record of a session: the one of its files that contains messages. It cannot fork at a message. */
export const geminiSessions: AgentSessions = {
  async read({ session, cwd }) {
    const path = mainFile(locateTranscript({ session, cwd, env: process.env }));
    const text = readSessionFile({ path, title: "Gemini CLI" });
    return text === null ? null : { text, lastMessage: null };
  },
  async write({ session, cwd, text }) {
    const place = locateTranscript({ session, cwd, env: process.env });
    const path = mainFile(place) ?? join(folderFor(place), "chats", nameOfLost(place, parseChat(text).startTime));
    writeSessionFile({ path, text });
    // Any other file of the session is newer than the restored one.
    for (const chat of findChats(place)) if (chat.path !== path) rmSync(chat.path, { force: true });
  },
  tokensIn(text) {
    const { input, output } = [...parseChat(text).answers.values()].reduce(add, NO_TOKENS);
    return { input, output };
  },
};

function mainFile(place: TranscriptPlace): string | null {
  return findChats(place).find(({ isHollow }) => !isHollow)?.path ?? null;
}

/** Gemini CLI finds the project directory by the worktree path inside it, and first in its own list of projects. */
function folderFor({ tmp, cwd }: TranscriptPlace): string {
  const [folder] = projectFolders({ tmp, cwd });
  if (folder !== undefined) return folder;
  const listed = asText(asRecord(parseJsonRecord(readText(join(tmp, "../projects.json")))["projects"])[cwd]);
  const made = join(tmp, listed === "" ? `worktree-${sha256(cwd).slice(0, 12)}` : listed);
  writeSessionFile({ path: join(made, ".project_root"), text: cwd });
  return made;
}

/** `gemini:MODEL`: Gemini CLI. */
export function createGeminiAgent(params: CliAgentParams): Agent {
  return createCliAgent(GEMINI, params);
}

interface Call {
  readonly read: GeminiState;
  /** Ids of the messages in the session when the call began. */
  readonly before: ReadonlySet<string>;
}

const INSTALL =
  "Install it: npm install -g @google/gemini-cli, then set GEMINI_API_KEY, or run `gemini` once and log in.";

const GEMINI: CliAdapter<Call> = {
  name: "gemini",
  title: "Gemini CLI",
  program: "gemini",
  install: INSTALL,
  capabilities: {
    resume: true,
    forkAtMessage: false,
    chooseSession: true,
    usage: true,
    cost: false,
    structuredOutput: false,
  },
  sessions: geminiSessions,
  // Gemini CLI prints nothing while the model thinks and while a command runs.
  idleMs: 15 * 60_000,
  environment: GEMINI_ENV,
  isTaken: (session, call) => findChats(placeOf(session, call)).length > 0,
  plan(call) {
    const { task, session } = call;
    if (session === null) throw new TypeError("Gemini CLI's session is chosen before it starts");
    if (Buffer.byteLength(task.prompt) > MAX_PROMPT_BYTES) return tooLong(task.prompt);
    const place = placeOf(session, call);
    removeEmptyChats(place);
    const chats = findChats(place);
    if (task.session !== null && chats.every(({ isHollow }) => isHollow)) return lost(task.session);
    return {
      kind: "start",
      args: geminiArgs({ task, session, extra: call.extra }),
      input: task.prompt,
      env: {},
      state: { read: INITIAL_GEMINI_STATE, before: new Set(chats.flatMap(({ answers }) => [...answers.keys()])) },
    };
  },
  read(state, line) {
    const { state: read, events } = readGeminiLine(state.read, line);
    return { state: { ...state, read }, events };
  },
  end: ({ read }, exit, { task, now }) =>
    classifyGemini({ state: read, exit, resumes: task.session !== null, now: now() }),
  usage: usageOf,
  probe: (run) => probeGemini(run, INSTALL),
};

/**
 * The result counts this process alone, including side calls. Without a result, the new answers in the session's files
 * are counted.
 */
function usageOf({ read, before }: Call, call: CliCall): AgentUsage {
  const told = read.result?.tokens ?? null;
  if (told !== null) return unpricedUsage(told);
  const chats = findChats(placeOf(call.session ?? "", call));
  const answers = new Map(chats.flatMap((chat) => [...chat.answers]));
  const own = [...answers].filter(([id]) => !before.has(id)).map(([, tokens]) => tokens);
  return own.length === 0 ? UNKNOWN_USAGE : unpricedUsage(own.reduce(add, NO_TOKENS));
}

function placeOf(session: string, { task, env }: CliCall): TranscriptPlace {
  return locateTranscript({ session, cwd: task.cwd, env });
}

/**
 * Gemini CLI repeats the prompt on its output. Output that is not through the pipe when it exits is lost, including the
 * result.
 */
const MAX_PROMPT_BYTES = 600_000;

function tooLong(prompt: string) {
  const message = `Gemini CLI loses its result after a prompt of ${Buffer.byteLength(prompt)} bytes; it can take ${MAX_PROMPT_BYTES}`;
  return { kind: "refused", cause: "context_too_long", message, hint: null, until: null } as const;
}

function lost(session: string) {
  return sessionNotFound(`Gemini CLI has nothing of session ${session} for this worktree`);
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
      return event["role"] === "assistant" ? readWords(state, event) : { state, events: [] };
    case "tool_use":
      return readCall(state, event);
    case "tool_result":
      return { state: readAnswer(state, event), events: [] };
    case "error":
      return { state: { ...state, trouble: asText(event["message"]) }, events: [] };
    case "result":
      return { state: { ...state, result: resultOf(event, state.trouble) }, events: [] };
    default:
      return { state, events: [] };
  }
}

function readWords(state: GeminiState, event: JsonRecord): ParsedLine<GeminiState> {
  const text = asText(event["content"]);
  if (text === "") return { state, events: [] };
  const said = event["delta"] === true ? `${state.text}${text}` : text;
  return { state: { ...state, text: said, hasActed: true }, events: [{ kind: "text", text }] };
}

function readCall(state: GeminiState, event: JsonRecord): ParsedLine<GeminiState> {
  const name = asText(event["tool_name"]);
  const calls = new Map([...state.calls, [asText(event["tool_id"]), name]]);
  return {
    state: { ...state, text: "", hasActed: true, calls },
    events: [{ kind: "tool", name, detail: detailOf(event["parameters"]) }],
  };
}

/** The part of a tool's input that is worth showing to the user. */
function detailOf(value: unknown): string {
  const input = asRecord(value);
  for (const key of ["command", "file_path", "dir_path", "pattern", "query", "url", "prompt"]) {
    const text = asText(input[key]);
    if (text !== "") return text;
  }
  return "";
}

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
    tokens: tokensOfStats(event["stats"]),
  };
}

/** Classifies the result by the provider's answer in the message, or else by the status in the exit code. */
export function classifyGemini(params: {
  readonly state: GeminiState;
  readonly exit: Pick<AgentExit, "kind" | "code" | "stderr">;
  readonly resumes: boolean;
  readonly now: number;
}): CliResult {
  const { state, exit } = params;
  const { result } = state;
  if (result === null) return withoutResult(exit, params.resumes);
  if (!result.isError) return withoutDenials(state);
  const { cause, until } = causeOf(result, params);
  const words = wordsOf(result.message) || "failed without a word";
  return {
    kind: "failed",
    cause,
    message: `Gemini CLI: ${words.slice(0, 500)}`,
    hint: HINTS[cause] ?? sharedHint(cause, "gemini"),
    until,
  };
}

function withoutDenials({ text, denied }: GeminiState): CliResult {
  if (denied.size === 0) return { kind: "completed", text };
  const message = `Gemini CLI was not allowed to use ${[...denied].join(", ")}`;
  return { kind: "failed", cause: "permission_denied", message, hint: HINTS.permission_denied ?? null, until: null };
}

/** Gemini CLI has special exit codes for errors before the start. */
function withoutResult(
  { kind, code, stderr }: Pick<AgentExit, "kind" | "code" | "stderr">,
  resumes: boolean,
): CliResult {
  if (kind !== "exited") return { kind: "open" };
  const cause =
    code === 41 ? "auth" : code === 42 && resumes && /resuming session/i.test(stderr) ? "session_lost" : null;
  if (cause === null) return { kind: "open" };
  const said = stderr.split("\n").filter((line) => line.trim() !== "" && !/^(?:YOLO mode|Warning:|Ripgrep)/.test(line));
  const message = `Gemini CLI: ${said.slice(-3).join(" ").slice(0, 500)}`;
  return { kind: "failed", cause, message, hint: HINTS[cause] ?? null, until: null };
}

function causeOf(
  { message }: GeminiResult,
  params: {
    readonly state: GeminiState;
    readonly exit: Pick<AgentExit, "code">;
    readonly resumes: boolean;
    readonly now: number;
  },
): { readonly cause: FailureCause; readonly until: string | null } {
  const error = errorOf(message);
  const code = error["code"];
  const status = typeof code === "number" ? code : statusOf(params.exit.code);
  const at = status === 429 ? resetTime(message, params.now) : null;
  return {
    cause: causeOfResponse(message) ?? byWords(message, error) ?? byStatus(status) ?? otherwise(status, params),
    until: at === null ? null : new Date(at).toISOString(),
  };
}

function byWords(message: string, error: JsonRecord): FailureCause | null {
  const reasons = asRecords(error["details"]).map((detail) => asText(detail["reason"]));
  if (reasons.includes("API_KEY_INVALID") || /API key (?:not valid|expired)/i.test(message)) return "auth";
  if (/exceeds the maximum number of tokens|context window will overflow/i.test(message)) return "context_too_long";
  if (/billing (?:to be|is not) enabled|credits are depleted/i.test(message)) return "billing";
  if (/models?\/?\S* is not found|model .*not found/i.test(message)) return "missing";
  // A stream that ends in the middle of a line, or a response that is not a stream at all.
  if (/Incomplete JSON segment|\bterminated\b|fetch failed|socket|ECONN|ENOTFOUND|ETIMEDOUT|network/i.test(message))
    return "network";
  return null;
}

function byStatus(status: number | null): FailureCause | null {
  if (status === 401 || status === 403) return "auth";
  if (status === 402) return "billing";
  if (status === 404) return "missing";
  if (status === 408) return "network";
  if (status === 413) return "context_too_long";
  if (status === 429) return "rate_limit";
  return status !== null && status >= 500 ? "overload" : null;
}

/** This is the first request of a resumed session. If the provider rejects it, the history is invalid. */
function otherwise(
  status: number | null,
  { state, resumes }: { readonly state: GeminiState; readonly resumes: boolean },
): FailureCause {
  return status === 400 && resumes && !state.hasActed ? "session_lost" : "crash";
}

/** Gemini CLI exits with the HTTP status of the failed request, of which an exit code keeps the last eight bits. */
function statusOf(code: number | null): number | null {
  return STATUSES.find((status) => status % 256 === code) ?? null;
}

const STATUSES = [400, 401, 402, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529];

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Set GEMINI_API_KEY, or run `gemini` once by hand and log in.",
  billing: "Enable billing for the Google project, or use another key.",
  missing: "Choose a model that the account may use: gemini:MODEL, or gemini for its default.",
  permission_denied: "Run with --yolo, or allow the tool in ~/.gemini/settings.json.",
};

/** Parses `[API Error: …]`, which contains the provider's answer or plain text. */
function errorOf(message: string): JsonRecord {
  try {
    return asRecord(asRecord(JSON.parse(inBrackets(message)))["error"]);
  } catch {
    return {};
  }
}

function wordsOf(message: string): string {
  return asText(errorOf(message)["message"]) || inBrackets(message);
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
  const parts = [...text.matchAll(/([\d.]+)(ms|[dhms])/g)];
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ""] ?? 0), 0);
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

/** All input tokens, cached or not, and all other tokens: answers and reasoning. */
interface TokenCount {
  readonly input: number;
  readonly output: number;
  /** The cached part of the input. */
  readonly cached: number;
}

const NO_TOKENS: TokenCount = { input: 0, output: 0, cached: 0 };

/** Parses the `stats` of a result; null if it is none. */
function tokensOfStats(value: unknown): TokenCount | null {
  const { input_tokens: input, total_tokens: total, cached } = asRecord(value);
  return split(input, total, cached);
}

/** Parses the `tokens` of a message in a session's file. */
function tokensOfChat(value: unknown): TokenCount | null {
  const { input, total, cached } = asRecord(value);
  return split(input, total, cached);
}

/** Reasoning is counted separately from answers or not at all. The total contains both. */
function split(input: unknown, total: unknown, cached: unknown): TokenCount | null {
  if (typeof input !== "number" || typeof total !== "number") return null;
  const given = typeof cached === "number" && cached >= 0 ? cached : 0;
  return input >= 0 && total >= input ? { input, output: total - input, cached: given } : null;
}

function add(one: TokenCount, other: TokenCount): TokenCount {
  return { input: one.input + other.input, output: one.output + other.output, cached: one.cached + other.cached };
}

/** The content of a session's file: lines that add or replace a message by its id, or set fields of the session. */
interface Chat {
  readonly session: string;
  /** ISO 8601, from the file itself. */
  readonly startTime: string;
  /** Tokens of each answer by message id. */
  readonly answers: ReadonlyMap<string, TokenCount>;
  /** True if the file contains no message of the user or the model: it cannot be resumed. */
  readonly isHollow: boolean;
}

export function parseChat(text: string): Chat {
  let session = "";
  let startTime = "";
  let isHollow = true;
  const answers = new Map<string, TokenCount>();
  for (const line of text.split("\n")) {
    // The last line of a killed call may be incomplete.
    const record = parseJsonRecord(line);
    const set = asRecord(record["$set"]);
    session ||= asText(record["sessionId"]);
    startTime ||= asText(record["startTime"]);
    for (const message of [record, ...asRecords(set["messages"])]) {
      if (isSaid(message)) isHollow = false;
      const tokens = message["type"] === "gemini" ? tokensOfChat(message["tokens"]) : null;
      if (tokens !== null) answers.set(asText(message["id"]), tokens);
    }
  }
  return { session, startTime, answers, isHollow };
}

/** The first message is generated by Gemini CLI and describes its environment. */
function isSaid({ type, content }: JsonRecord): boolean {
  if (type === "gemini") return true;
  return type === "user" && !textOf(content).trimStart().startsWith("<session_context>");
}

interface ChatFile extends Chat {
  readonly path: string;
}

/** The files of one session, ordered by name and therefore by the minute in which they were created. */
export function findChats(place: TranscriptPlace): readonly ChatFile[] {
  return chatsIn(place, place.ending).filter(({ session }) => session === place.session);
}

/**
 * A session resumed in a later minute gets a second file without messages. Gemini CLI treats that file as corrupt. When
 * another session starts in the same place, it removes that file and every other file of the same session. Therefore we
 * remove files without messages first.
 */
export function removeEmptyChats(place: TranscriptPlace): void {
  const chats = chatsIn(place, ".jsonl");
  for (const { path, session, isHollow } of chats) {
    const isDouble = chats.some((other) => other.session === session && other.path !== path && !other.isHollow);
    if (isHollow && isDouble) rmSync(path, { force: true });
  }
}

function chatsIn(place: TranscriptPlace, ending: string): readonly ChatFile[] {
  return projectFolders(place)
    .flatMap((project) => {
      const folder = join(project, "chats");
      const names = listNames(folder).filter((name) => name.startsWith("session-") && name.endsWith(ending));
      return names.toSorted().map((name) => join(folder, name));
    })
    .map((path) => ({ path, ...parseChat(readText(path)) }));
}

/** The project directories that belong to this worktree. */
function projectFolders({ tmp, cwd }: Pick<TranscriptPlace, "tmp" | "cwd">): readonly string[] {
  const roots = new Set([cwd, realPathOf(cwd)]);
  return listNames(tmp)
    .map((project) => join(tmp, project))
    .filter((folder) => roots.has(readText(join(folder, ".project_root")).trim()));
}

/** The text of a file; "" if it cannot be read. */
function readText(path: string): string {
  return readAgentFile(path)?.toString("utf8") ?? "";
}

/**
 * Where Gemini CLI stores a session that began in `cwd`: `<tmp>/<project>/chats/session-<minute>-<first eight of the
 * id>.jsonl`. Only `<tmp>/<project>/.project_root` maps a project name to a worktree. A session may have several files,
 * one for each minute in which it was resumed.
 */
export function locateTranscript(params: {
  readonly session: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): TranscriptPlace {
  const { session, cwd, env } = params;
  const home = env["GEMINI_CLI_HOME"] || (env["HOME"] ?? "/");
  return { tmp: join(home, ".gemini", "tmp"), cwd, session, ending: `-${session.slice(0, 8)}.jsonl` };
}

interface TranscriptPlace {
  readonly tmp: string;
  readonly cwd: string;
  readonly session: string;
  readonly ending: string;
}

/** The name of a session file that was created at that time. */
function nameOfLost({ ending }: TranscriptPlace, startTime: string): string {
  const minute = startTime.slice(0, "2026-01-01T00:00".length).replaceAll(":", "-");
  return `session-${minute === "" ? "1970-01-01T00-00" : minute}${ending}`;
}

/** No command reports the login, so the settings are read. The probe makes no network request. */
async function probeGemini(
  run: (args: readonly string[]) => Promise<ProcessResult>,
  install: string,
): Promise<AgentProbe> {
  const found = await probeVersion(run, { program: "gemini", install });
  if (found.problem !== null || hasAccess(process.env)) return found;
  const hint = "Set GEMINI_API_KEY, or run `gemini` once by hand and log in.";
  return { ...found, problem: "Gemini CLI is not logged in", hint };
}

function hasAccess(env: Readonly<Record<string, string | undefined>>): boolean {
  const given = ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"];
  if (given.some((name) => (env[name] ?? "") !== "")) return true;
  const home = env["GEMINI_CLI_HOME"] || (env["HOME"] ?? "/");
  const settings = parseJsonRecord(readText(join(home, ".gemini", "settings.json")));
  const chosen = asText(asRecord(asRecord(settings["security"])["auth"])["selectedType"]);
  // A key may also be in a .env file or in the keyring. Only a login with Google has its own file.
  return chosen === "oauth-personal" ? readText(join(home, ".gemini", "oauth_creds.json")) !== "" : chosen !== "";
}
