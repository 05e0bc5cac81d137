// The agent `acp:`: runs any program that speaks the Agent Client Protocol and turns its updates into events.

import {
  type Agent,
  type AgentEvent,
  type AgentOutcome,
  type AgentTask,
  type AgentUsage,
  knownUsage,
} from "@holdfast/core/agent";
import { type JsonRecord, asRecord, asText } from "@holdfast/core/json";
import type { Clock } from "@holdfast/platform/clock";
import { shellCommand } from "@holdfast/platform/subprocess";
import {
  type AcpListener,
  type AcpResult,
  type AcpSdk,
  INSTALL_SDK,
  classifyAcp,
  createOutputStream,
  loadAcpSdk,
  runAcpSession,
  toWritableStream,
} from "./acp-connection.ts";
import {
  type AgentExit,
  agentEnvironment,
  commandLabel,
  ignoreListenerErrors,
  runAgentProcess,
} from "./agent-process.ts";
import { CLI_CAPABILITIES, type TokenCount, classifyResult, createWaitTimeout } from "./cli-agent.ts";
import { UNKNOWN_USAGE, notStarted } from "./failure-cause.ts";
import { protectGeminiSession } from "./gemini.ts";
import { STREAM_ERROR, isOverflow, waitingInLog } from "./opencode.ts";
import { INITIAL_QWEN_STATE, classifyQwen, parseRequestRecord, sessionFile } from "./qwen.ts";
import { asCount, readAgentText } from "./session-files.ts";

/**
 * `acp:<command line>`: any program that speaks the Agent Client Protocol on its standard streams.
 * Example: `acp:gemini --acp`.
 */
export function createAcpAgent(params: AcpParams): Agent {
  return {
    name: "acp",
    capabilities: CAPABILITIES,
    sessions: null,
    replays: true,
    async run(task) {
      const line = task.model?.trim() ?? "";
      if (line === "") return missing(task, "No command line of an ACP agent is given", NAME_IT);
      const sdk = await loadAcpSdk();
      if (sdk === null) return missing(task, NO_SDK, INSTALL_SDK);
      const env = agentEnvironment({ agent: "acp", task, named: params.env });
      return await runCall({ sdk, task, env, line, clock: params.clock });
    },
    preview(task) {
      const { command, args } = shellCommand(task.model ?? "");
      const env = {
        ...environmentOf(task.model ?? ""),
        ...agentEnvironment({ agent: "acp", task, named: params.env }),
      };
      return { argv: [command, ...args], env: Object.keys(env).toSorted() };
    },
    async probe() {
      if ((await loadAcpSdk()) !== null) return { installed: true, version: null, problem: null, hint: null };
      return { installed: false, version: null, problem: NO_SDK, hint: INSTALL_SDK };
    },
  };
}

interface AcpParams {
  readonly clock: Clock;
  /** Variables that the user passes to every agent. */
  readonly env?: readonly string[];
}

/** Tokens and cost are reported if the agent provides them, which is not guaranteed. */
const CAPABILITIES = { ...CLI_CAPABILITIES, chooseSession: false, usage: false, cost: false };

const NAME_IT = "Write it after the colon: acp:gemini --acp.";
const NO_SDK = "The library of the Agent Client Protocol is not installed";
/**
 * Milliseconds for the program to exit after its input was closed. CANCEL_MS is the time to answer after a
 * cancellation.
 */
const LEAVE_MS = 3000;
const CANCEL_MS = 2000;

/**
 * OpenCode retries a failed request many times and reports that only in its log. These variables send the log to
 * standard error.
 */
function environmentOf(line: string): Readonly<Record<string, string>> {
  return /\bopencode\b/.test(line) ? { OPENCODE_PRINT_LOGS: "1", OPENCODE_LOG_LEVEL: "ERROR" } : {};
}

