// The client side of the Agent Client Protocol (ACP): one session, permissions, file access, and causes of failures.

import { lstatSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";
import { Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import type { ClientContext } from "@agentclientprotocol/sdk";
import type { AgentTask, FailureCause } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asRecords, asText, isRecord } from "@holdfast/core/json";
import type { CliResult } from "./cli-agent.ts";
import {
  type CausePatterns,
  causeOfMessage,
  causeOfResponse,
  causeOfStatus,
  matchCause,
  sharedHint,
} from "./failure-cause.ts";

export interface AcpListener {
  /** Receives every update of the session. `isOld` marks updates that replay an earlier call. */
  update(update: JsonRecord, isOld: boolean): void;
  session(id: string): void;
  denied(what: string): void;
  /** The agent's internal name and its display title. */
  agent(info: { readonly name: string; readonly title: string }): void;
  answer(answer: JsonRecord): void;
}

interface AcpStreams {
  readonly input: ReadableStream<Uint8Array>;
  readonly output: WritableStream<Uint8Array>;
}

/** Runs one call, from initialization to the answer. Rejects only if the agent process has exited. */
export async function runAcpSession(params: {
  readonly sdk: AcpSdk;
  readonly task: AgentTask;
  readonly streams: AcpStreams;
  readonly listener: AcpListener;
}): Promise<AcpResult> {
  const { sdk, task, listener } = params;
  let isOld = task.session !== null;
  const replay: Replay = { asked: "", updates: 0 };
  const tools = new Set<string>();
  const app = sdk.client({ name: "holdfast" });
  answerFiles(app, params);
  app.onRequest("session/request_permission", ({ params: request }) => {
    const { isInside } = createWorktreeFiles(task.cwd);
    const answer = decidePermission({ request: { ...request }, yolo: task.yolo, isInside });
    const { toolCallId: id } = request.toolCall;
    if (answer.denied !== null) listener.denied(answer.denied);
    // Gemini CLI announces a tool call only by its request, others before it.
    else if (!tools.has(id)) listener.update({ ...request.toolCall, sessionUpdate: "tool_call" }, isOld);
    tools.add(id);
    return { outcome: answer.outcome };
  });
  app.onNotification("session/update", ({ params: { update } }) => {
    replay.updates += 1;
    if (update.sessionUpdate === "tool_call") {
      if (tools.has(update.toolCallId)) return;
      tools.add(update.toolCallId);
    }
    if (isOld && update.sessionUpdate === "user_message_chunk")
      replay.asked += asText(asRecord(update.content)["text"]);
    listener.update({ ...update }, isOld);
  });
  const stream = sdk.ndJsonStream(params.streams.output, params.streams.input, { maxMessageBytes: MAX_MESSAGE_BYTES });
  return await app.connectWith(stream, async (agent) => {
    const began = await attempt("begin", () =>
      agent.request("initialize", {
        protocolVersion: sdk.PROTOCOL_VERSION,
        // File reads are not offered: the agent can read files itself, and Gemini CLI 0.61 treats "no such file" as a
        // failure.
        clientCapabilities: { fs: { readTextFile: false, writeTextFile: true } },
        clientInfo: { name: "holdfast", version: "1" },
      }),
    );
    if (isEnd(began)) return began;
    if (began.protocolVersion !== sdk.PROTOCOL_VERSION)
      return unable("missing", `uses version ${began.protocolVersion} of ACP, and Holdfast ${sdk.PROTOCOL_VERSION}`);
    const info = asRecord(began.agentInfo);
    const name = asText(info["name"]);
    listener.agent({ name, title: asText(info["title"]) || name });
    const entered = await enter(agent, { task, can: asRecord(began.agentCapabilities) });
    if (isEnd(entered)) return entered;
    const { session } = entered;
    listener.session(session);
    if (entered.isLoaded) await untilReplayed(task, replay);
    isOld = false;
    const cancel = (): void => void agent.notify("session/cancel", { sessionId: session }).catch(() => undefined);
    task.signal.addEventListener("abort", cancel, { once: true });
    try {
      const prompt = [{ type: "text" as const, text: promptFor(task, replay) }];
      // The answer is parsed as untyped data, because agents add fields that the protocol's types do not have.
      const answer = await attempt<unknown>("prompt", () =>
        agent.request("session/prompt", { sessionId: session, prompt }),
      );
      if (isEnd(answer)) return answer;
      const fields = asRecord(answer);
      listener.answer(fields);
      return { kind: "answered", stopReason: asText(fields["stopReason"]) };
    } finally {
      task.signal.removeEventListener("abort", cancel);
    }
  });
}

/**
 * A loaded session replays prompts, and one message may contain a whole file. No real message comes near this limit.
 */
const MAX_MESSAGE_BYTES = 256 * 1024 * 1024;

/** What a loaded session has replayed so far. */
interface Replay {
  /** The texts of the user. */
  asked: string;
  updates: number;
}

/** A session that shows the task gets the continuation. Agents may change white space in what they replay. */
function promptFor({ prompt, continuation }: AgentTask, { asked }: Replay): string {
  const words = (text: string): string => text.replaceAll(/\s+/g, " ").trim();
  return continuation !== undefined && words(asked).includes(words(prompt)) ? continuation : prompt;
}

/** Gemini CLI answers before it has replayed the session. What comes later would count as new, so this waits for silence. */
async function untilReplayed(task: AgentTask, replay: Replay): Promise<void> {
  const isMissing = (): boolean => task.continuation !== undefined && promptFor(task, replay) === task.prompt;
  for (let quiet = 0; quiet < (isMissing() ? MISSING_MS : QUIET_MS); quiet += PAUSE_MS) {
    const before = replay.updates;
    await pause(PAUSE_MS, undefined, { signal: task.signal });
    if (replay.updates !== before) quiet = 0;
  }
}

const PAUSE_MS = 50;
const QUIET_MS = 300;
/** For the task, which most sessions have. */
const MISSING_MS = 5000;

/**
 * Enters the session to prompt. It prefers a resume without a replay of the history, unless the replay
 * decides what the session gets.
 */
async function enter(
  agent: ClientContext,
  params: { readonly task: AgentTask; readonly can: JsonRecord },
): Promise<Entered | AcpResult> {
  const { can } = params;
  const { cwd, session, continuation } = params.task;
  if (session === null) {
    const made = await attempt("session", () => agent.request("session/new", { cwd, mcpServers: [] }));
    return isEnd(made) ? made : { session: made.sessionId, isLoaded: false };
  }
  const canLoad = can["loadSession"] === true;
  const canResume = isRecord(asRecord(can["sessionCapabilities"])["resume"]);
  const way =
    canLoad && (continuation !== undefined || !canResume) ? "session/load" : canResume ? "session/resume" : null;
  if (way === null) return unable("session_lost", "cannot resume a session that another process began");
  const entered = await attempt("session", () => agent.request(way, { sessionId: session, cwd, mcpServers: [] }));
  return isEnd(entered) ? entered : { session, isLoaded: way === "session/load" };
}

interface Entered {
  readonly session: string;
  /** The session replays its messages. */
  readonly isLoaded: boolean;
}

/** Also answers agents that ignore which capabilities were offered. */
function answerFiles(
  app: ReturnType<AcpSdk["client"]>,
  { sdk, task }: { readonly sdk: AcpSdk; readonly task: AgentTask },
): void {
  app.onRequest("fs/read_text_file", ({ params: { path, line, limit } }) => {
    const read = createWorktreeFiles(task.cwd).read(path, { line: line ?? null, limit: limit ?? null });
    if (read.kind === "read") return { content: read.text };
    throw read.kind === "absent"
      ? sdk.RequestError.resourceNotFound(path)
      : new sdk.RequestError(INVALID_PARAMS, `${path} cannot be read: ${read.why}`);
  });
  app.onRequest("fs/write_text_file", ({ params: { path, content } }) => {
    const written = createWorktreeFiles(task.cwd).write(path, content);
    if (written.kind === "written") return {};
    throw new sdk.RequestError(INVALID_PARAMS, `${path} cannot be written: ${written.why}`);
  });
}

const INVALID_PARAMS = -32_602;

/** An error response of the agent is a result. Other errors mean that the agent has exited, and are thrown. */
async function attempt<T>(at: "begin" | "session" | "prompt", ask: () => Promise<T>): Promise<T | AcpResult> {
  try {
    return await ask();
  } catch (error) {
    const response = errorOf(error);
    if (response === null) throw error;
    return { kind: "refused", at, error: response };
  }
}

function isEnd(value: unknown): value is AcpResult {
  return isRecord(value) && (value["kind"] === "refused" || value["kind"] === "unable");
}

function errorOf(error: unknown): AcpError | null {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "number") return null;
  const data = "data" in error ? asRecord(error.data) : {};
  const details = asText(data["details"]) || asText(data["message"]);
  const status = data["statusCode"] ?? data["status"];
  // OpenCode uses this name for an error of the provider and puts "Internal error: " before the provider's message.
  const isProvider = data["errorName"] === "APIError";
  const words = isProvider ? error.message.replace(/^Internal error: /, "") : error.message;
  return {
    code: error.code,
    message: details === "" ? words : `${words}: ${details}`,
    status: typeof status === "number" ? status : null,
    isProvider,
  };
}

