// The CLI adapter for OpenAI Codex: arguments, output lines, usage, failures and session files.

import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Agent, AgentEvent, AgentUsage, FailureCause } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asRecords, asText, textOf } from "@holdfast/core/json";
import {
  CLI_CAPABILITIES,
  type CliAdapter,
  type CliAgentParams,
  type CliArgs,
  type CliResult,
  NO_TOKENS,
  type ParsedLine,
  type TokenCount,
  addTokens,
  createCliAgent,
  createFailures,
  unpricedUsage,
  unwrapLauncher,
} from "./cli-agent.ts";
import {
  type CausePatterns,
  UNKNOWN_USAGE,
  causeOfResponse,
  causeOfStatus,
  isoTime,
  matchCause,
} from "./failure-cause.ts";
import {
  type Environment,
  type TurnRecord,
  createFileSessions,
  listNames,
  parseJsonRecord,
  readAgentText,
  sizeOf,
} from "./session-files.ts";

/** `codex:MODEL`: OpenAI Codex. */
export function createCodexAgent(params: CliAgentParams): Agent {
  const adapter: CliAdapter<CodexState, Before> = {
    name: "codex",
    title: "Codex",
    program: "codex",
    install: "Install it: `npm install -g @openai/codex`, then log in with `codex login`.",
    capabilities: { ...CLI_CAPABILITIES, chooseSession: false, cost: false },
    sessions: codexSessions,
    initial: INITIAL_CODEX_STATE,
    native: findNativeBinary,
    findSession: (session, { env }) => findRollout(locateTranscript({ session, env })),
    plan(call, file) {
      const before = file === null ? NO_FILE : { bytes: sizeOf(file), total: totalTokens(readAgentText(file)) };
      return { kind: "start", args: codexArgs(call), env: codexEnv(call.env), before };
    },
    read: readCodexLine,
    end({ state, exit, resumes, now }) {
      const answered = state.begun.size > 0 || state.text !== "";
      return classifyCodex({ state, stderr: exit.stderr, resumes, answered, now });
    },
    usage: (state, { env }, before) => codexUsage(state, env, before),
    /** `login status` reads stored credentials without a network request. */
    async checkLogin(run) {
      if (hasOwnAccess(process.env)) return null;
      const { code, stdout, stderr } = await run(["login", "status"]);
      if (code === 0 || !/not logged in/i.test(`${stdout.toString("utf8")}${stderr}`)) return null;
      const hint = "Log in with `codex login`, or with a key: `printenv OPENAI_API_KEY | codex login --with-api-key`.";
      return { problem: "Codex is not logged in", hint };
    },
  };
  return createCliAgent(adapter, params);
}

/** The session's file when a call began. */
interface Before {
  readonly bytes: number;
  /** The tokens of the thread according to Codex. */
  readonly total: TokenCount;
}

const NO_FILE: Before = { bytes: 0, total: NO_TOKENS };

/** Codex' record of a session is one file. Codex cannot fork at a message. */
const codexSessions = createFileSessions({
  title: "Codex",
  find: (key) => findRollout(locateTranscript(key)),
  create: (key, text) => missingRolloutPath(locateTranscript(key), text),
  tokensIn(text) {
    const { input, output } = sumResponseTokens(text) ?? NO_TOKENS;
    return { input, output };
  },
  readTurn: readTurnLine,
});

function readTurnLine(line: JsonRecord): TurnRecord | null {
  const payload = asRecord(line["payload"]);
  const type = asText(payload["type"]);
  if (line["type"] === "response_item" && type === "message" && payload["role"] === "user")
    return { kind: "prompt", text: textOf(payload["content"]) };
  if (line["type"] !== "event_msg" || type === "token_count") return null;
  return type === "task_complete" ? { kind: "answer", text: asText(payload["last_agent_message"]) } : { kind: "open" };
}

/**
 * The rollout has a record of each answer, even of a killed call. The terminal event counts the whole thread and omits
 * killed calls, so it is used only without a rollout.
 */