async function runCall(params: {
  readonly sdk: AcpSdk;
  readonly task: AgentTask;
  readonly env: Readonly<Record<string, string>>;
  readonly line: string;
  readonly clock: Clock;
}): Promise<AgentOutcome> {
  const { sdk, task, env, line } = params;
  const watch = createWaitTimeout(task.idleMs);
  const onWork = (kind: "text" | "tool"): void => {
    watch.line(false);
    if (kind === "tool") watch.acted();
  };
  const record = createCallRecord({ task, env, line: commandLabel(line), onWork });
  const stop = new AbortController();
  const timers: NodeJS.Timeout[] = [];
  const stopIn = (milliseconds: number): void => void timers.push(setTimeout(() => stop.abort(), milliseconds));
  const onAbort = (): void => stopIn(CANCEL_MS);
  if (task.signal.aborted) stop.abort();
  else task.signal.addEventListener("abort", onAbort, { once: true });
  watch.signal.addEventListener("abort", () => stop.abort(), { once: true });
  let talk: Promise<AcpResult | null> = Promise.resolve(null);
  const ends: { last: AcpResult | null; atStop?: AcpResult | null } = { last: null };
  const output = createOutputStream();
  // This must happen before the start, because the program searches its sessions immediately.
  if (/\bgemini\b/.test(line)) protectGeminiSession(task.session, { task, env });
  const exit = await runAgentProcess({
    task: { ...task, signal: stop.signal },
    env: { ...environmentOf(line), ...env },
    ...shellCommand(line),
    input: "",
    onLine: () => undefined,
    onErrorLine(text) {
      if (STREAM_ERROR.test(text)) watch.line(true);
      if (isOverflow(text)) watch.overflow();
    },
    // Answers after this point react to being stopped, such as "cancelled", and do not describe the turn.
    onStop: () => (ends.atStop = ends.last),
    conversation: {
      begin(stdin) {
        const streams = { input: output.stream, output: toWritableStream(stdin) };
        talk = runAcpSession({ sdk, task, streams, listener: record.listener })
          .then((end) => (ends.last = end))
          .catch(() => null)
          .finally(() => {
            stdin.end();
            stopIn(LEAVE_MS);
          });
      },
      onText: output.add,
    },
  });
  output.end();
  const answered = await talk;
  const end = ends.atStop === undefined ? answered : ends.atStop;
  watch.stop();
  for (const timer of timers) clearTimeout(timer);
  task.signal.removeEventListener("abort", onAbort);
  const isOurs = watch.signal.aborted && exit.kind === "interrupted" && !task.signal.aborted;
  return record.conclude({ end, exit: isOurs ? { ...exit, kind: "idle" } : exit, now: params.clock.now() });
}

function missing({ session }: AgentTask, message: string, hint: string): AgentOutcome {
  return notStarted(session, { cause: "missing", message, hint });
}

/** Collects the events of a conversation and its result. */
function createCallRecord(params: {
  readonly task: AgentTask;
  /** The environment of the program. */
  readonly env: Readonly<Record<string, string>>;
  readonly line: string;
  /** Called for each text or tool call. */
  readonly onWork: (kind: "text" | "tool") => void;
}) {
  const { task, env, line, onWork } = params;
  const emit = ignoreListenerErrors(task.onEvent);
  const denied: string[] = [];
  let state = INITIAL_ACP_STATE;
  let costBefore: number | null = null;
  let answer: JsonRecord | null = null;
  let session = task.session;
  let agent = { name: "", title: line };
  let worked = false;
  /** The content of Qwen Code's session record when the prompt was sent; null if it was not sent. */
  let before: string | null = null;
  const qwenRecord = (): string =>
    agent.name === "qwen-code" ? readAgentText(sessionFile({ session: session ?? "", cwd: task.cwd, env })) : "";
  const report = (event: AgentEvent): void => {
    if (event.kind === "text" || event.kind === "tool") {
      worked = true;
      onWork(event.kind);
    }
    emit(event);
  };
  const listener: AcpListener = {
    update(update, isOld) {
      const step = readUpdate(state, update);
      // An earlier call already reported and counted what a loaded session replays. Its cost so far is the start value
      // of this call.
      if (isOld) costBefore = step.state.cost ?? costBefore;
      state = isOld ? { ...INITIAL_ACP_STATE, cost: step.state.cost } : step.state;
      if (!isOld) for (const event of step.events) report(event);
    },
    session(id) {
      session = id;
      before = qwenRecord();
      report({ kind: "session", id });
    },
    denied: (what) => void denied.push(what),
    agent: ({ name, title }) => void (agent = { name, title: title === "" ? line : title }),
    answer: (given) => void (answer = given),
  };
  const conclude = (params: {
    readonly end: AcpResult | null;
    readonly exit: AgentExit;
    readonly now: number;
  }): AgentOutcome => {
    const { end, now } = params;
    const { text } = state;
    const { title } = agent;
    const resumes = task.session !== null;
    // Some agents silently retry a failed request and write the reason only to a file or log.
    const refused = end === null && before !== null ? parseRequestRecord(qwenRecord(), before).refused : null;
    const classified = classifyResult({
      end:
        refused !== null
          ? classifyQwen({ state: INITIAL_QWEN_STATE, refused, exit: params.exit, resumes })
          : end === null
            ? waitingInLog(params.exit.stderr)
            : classifyAcp({ end, title, text, denied, resumes, worked }),
      exit: exitOf(params.exit, { hasAnswered: end !== null, isInterrupted: task.signal.aborted }),
      title,
      worked,
      now,
      task,
    });
    const reported = acpUsage({ answer, agent: agent.name, isNew: !resumes, costBefore, costNow: state.cost });
    const usage = knownUsage(reported);
    const tokens = (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0);
    if (tokens > 0) emit({ kind: "usage", tokens, total: usage, isLast: true });
    const spent = params.exit.kind === "not_started" ? UNKNOWN_USAGE : usage;
    return { ...classified, session, usage: spent };
  };
  return { listener, conclude };
}