function unable(cause: "missing" | "session_lost", message: string): AcpResult {
  return { kind: "unable", cause, message };
}

/**
 * Answers an agent's permission request by the run's rule, because no user can be asked. With yolo everything is
 * allowed. Without it only edits of files in the worktree are, as for every other agent. "Once" is preferred to
 * "always", because an agent may store the latter in the user's settings.
 */
export function decidePermission(params: {
  readonly request: JsonRecord;
  readonly yolo: boolean;
  readonly isInside: (path: string) => boolean;
}): PermissionDecision {
  const { request, yolo, isInside } = params;
  const tool = asRecord(request["toolCall"]);
  const options = asRecords(request["options"]);
  const allowed = yolo || isEdit(tool, isInside);
  const wanted = allowed ? ["allow_once", "allow_always"] : ["reject_once", "reject_always"];
  const option = wanted.flatMap((kind) => options.filter((offered) => offered["kind"] === kind))[0];
  const id = asText(option?.["optionId"]);
  return {
    outcome: id === "" ? { outcome: "cancelled" } : { outcome: "selected", optionId: id },
    denied: allowed && id !== "" ? null : nameOf(tool),
  };
}

interface PermissionDecision {
  readonly outcome: { readonly outcome: "cancelled" } | { readonly outcome: "selected"; readonly optionId: string };
  /** What the agent may not do; null if it is allowed. */
  readonly denied: string | null;
}