function codexUsage(state: CodexState, env: Environment, before: Before): AgentUsage {
  const file = state.session === null ? null : findRollout(locateTranscript({ session: state.session, env }));
  const added = file === null ? "" : readAgentText(file, before.bytes);
  const answers = sumResponseTokens(added);
  const model = modelIn(added);
  if (answers !== null) return { ...unpricedUsage(answers), ...(model === null ? {} : { model }) };
  const { total } = state;
  if (total !== null) {
    const since = (now = 0, then = 0) => (now < then ? now : now - then);
    return unpricedUsage({
      input: since(total.input, before.total.input),
      output: since(total.output, before.total.output),
      cached: since(total.cached, before.total.cached),
    });
  }
  // A turn that was rejected before any answer used no tokens. For an interrupted one the usage is unknown.
  return state.end === "failed" ? unpricedUsage(NO_TOKENS) : UNKNOWN_USAGE;
}

/** The arguments of Codex. The prompt is passed on standard input, because an argument is limited to 128 KB. */
export function codexArgs({ task, extra }: Omit<CliArgs, "session">): readonly string[] {
  const own = sandboxOf(extra);
  return [
    "exec",
    ...(task.session === null ? [] : ["resume"]),
    "--json",
    // The worktree is ours; whether it is trusted was decided when the run started.
    "--skip-git-repo-check",
    ...(own === null && task.yolo
      ? ["--dangerously-bypass-approvals-and-sandbox"]
      : sandboxed(own ?? "workspace-write")),
    ...withoutSandbox(extra),
    ...(task.model === null ? [] : ["--model", task.model]),
    ...(task.session === null ? [] : [task.session]),
    "-",
  ];
}

/**
 * Passed as settings, because `resume` lacks the options. Approval is "never", because no user can approve anything.
 */
function sandboxed(mode: string): readonly string[] {
  return ["-c", `sandbox_mode=${JSON.stringify(mode)}`, "-c", 'approval_policy="never"'];
}

/** A sandbox that the user set applies with `--yolo` too. */
function sandboxOf(extra: readonly string[]): string | null {
  const at = extra.findIndex((arg) => SANDBOX.includes(arg));
  if (at !== -1) return extra[at + 1] ?? null;
  return extra.find((arg) => arg.startsWith("--sandbox="))?.slice("--sandbox=".length) ?? null;
}

function withoutSandbox(extra: readonly string[]): readonly string[] {
  return extra.filter(
    (arg, index) =>
      !SANDBOX.includes(arg) && !arg.startsWith("--sandbox=") && !SANDBOX.includes(extra[index - 1] ?? ""),
  );
}

const SANDBOX = ["--sandbox", "-s"];

/** Codex reports only in its log how long it waits after a rejection. A user's own RUST_LOG is kept. */
export function codexEnv(env: Environment): Readonly<Record<string, string>> {
  return (env["RUST_LOG"] ?? "") === "" ? { RUST_LOG: "error,codex_core::responses_retry=warn" } : {};
}

/** State after the output lines of one call so far. */
export interface CodexState {
  readonly session: string | null;
  /** The text of the last message. */
  readonly text: string;
  readonly end: "open" | "completed" | "failed";
  /** The last reported failure, of a request that Codex retries or of the turn. */
  readonly trouble: string | null;
  /** From the terminal event: tokens of the whole thread, as far as Codex counts them. */
  readonly total: TokenCount | null;
  /** Ids of items whose start was reported. */
  readonly begun: ReadonlySet<string>;
}

export const INITIAL_CODEX_STATE: CodexState = {
  session: null,
  text: "",
  end: "open",
  trouble: null,
  total: null,
  begun: new Set(),
};

export function readCodexLine(state: CodexState, line: string): ParsedLine<CodexState> {
  const event = parseJsonRecord(line);
  switch (event["type"]) {
    case "thread.started": {
      const id = asText(event["thread_id"]);
      return id === "" ? same(state) : { state: { ...state, session: id }, events: [{ kind: "session", id }] };
    }
    case "item.started":
    case "item.completed":
      return readItem(state, asRecord(event["item"]), event["type"] === "item.completed");
    case "turn.completed":
      return same({ ...state, end: "completed", trouble: null, total: tokensOf(event["usage"]) });
    case "turn.failed":
      return same({ ...state, end: "failed", trouble: asText(asRecord(event["error"])["message"]) || state.trouble });
    case "error":
      return { ...same({ ...state, trouble: asText(event["message"]) }), waiting: true };
    default:
      return same(state);
  }
}

function same(state: CodexState): ParsedLine<CodexState> {
  return { state, events: [] };
}

