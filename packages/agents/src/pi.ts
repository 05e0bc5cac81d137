// The CLI adapter for pi: arguments, output lines, usage, failures and session files.

import { join } from "node:path";
import type { Agent } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asRecords, asText, textOf } from "@holdfast/core/json";
import {
  CLI_CAPABILITIES,
  type CliAdapter,
  type CliAgentParams,
  type CliArgs,
  type CliEnd,
  type CliResult,
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
import { causeOfProvider } from "./failure-cause.ts";
import {
  type SessionKey,
  type TurnRecord,
  asCount,
  createFileSessions,
  listNames,
  parseJsonRecord,
  realPathOf,
} from "./session-files.ts";

/** `pi:PROVIDER/MODEL`. */
export function createPiAgent(params: CliAgentParams): Agent {
  const adapter: CliAdapter<PiState> = {
    name: "pi",
    title: "pi",
    program: "pi",
    install: "Install it: `npm install -g @earendil-works/pi-coding-agent`, then run `pi` once and /login.",
    capabilities: { ...CLI_CAPABILITIES, chooseSession: false, cost: true },
    sessions: piSessions,
    initial: INITIAL_PI_STATE,
    environment: { PI_SKIP_VERSION_CHECK: "1" },
    // pi would offer to import a session of another worktree and wait for an answer.
    findSession: (session, { task, env }) => findSession({ session, cwd: task.cwd, env }),
    plan: (call) => ({ kind: "start", args: piArgs(call), before: null }),
    read: readPiLine,
    end: ({ call, ...params }) => classifyPi({ ...params, yolo: call.task.yolo }),
    // Each message is reported once, for this call alone.
    usage: ({ spent, open }) => pricedUsage(open === null ? spent : add(spent, open)),
  };
  return createCliAgent(adapter, params);
}

/** pi's record of a session: one file. */
const piSessions = createFileSessions({
  title: "pi",
  find: findSession,
  create(key, text) {
    const location = locateTranscript(key);
    const [head = ""] = text.split("\n", 1);
    return join(location.folder, sessionFileName(location, asText(parseJsonRecord(head)["timestamp"])));
  },
  tokensIn: (text) => sumTokens(text.split("\n").map((line) => spentOf(asRecord(parseJsonRecord(line)["message"])))),
  readTurn: readTurnLine,
});

function readTurnLine(line: JsonRecord): TurnRecord | null {
  if (line["type"] !== "message") return null;
  const message = asRecord(line["message"]);
  const text = textOf(asRecords(message["content"]).filter(({ type }) => type === "text"));
  if (message["role"] === "user") return { kind: "prompt", text };
  const isEnd = message["role"] === "assistant" && message["stopReason"] === "stop";
  return isEnd ? { kind: "answer", text } : { kind: "open" };
}

export function findSession(key: SessionKey): string | null {
  const { folder, ending } = locateTranscript(key);
  const name = listNames(folder).find((found) => found.endsWith(ending));
  return name === undefined ? null : join(folder, name);
}

/**
 * The arguments of pi; the prompt is passed on standard input. pi never asks for permission, so a tool that is not
 * allowed must not be offered.
 */
export function piArgs({ task, extra }: Omit<CliArgs, "session">): readonly string[] {
  const ours = task.yolo ? [] : ["--tools", "read,edit,write,grep,find,ls"];
  return [
    "--print",
    "--mode",
    "json",
    ...permissionArgs({ ours, extra, words: ["--tools", "-t", "--no-tools"] }),
    ...(task.model === null ? [] : ["--model", task.model]),
    ...(task.session === null ? [] : ["--session", task.session]),
  ];
}

/** pi always exits with 0, so the end of its last message decides. */
export function classifyPi(params: Omit<CliEnd<PiState>, "now"> & { readonly yolo: boolean }): CliResult {
  const { state, exit, resumes, yolo } = params;
  const { last } = state;
  if (last === null) return classifyNoMessage(exit);
  if (last.stop === "error") {
    // The message starts with the HTTP status, followed by the provider's answer.
    const status = /^(\d{3})\b/.exec(last.error)?.[1];
    const isFirst = resumes && !state.hasActed;
    const cause = causeOfProvider({
      message: last.error,
      status: status === undefined ? null : Number(status),
      isFirst,
    });
    return failure(cause, last.error);
  }
  if (!state.isOver) return { kind: "open" };
  if (!yolo && state.absent.size > 0) return denied(state.absent);
  // pi treats a response that it cannot parse as empty, such as a proxy's page or a stream without events.
  const spent = (state.spent?.input ?? 0) + (state.spent?.output ?? 0);
  if (last.stop === "stop" && last.text === "" && spent === 0 && !state.hasActed)
    return failure("network", "the provider's answer was empty");
  if (last.stop === "stop") return { kind: "completed", text: last.text };
  return failure("crash", `stopped before the end: ${last.stop}`);
}

/** pi reports errors before the start only as text. */
function classifyNoMessage({ kind, code, stderr }: CliEnd<PiState>["exit"]): CliResult {
  if (kind !== "exited" || code === 0) return { kind: "open" };
  const [, message = ""] = /^(?:Error: )?(.+)/m.exec(stderr) ?? [];
  if (/No session found/.test(stderr)) return failure("session_lost", message);
  if (/Model .*not found/.test(stderr)) return failure("missing", message);
  return /No API key|No models available/.test(stderr) ? failure("auth", message) : { kind: "open" };
}

const { failure, denied } = createFailures({
  name: "pi",
  title: "pi",
  hints: {
    auth: "Run `pi` once by hand and /login, or set the provider's key.",
    billing: "Pay the provider, or use another key.",
    missing: "Choose a model that `pi --list-models` lists: pi:PROVIDER/MODEL.",
    permission_denied: "Run with --yolo: without it pi has no shell.",
  },
});

/** Where pi stores a session that began in `cwd`: `<folder>/<time>_<session>.jsonl`. */
export function locateTranscript({ session, cwd, env }: SessionKey): TranscriptLocation {
  const home = env["HOME"] ?? "/";
  const expanded = (path: string) => (path === "~" || path.startsWith("~/") ? `${home}${path.slice(1)}` : path);
  const own = env["PI_CODING_AGENT_SESSION_DIR"] || "";
  const agent = expanded(env["PI_CODING_AGENT_DIR"] || join(home, ".pi", "agent"));
  const project = `--${realPathOf(cwd).replace(/^\//, "").replaceAll(/[/:]/g, "-")}--`;
  return { folder: own === "" ? join(agent, "sessions", project) : expanded(own), ending: `_${session}.jsonl` };
}

interface TranscriptLocation {
  readonly folder: string;
  readonly ending: string;
}

/** The name that pi gives to a session that began at that time. */
export function sessionFileName({ ending }: TranscriptLocation, timestamp: string): string {
  return `${timestamp.replaceAll(/[:.]/g, "-") || "1970-01-01T00-00-00-000Z"}${ending}`;
}

/** State after the output lines of one call so far. */
export interface PiState {
  /** The model's last message. */
  readonly last: { readonly text: string; readonly stop: string; readonly error: string } | null;
  /** True if pi has reported the end of the call. */
  readonly isOver: boolean;
  readonly hasActed: boolean;
  /** Names of tools that the model called and pi does not offer. */
  readonly absent: ReadonlySet<string>;
  /** Sum of all completed messages; null if there is none. */
  readonly spent: PiSpent | null;
  /** Usage of the message in progress. */
  readonly open: PiSpent | null;
}

interface PiSpent extends TokenCount {
  /** US dollars, by pi's own price list. */
  readonly cost: number;
}

export const INITIAL_PI_STATE: PiState = {
  last: null,
  isOver: false,
  hasActed: false,
  absent: new Set(),
  spent: null,
  open: null,
};

export function readPiLine(state: PiState, line: string): ParsedLine<PiState> {
  // The last line repeats the whole call. A long one arrives in pieces that are not valid JSON.
  if (line.startsWith('{"type":"agent_end"')) return { state: { ...state, isOver: true }, events: [] };
  const event = parseJsonRecord(line);
  const message = asRecord(event["message"]);
  const isModels = message["role"] === "assistant";
  switch (event["type"]) {
    case "session": {
      const id = asText(event["id"]);
      return { state, events: id === "" ? [] : [{ kind: "session", id }] };
    }
    case "agent_start":
      return { state: { ...state, isOver: false }, events: [] };
    case "auto_retry_start":
      return { state, events: [], waiting: true };
    case "message_start":
    case "message_update":
      return { state: isModels ? { ...state, open: spentOf(message) } : state, events: [] };
    case "message_end":
      return isModels ? readMessage(state, message) : { state, events: [] };
    case "tool_execution_start": {
      const tool = {
        kind: "tool",
        name: asText(event["toolName"]),
        detail: toolDetail(event["args"], ["command", "path", "pattern"]),
      } as const;
      return { state: { ...state, hasActed: true }, events: [tool] };
    }
    case "tool_execution_end":
      return { state: readResult(state, event), events: [] };
    default:
      return { state, events: [] };
  }
}

function readMessage(state: PiState, message: JsonRecord): ParsedLine<PiState> {
  const own = spentOf(message);
  const text = textOf(asRecords(message["content"]).filter(({ type }) => type === "text"));
  const last = { text, stop: asText(message["stopReason"]), error: asText(message["errorMessage"]) };
  return {
    state: { ...state, last, hasActed: state.hasActed || text !== "", spent: add(state.spent, own), open: null },
    events: text === "" ? [] : [{ kind: "text", text }],
    response: last.stop === "toolUse" ? "more" : "last",
  };
}

function readResult(state: PiState, event: JsonRecord): PiState {
  const name = asText(event["toolName"]);
  const text = textOf(asRecord(event["result"])["content"]);
  const isAbsent = event["isError"] === true && text === `Tool ${name} not found`;
  return isAbsent ? { ...state, absent: new Set([...state.absent, name]) } : state;
}

function spentOf(message: JsonRecord): PiSpent {
  const usage = asRecord(message["usage"]);
  return {
    input: asCount(usage["input"]) + asCount(usage["cacheRead"]) + asCount(usage["cacheWrite"]),
    output: asCount(usage["output"]),
    cost: asCount(asRecord(usage["cost"])["total"]),
  };
}

function add(one: PiSpent | null, other: PiSpent): PiSpent {
  return one === null ? other : { ...addTokens(one, other), cost: one.cost + other.cost };
}