/** Such a program serves until its input is closed. Once it has answered, its exit status has no meaning. */
function exitOf(
  exit: AgentExit,
  { hasAnswered, isInterrupted }: { readonly hasAnswered: boolean; readonly isInterrupted: boolean },
): AgentExit {
  if (exit.kind === "not_started" || exit.kind === "timed_out" || exit.kind === "idle")
    return hasAnswered ? left(exit) : exit;
  if (isInterrupted) return { ...exit, kind: "interrupted" };
  // The process was ended by us while the run continued: it did not exit after its input was closed.
  return hasAnswered || exit.kind === "interrupted" ? left(exit) : exit;
}

function left(exit: AgentExit): AgentExit {
  return { ...exit, kind: "exited", code: 0, signal: null };
}

/** The state after the updates received so far. */
interface AcpProgress {
  /** The agent's text since its last tool call. */
  readonly text: string;
  /** True if a tool call came after the text: the next text replaces it. */
  readonly isStale: boolean;
  /** Cost of the whole session in micro-dollars, as last reported; null if not reported or in another currency. */
  readonly cost: number | null;
}

export const INITIAL_ACP_STATE: AcpProgress = { text: "", isStale: false, cost: null };

/** Handles one `session/update`. Unknown and irrelevant kinds change nothing. */
export function readUpdate(
  state: AcpProgress,
  update: JsonRecord,
): { readonly state: AcpProgress; readonly events: readonly AgentEvent[] } {
  switch (update["sessionUpdate"]) {
    case "agent_message_chunk": {
      const text = asText(asRecord(update["content"])["text"]);
      if (text === "") return { state, events: [] };
      const before = state.isStale ? "" : state.text;
      return { state: { ...state, text: before + text, isStale: false }, events: [{ kind: "text", text }] };
    }
    case "tool_call": {
      const name = asText(update["kind"]) || "tool";
      return { state: { ...state, isStale: true }, events: [{ kind: "tool", name, detail: asText(update["title"]) }] };
    }
    case "usage_update":
      return { state: { ...state, cost: microUsdOf(asRecord(update["cost"])) ?? state.cost }, events: [] };
    default:
      return { state, events: [] };
  }
}

function microUsdOf({ amount, currency }: JsonRecord): number | null {
  if (typeof amount !== "number" || currency !== "USD") return null;
  return Math.round(asCount(amount) * 1e6);
}

/**
 * The usage of this call alone. Agents report the cost of the whole session, so the cost before the call is subtracted
 * where it is known. Tokens are in the answer to the prompt. The protocol defines them both per turn and per session,
 * so they are used only where both are the same.
 */
export function acpUsage(params: {
  /** The answer to the prompt; null if none came. */
  readonly answer: JsonRecord | null;
  /** The agent's internal name. */
  readonly agent: string;
  readonly isNew: boolean;
  /** Cost of the session in micro-dollars before the prompt and now; null if not reported. */
  readonly costBefore: number | null;
  readonly costNow: number | null;
}): AgentUsage {
  const { answer, agent, isNew, costNow } = params;
  const tokens =
    answer === null
      ? null
      : (quotaOf(answer) ?? (isNew && !REPORTS_LAST_REQUEST_ONLY.has(agent) ? usageOf(answer) : null));
  const before = isNew ? (params.costBefore ?? 0) : params.costBefore;
  return {
    inputTokens: tokens?.input ?? null,
    outputTokens: tokens?.output ?? null,
    microUsd: costNow === null || before === null ? null : Math.max(0, costNow - before),
  };
}

/** Agents that report only the tokens of the last request of a turn. */
const REPORTS_LAST_REQUEST_ONLY: ReadonlySet<string> = new Set(["OpenCode"]);

function usageOf(answer: JsonRecord): TokenCount | null {
  const usage = asRecord(answer["usage"]);
  const [input, output] = [countOf(usage["inputTokens"]), countOf(usage["outputTokens"])];
  if (input === null || output === null) return null;
  const cached = (countOf(usage["cachedReadTokens"]) ?? 0) + (countOf(usage["cachedWriteTokens"]) ?? 0);
  // Some agents include cached tokens in the input and some do not; the total shows which.
  const isSeparate = countOf(usage["totalTokens"]) === input + cached + output;
  return { input: isSeparate ? input + cached : input, output };
}

/** Gemini CLI's format, which counts the turn alone. */
function quotaOf(answer: JsonRecord): TokenCount | null {
  const count = asRecord(asRecord(asRecord(answer["_meta"])["quota"])["token_count"]);
  const [input, output] = [countOf(count["input_tokens"]), countOf(count["output_tokens"])];
  return input === null || output === null ? null : { input, output };
}

function countOf(value: unknown): number | null {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
}