function readItem(state: CodexState, item: JsonRecord, isDone: boolean): ParsedLine<CodexState> {
  // An item means that Codex works again, so an earlier failed request is over.
  const next = { ...state, trouble: null };
  const text = asText(item["text"]);
  if (item["type"] === "agent_message")
    return isDone && text !== "" ? { state: { ...next, text }, events: [{ kind: "text", text }] } : same(next);
  const id = asText(item["id"]);
  const event = toolOf(item);
  if (event === null) return same(next);
  // The rollout has the response that called the tool, at the latest when the tool has ended.
  const response = isDone ? ({ response: "more" } as const) : {};
  if (state.begun.has(id)) return { ...same(next), ...response };
  return { state: { ...next, begun: new Set([...state.begun, id]) }, events: [event], ...response };
}

function toolOf(item: JsonRecord): AgentEvent | null {
  switch (item["type"]) {
    case "command_execution":
      return { kind: "tool", name: "exec_command", detail: asText(item["command"]) };
    case "file_change": {
      const paths = asRecords(item["changes"]).map((change) => asText(change["path"]));
      return { kind: "tool", name: "apply_patch", detail: paths.join(", ") };
    }
    case "mcp_tool_call":
      return { kind: "tool", name: `${asText(item["server"])}.${asText(item["tool"])}`, detail: "" };
    case "web_search":
      return { kind: "tool", name: "web_search", detail: asText(item["query"]) };
    default:
      return null;
  }
}

/**
 * Classifies the turn. Codex reports failures only as text, sometimes with a status or the provider's answer as JSON.
 */
export function classifyCodex(params: {
  readonly state: CodexState;
  readonly stderr: string;
  readonly resumes: boolean;
  /** True if a complete answer of the model was received. */
  readonly answered: boolean;
  readonly now: number;
}): CliResult {
  const { state, stderr } = params;
  switch (state.end) {
    case "completed":
      return classifyCompleted(state, stderr);
    case "failed":
      return failureOf(state.trouble ?? "", params);
    case "open":
      if (state.trouble !== null) return { ...failureOf(state.trouble, params), kind: "waiting" };
      return classifyNotStarted(stderr);
  }
}

/** Events do not contain denials; Codex reports them only to the model and in its log. */
function classifyCompleted({ text }: CodexState, stderr: string): CliResult {
  const denial = /tools::router: error=(.*(?:rejected by user approval settings|escalated permissions).*)/.exec(stderr);
  if (denial === null) return { kind: "completed", text };
  return failure("permission_denied", `was not allowed to act: ${denial[1] ?? ""}`);
}

function classifyNotStarted(stderr: string): CliResult {
  const tooLong = /turn\/start failed: (.*?)(?: \(code|,? data:).*"input_too_large"/.exec(stderr)?.[1];
  if (tooLong !== undefined) return failure("context_too_long", tooLong);
  const rejected = /thread\/resume failed: (.*)/.exec(stderr)?.[1];
  // Another process still writes to the session. That is temporary, and a new session would start a second agent.
  if (rejected === undefined || /active writer/.test(rejected)) return { kind: "open" };
  return failure("session_lost", rejected);
}

function failureOf(
  text: string,
  params: {
    readonly stderr: string;
    readonly resumes: boolean;
    readonly answered: boolean;
    readonly now: number;
  },
) {
  const cause = causeOf(text, params);
  const at = cause === "rate_limit" ? (resetTime(text, params.now) ?? nextRetry(params.stderr)) : null;
  return failure(cause, asText(errorOf(text)?.["message"]) || text, isoTime(at));
}

function causeOf(text: string, params: { readonly resumes: boolean; readonly answered: boolean }): FailureCause {
  const status = Number(/\bstatus:? (\d{3})\b/.exec(text)?.[1] ?? 0);
  const known = causeOfResponse(text) ?? matchCause(PATTERNS, text) ?? causeOfStatus(status);
  if (known !== null) return known;
  // This is the first request of a resumed session. If the provider rejects it, the history is invalid.
  const isRefusal = errorOf(text) !== null || status === 400;
  return isRefusal && params.resumes && !params.answered ? "session_lost" : "crash";
}

/** The order matters: "Reconnecting… (stream disconnected: …)" may contain any of the later phrases. */
const PATTERNS: CausePatterns = [
  [/context_length_exceeded|exceeds the context window|ran out of room in the model.s context/i, "context_too_long"],
  [/hit your usage limit|usage_limit_reached/i, "rate_limit"],
  [/insufficient_quota|quota exceeded|upgrade to plus|out of credits/i, "billing"],
  [/no tool (?:output|call) found/i, "session_lost"],
  [/missing environment variable|not logged in|invalid_api_key|log out and sign in|refresh token/i, "auth"],
  [/model_not_found|the model .* does not exist|not supported when using codex/i, "missing"],
  [/rate limit|last status: 429/i, "rate_limit"],
  [/high demand|at capacity|overloaded|internal server error/i, "overload"],
  [/stream disconnected|waiting for network|connection failed|error sending request|timed? ?out|dns error/i, "network"],
];

const { failure } = createFailures({
  name: "codex",
  title: "Codex",
  hints: {
    auth: "Log in with `codex login`, or set the key that ~/.codex/config.toml names.",
    billing: "Add credit to the OpenAI account, or log in with another one.",
    missing: "Choose a model that the account may use: codex:MODEL, or codex for its default.",
    permission_denied: "Run with --yolo, or allow it in ~/.codex/config.toml.",
  },
});

/** The provider's answer if the message is one; otherwise null. */
function errorOf(text: string): JsonRecord | null {
  try {
    const { error } = asRecord(JSON.parse(text));
    return error === undefined ? null : asRecord(error);
  } catch {
    return null;
  }
}

/**
 * The time when a limit resets, in milliseconds since the epoch. It is parsed from the text, because there is no field.
 * Examples: "try again at Nov 18th, 2026 9:04 AM", "try again at 10:04 AM" (today), "try again in 3 days 4 hours".
 * Codex truncates to the minute, so one minute is added: an early request would be rejected again.
 */
export function resetTime(text: string, now: number): number | null {
  const at = /try again at (?:([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) )?(\d{1,2}):(\d{2}) ([AP])M/.exec(text);
  if (at !== null) return localTime(at.slice(1), now);
  const spans = /try again in ((?:\d+ (?:day|hour|minute|second)s?[ ,]*(?:and )?)+)/.exec(text)?.[1];
  if (spans === undefined) return null;
  const units = [...spans.matchAll(/(\d+) (day|hour|minute|second)/g)];
  return now + units.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ""] ?? 0), MINUTE);
}