/** The agent declares which files it is about to change. A request without paths does not count as an edit. */
function isEdit(tool: JsonRecord, isInside: (path: string) => boolean): boolean {
  const paths = asRecords(tool["locations"]).map(({ path }) => asText(path));
  return tool["kind"] === "edit" && paths.length > 0 && paths.every(isInside);
}

function nameOf(tool: JsonRecord): string {
  const title = asText(tool["title"]).replaceAll(/\s+/g, " ").trim();
  const name = title === "" ? asText(tool["kind"]) || "a tool" : title;
  return name.length > 120 ? `${name.slice(0, 119)}…` : name;
}

/**
 * Text files that an agent may read and write through Holdfast: inside the worktree after resolving links, and never
 * git's own files.
 */
export function createWorktreeFiles(cwd: string): WorktreeFiles {
  const root = realpathSync.native(cwd);
  const locate = (path: string): Target => {
    if (!isAbsolute(path)) return { kind: "refused", why: "the path is not absolute" };
    const real = realTarget(path);
    const inner = relative(root, real);
    const [first = ""] = inner.split(sep);
    if (first === ".." || isAbsolute(inner)) return { kind: "refused", why: "it is outside the worktree" };
    if (first === ".git") return { kind: "refused", why: "it belongs to git" };
    return { kind: "inside", real };
  };
  return {
    isInside: (path) => locate(path).kind === "inside",
    read(path, range) {
      const found = locate(path);
      if (found.kind === "refused") return found;
      try {
        return { kind: "read", text: linesOf(readFileSync(found.real, "utf8"), range) };
      } catch (error) {
        return isAbsent(error) ? { kind: "absent" } : { kind: "refused", why: reasonOf(error) };
      }
    },
    write(path, text) {
      const found = locate(path);
      if (found.kind === "refused") return found;
      try {
        mkdirSync(dirname(found.real), { recursive: true });
        writeFileSync(found.real, text);
        return { kind: "written" };
      } catch (error) {
        return { kind: "refused", why: reasonOf(error) };
      }
    },
  };
}

interface WorktreeFiles {
  isInside(path: string): boolean;
  read(
    path: string,
    range: LineRange,
  ): { readonly kind: "read"; readonly text: string } | { readonly kind: "absent" } | Refused;
  write(path: string, text: string): { readonly kind: "written" } | Refused;
}

/** Line numbers start at 1. null means from the beginning, or no limit. */
interface LineRange {
  readonly line: number | null;
  readonly limit: number | null;
}

interface Refused {
  readonly kind: "refused";
  readonly why: string;
}
type Target = { readonly kind: "inside"; readonly real: string } | Refused;