const MINUTE = 60_000;
const UNITS: Readonly<Record<string, number>> = {
  day: 24 * 60 * MINUTE,
  hour: 60 * MINUTE,
  minute: MINUTE,
  second: 1000,
};
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** In the local time zone, because Codex prints it for users. */
function localTime(matched: readonly (string | undefined)[], now: number): number | null {
  const [month, day, year, hour, minute, half] = matched;
  const date = new Date(now);
  if (month !== undefined) date.setFullYear(Number(year), MONTHS.indexOf(month), Number(day));
  date.setHours((Number(hour) % 12) + (half === "P" ? 12 : 0), Number(minute), 0, 0);
  if (month !== undefined && !MONTHS.includes(month)) return null;
  return date.getTime() + MINUTE;
}

/**
 * The time of Codex' next retry, from its log: `… responses_retry: … (1/5 in 3599.99s)…`. Each line starts with its
 * time.
 */
export function nextRetry(stderr: string): number | null {
  const last = [...stderr.matchAll(/^(\S+Z)\s.*responses_retry: .*\(\d+\/\d+ in ([\d.]+)(ms|s)\)/gm)].at(-1);
  if (last === undefined) return null;
  const [, moment, amount, unit] = last;
  const at = Date.parse(moment ?? "") + Number(amount) * (unit === "s" ? 1000 : 1);
  return Number.isFinite(at) ? at : null;
}

/** Parses the `usage` of events and of the rollout; null if it is none. */
function tokensOf(value: unknown): TokenCount | null {
  const { input_tokens: input, output_tokens: output, cached_input_tokens: cached } = asRecord(value);
  if (!isCount(input) || !isCount(output)) return null;
  return { input, output, cached: isCount(cached) ? cached : 0 };
}

/**
 * Sums the tokens of the model's answers in these lines of a rollout. Codex writes one record per answer once it is
 * complete.
 */
export function sumResponseTokens(lines: string): TokenCount | null {
  const answers = new Map<string, TokenCount>();
  for (const payload of payloadsOf(lines, '"token_usage_record"')) {
    const tokens = tokensOf(payload["usage"]);
    if (tokens !== null) answers.set(asText(payload["response_id"]) || String(answers.size), tokens);
  }
  return answers.size === 0 ? null : [...answers.values()].reduce(addTokens);
}

/** The model of the last turn in these lines of a rollout; null if they name none. */
export function modelIn(lines: string): string | null {
  const [turn] = lines
    .split("\n")
    .filter((line) => line.includes('"turn_context"'))
    .slice(-1);
  return turn === undefined ? null : asText(asRecord(parseJsonRecord(turn)["payload"])["model"]) || null;
}

/** The tokens of the thread according to Codex, to which a terminal event adds. A killed call may be missing. */
export function totalTokens(lines: string): TokenCount {
  const last = payloadsOf(lines, '"total_token_usage"').at(-1);
  return tokensOf(asRecord(last?.["info"])["total_token_usage"]) ?? { ...NO_TOKENS, cached: 0 };
}

/** Most of a rollout is instructions and tool output, so only lines with the word are parsed. */
function payloadsOf(lines: string, word: string): readonly JsonRecord[] {
  const found = lines.split("\n").filter((line) => line.includes(word));
  return found.map((line) => asRecord(parseJsonRecord(line)["payload"]));
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

/** The session's own file; null if there is none. */
export function findRollout(location: TranscriptLocation): string | null {
  return (
    findBelow(location.sessions, location.ending, FOLDERS_DEEP) ?? findBelow(location.archived, location.ending, 0)
  );
}

const FOLDERS_DEEP = 3;

/** Newest directories first: most sessions to find are from today. */
function findBelow(folder: string, ending: string, depth: number): string | null {
  for (const name of listNames(folder).toSorted().toReversed()) {
    const path = join(folder, name);
    if (depth === 0 && name.endsWith(ending)) return path;
    const found = depth === 0 ? null : findBelow(path, ending, depth - 1);
    if (found !== null) return found;
  }
  return null;
}

/**
 * The directories where Codex stores its sessions. A file name begins with the start time of the session, so it is
 * found by its ending.
 */
export function locateTranscript(key: { readonly session: string; readonly env: Environment }): TranscriptLocation {
  const home = codexHome(key.env);
  return {
    sessions: join(home, "sessions"),
    archived: join(home, "archived_sessions"),
    ending: `-${key.session}.jsonl`,
  };
}

interface TranscriptLocation {
  /** Contains directories by year, month and day. */
  readonly sessions: string;
  /** Contains no directories. */
  readonly archived: string;
  readonly ending: string;
}

function codexHome(env: Environment): string {
  return env["CODEX_HOME"] || join(env["HOME"] ?? "/", ".codex");
}

/**
 * The path of a lost session file. Codex remembers the name, which it derives from the timestamp in the first line, in
 * local time.
 */
function missingRolloutPath(location: TranscriptLocation, text: string): string {
  const moment = /"timestamp":"(\d{4}-[\d:.T-]+Z)","cwd"/.exec(text)?.[1] ?? /"timestamp":"([^"]+)"/.exec(text)?.[1];
  const date = new Date(moment ?? 0);
  const two = (number: number) => String(number).padStart(2, "0");
  const [year, month, day] = [String(date.getFullYear()), two(date.getMonth() + 1), two(date.getDate())];
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join("-");
  return join(location.sessions, year, month, day, `rollout-${year}-${month}-${day}T${clock}${location.ending}`);
}

/** A user with a custom provider or an API key needs no login. */
function hasOwnAccess(env: Environment): boolean {
  if ((env["CODEX_API_KEY"] ?? "") !== "") return true;
  const config = readAgentText(join(codexHome(env), "config.toml"));
  const provider = /^\s*model_provider\s*=\s*["']([^"']+)/m.exec(config)?.[1];
  return provider !== undefined && provider !== "openai";
}

/** The Codex binary behind the launcher that npm installs. */
export function findNativeBinary(found: string): readonly [string, ...string[]] {
  return unwrapLauncher(found, (script) => {
    const vendors = script.endsWith(".js") ? [vendorOfPlatform(script), join(dirname(script), "../vendor")] : [];
    for (const vendor of vendors) {
      if (vendor === null || !existsSync(vendor)) continue;
      for (const target of readdirSync(vendor)) {
        const binary = join(vendor, target, "bin", process.platform === "win32" ? "codex.exe" : "codex");
        if (existsSync(binary)) return [binary];
      }
    }
    return null;
  });
}

function vendorOfPlatform(script: string): string | null {
  const name = `@openai/codex-${process.platform}-${process.arch}/package.json`;
  try {
    return join(dirname(createRequire(script).resolve(name)), "vendor");
  } catch {
    return null;
  }
}