/** The path that a write would reach: the real path of the existing part plus the remaining names. */
function realTarget(path: string): string {
  try {
    return realpathSync.native(path);
  } catch (error) {
    // A write would follow a link to a path that does not exist yet.
    if (!isAbsent(error) || isLink(path) || dirname(path) === path) return sep;
    const parent = realTarget(dirname(path));
    return parent === sep ? sep : join(parent, basename(path));
  }
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function linesOf(text: string, { line, limit }: LineRange): string {
  if (line === null && limit === null) return text;
  const start = Math.max(0, (line ?? 1) - 1);
  return text
    .split("\n")
    .slice(start, limit === null ? undefined : start + limit)
    .join("\n");
}

/** An error that an agent returned for a request. */
interface AcpError {
  readonly code: number | null;
  /** Includes the details from the error's data. */
  readonly message: string;
  /** The HTTP status in the error's data. */
  readonly status?: number | null;
  /** True if the provider returned the error. The message then contains only the provider's text. */
  readonly isProvider?: boolean;
}

/** The result of the conversation. */
export type AcpResult =
  | { readonly kind: "answered"; readonly stopReason: string }
  /** The prompt or an earlier request was rejected. */
  | { readonly kind: "refused"; readonly at: "begin" | "session" | "prompt"; readonly error: AcpError }
  /** The agent responds but lacks something that Holdfast needs. */
  | { readonly kind: "unable"; readonly cause: FailureCause; readonly message: string };

/** `end` is null if the program exited or was ended before it answered. */
export function classifyAcp(params: {
  readonly end: AcpResult | null;
  readonly title: string;
  readonly text: string;
  readonly denied: readonly string[];
  readonly resumes: boolean;
  /** True if a text or a tool call was received. */
  readonly worked: boolean;
}): CliResult {
  const { end, title } = params;
  if (end === null) return { kind: "open" };
  switch (end.kind) {
    case "answered":
      return stopped(end.stopReason, params);
    case "unable":
      return fail(end.cause, `${title} ${end.message}`);
    case "refused":
      return fail(causeOf(end, params), `${title}: ${wordsOf(end.error).slice(0, 500)}`);
  }
}

function stopped(
  reason: string,
  {
    title,
    text,
    denied,
    worked,
  }: { readonly title: string; readonly text: string; readonly denied: readonly string[]; readonly worked: boolean },
): CliResult {
  if (denied.length > 0)
    return fail("permission_denied", `${title} was not allowed: ${denied.join("; ").slice(0, 500)}`);
  switch (reason) {
    case "end_turn":
      if (title.startsWith("Copilot")) {
        const failed = copilotFailure(text);
        if (failed !== null) return fail(failed.cause, `${title}: ${failed.words.slice(0, 500)}`);
      }
      // For an agent that does not report a declined prompt, an empty turn is the only sign of it.
      if (text === "" && !worked) return fail("crash", `${title} ended its turn without an answer`);
      return { kind: "completed", text };
    case "max_tokens":
      return fail("context_too_long", `${title} stopped: the model has no tokens left for an answer`);
    case "max_turn_requests":
      return fail("crash", `${title} stopped: it may make no more requests in one turn`);
    case "refusal":
      return fail("refusal", `${title}: the model declined this prompt`);
    case "cancelled":
      return fail("killed", `${title} was cancelled, and not by this run`);
    default:
      return fail("crash", `${title} stopped for an unknown reason: ${reason}`);
  }
}

/** Copilot CLI ends a failed turn as if it had succeeded, with the failure as its text. */
function copilotFailure(text: string): { readonly cause: FailureCause; readonly words: string } | null {
  const words = /(?:^|\n|\.\.\.)Error: ([^]+)$/.exec(text)?.[1];
  if (words === undefined) return null;
  const status = /\(HTTP (\d{3})\)|(?:^|Last error: )(\d{3})\b/.exec(words);
  const byStatus = causeOfStatus(status === null ? null : Number(status[1] ?? status[2]));
  return { cause: causeOfResponse(words) ?? byStatus ?? causeOfMessage(words) ?? "crash", words };
}

function causeOf(
  { at, error }: Extract<AcpResult, { kind: "refused" }>,
  { resumes, worked }: { readonly resumes: boolean; readonly worked: boolean },
): FailureCause {
  const known = causeOfResponse(error.message) ?? byCode(error) ?? byWords(error);
  if (at === "session" && resumes) return known === "auth" ? "auth" : "session_lost";
  // This is the first request with an old history. If the provider rejects it, the history is invalid.
  return known ?? (at === "prompt" && resumes && !worked && statusOf(error) === 400 ? "session_lost" : "crash");
}

const AUTH_REQUIRED = -32_000;

function byCode(error: AcpError): FailureCause | null {
  if (error.code === AUTH_REQUIRED) return "auth";
  const status = statusOf(error);
  const cause = causeOfStatus(status);
  // Gemini CLI uses status 500 for every error without its own status.
  return status === null || status === 404 || status >= 500 ? (byWords(error) ?? cause) : cause;
}

/** Used where the code is not conclusive: exact phrases of providers and runtimes. */
function byWords(error: AcpError): FailureCause | null {
  const known = matchCause(PATTERNS, error.message) ?? causeOfMessage(error.message);
  return known ?? (error.isProvider === true ? matchCause(PROVIDER_PATTERNS, wordsOf(error)) : null);
}

const PATTERNS: CausePatterns = [
  [/model\S* .*(?:is not found|not found|does not exist)/i, "missing"],
  [/rate.?limit|too many requests|quota exceeded/i, "rate_limit"],
  [/overloaded/i, "overload"],
  [/maximum number of tokens/i, "context_too_long"],
  [/(?:invalid|incorrect|expired) (?:x-)?api[ _-]?key|api[ _-]?key (?:not valid|is invalid|expired)/i, "auth"],
  [/token (?:has |is )?expired|unauthori[sz]ed|unauthenticated|log ?in again/i, "auth"],
  [/authentication (?:failed|error|required)/i, "auth"],
  [/Incomplete JSON segment/, "network"],
];

/** These phrases are conclusive only in a provider's answer: a file system denies permission too. */
const PROVIDER_PATTERNS: CausePatterns = [
  [/permission denied|forbidden|access denied|not authori[sz]ed/i, "auth"],
  [/internal (?:server )?error|service unavailable|bad gateway/i, "overload"],
];

/**
 * The HTTP status from the code, the error's data, the provider's answer in the message, or the first word of the
 * message.
 */
function statusOf({ code, message, status = null }: AcpError): number | null {
  if (code !== null && isStatus(code)) return code;
  if (status !== null && isStatus(status)) return status;
  const answered = providerError(message)["code"];
  if (typeof answered === "number") return answered;
  const first = /^(?:Internal error: )?(?:\[?API Error: )?(\d{3})\b/.exec(message)?.[1];
  return first !== undefined && isStatus(Number(first)) ? Number(first) : null;
}

function isStatus(code: number): boolean {
  return code >= 400 && code < 600;
}

function wordsOf({ message }: AcpError): string {
  return asText(providerError(message)["message"]) || message || "failed without a message";
}

function providerError(message: string): JsonRecord {
  try {
    return asRecord(asRecord(JSON.parse(message))["error"]);
  } catch {
    return {};
  }
}

function fail(cause: FailureCause, message: string): CliResult {
  return { kind: "failed", cause, message, hint: HINTS[cause] ?? sharedHint(cause, "acp"), until: null };
}

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Log in with the agent's own program, by hand, and try again.",
  missing: "Choose another model in the agent's own settings, or by a flag of its command line.",
  permission_denied: "Run with --yolo, or allow it in the agent's own settings.",
};

/** The program's output as a stream that the ACP library can read. */
export function createOutputStream(): {
  readonly stream: ReadableStream<Uint8Array>;
  add(text: string): void;
  end(): void;
} {
  const encoder = new TextEncoder();
  let controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  const stream = new ReadableStream<Uint8Array>({
    start: (given) => void (controller = given),
    cancel: () => void (controller = null),
  });
  return {
    stream,
    add: (text) => controller?.enqueue(encoder.encode(text)),
    end() {
      controller?.close();
      controller = null;
    },
  };
}

export function toWritableStream(stdin: Writable): WritableStream<Uint8Array> {
  return Writable.toWeb(stdin);
}

/**
 * The ACP library. It is not a dependency of Holdfast: only users of `acp:` need it, and it is loaded when a call
 * begins. The import here is a type import, which is erased.
 */
export type AcpSdk = typeof import("@agentclientprotocol/sdk");

/** null if the library is not installed. */
export async function loadAcpSdk(): Promise<AcpSdk | null> {
  try {
    return await import("@agentclientprotocol/sdk");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND") return null;
    throw error;
  }
}

export const INSTALL_SDK = "Install it next to holdfast: npm install @agentclientprotocol/sdk@2.4.0.";
