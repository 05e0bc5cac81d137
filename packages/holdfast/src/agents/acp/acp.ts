import type { Agent, AgentCapabilities, AgentOutcome, AgentTask } from "../../ports/agent.ts";
import type { Clock } from "../../ports/clock.ts";
import { shellCommand } from "../../system/shell-command.ts";
import { runAgentProcess } from "../agent-process.ts";
import { createWaitingWatch } from "../frame/waiting-watch.ts";
import { isOverflow, STREAM_ERROR } from "../opencode/classify.ts";
import { passedEnvironment } from "../passed-environment.ts";
import { createCallRecord } from "./call-record.ts";
import type { AcpEnd } from "./classify.ts";
import { converse } from "./converse.ts";
import { keepGeminiSession } from "./keep-gemini-session.ts";
import { createSpoken, outputTo } from "./program-streams.ts";
import { INSTALL_SDK, loadAcpSdk, type AcpSdk } from "./sdk.ts";

/** `acp:<command line>`: any program that speaks the Agent Client Protocol on its standard streams, such as `acp:gemini --acp`. */
export function createAcpAgent(params: AcpParams): Agent {
  return {
    name: "acp",
    capabilities: CAPABILITIES,
    sessions: null,
    async run(task) {
      const line = task.model?.trim() ?? "";
      if (line === "") return nothingDone(task, "No command line of an ACP agent is given", NAME_IT);
      const sdk = await loadAcpSdk();
      if (sdk === null)
        return nothingDone(task, "The library of the Agent Client Protocol is not installed", INSTALL_SDK);
      const env = passedEnvironment({ agent: "acp", task, named: params.env });
      return await perform({ sdk, task: { ...task, idleMs: task.idleMs ?? IDLE_MS }, env, line, clock: params.clock });
    },
    preview(task) {
      const { command, args } = shellCommand(task.model ?? "");
      const env = {
        ...environmentOf(task.model ?? ""),
        ...passedEnvironment({ agent: "acp", task, named: params.env }),
      };
      return { argv: [command, ...args], env: Object.keys(env).toSorted() };
    },
    async probe() {
      const isThere = (await loadAcpSdk()) !== null;
      const problem = isThere ? null : "The library of the Agent Client Protocol is not installed";
      return { installed: isThere, version: null, problem, hint: isThere ? null : INSTALL_SDK };
    },
  };
}

interface AcpParams {
  readonly clock: Clock;
  /** Variables that the user passes to every agent. */
  readonly env?: readonly string[];
}

/** Tokens and money are passed on where the agent tells them; that it does is not promised. */
const CAPABILITIES: AgentCapabilities = {
  resume: true,
  forkAtMessage: false,
  chooseSession: false,
  usage: false,
  cost: false,
  structuredOutput: false,
};

const NAME_IT = "Write it after the colon: acp:gemini --acp.";
/** Some are silent while the model thinks and while a command runs. */
const IDLE_MS = 15 * 60_000;
/** To end by itself after its input was closed, and to answer after it was cancelled. */
const LEAVE_MS = 3000;
const CANCEL_MS = 2000;

/** OpenCode makes a failed request again and again, and reports that in its log alone: the log goes to standard error. */
function environmentOf(line: string): Readonly<Record<string, string>> {
  return /\bopencode\b/.test(line) ? { OPENCODE_PRINT_LOGS: "1", OPENCODE_LOG_LEVEL: "ERROR" } : {};
}

async function perform(params: {
  readonly sdk: AcpSdk;
  readonly task: AgentTask;
  readonly env: Readonly<Record<string, string>>;
  readonly line: string;
  readonly clock: Clock;
}): Promise<AgentOutcome> {
  const { sdk, task, env, line } = params;
  const watch = createWaitingWatch(task.idleMs);
  const onWork = (kind: "text" | "tool"): void => {
    watch.line(false);
    if (kind === "tool") watch.acted();
  };
  const record = createCallRecord({ task, env, line: nameOf(line), onWork });
  const stop = new AbortController();
  const timers: NodeJS.Timeout[] = [];
  const stopIn = (milliseconds: number): void => void timers.push(setTimeout(() => stop.abort(), milliseconds));
  const onAbort = (): void => stopIn(CANCEL_MS);
  if (task.signal.aborted) stop.abort();
  else task.signal.addEventListener("abort", onAbort, { once: true });
  watch.signal.addEventListener("abort", () => stop.abort(), { once: true });
  let talk: Promise<AcpEnd | null> = Promise.resolve(null);
  const ends: { last: AcpEnd | null; atStop?: AcpEnd | null } = { last: null };
  const spoken = createSpoken();
  // Before it starts: it looks through its sessions at once.
  if (/\bgemini\b/.test(line)) keepGeminiSession({ ...task, env });
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
    // What the agent answers after this is its reaction to being ended, such as "cancelled": it says nothing about the turn.
    onStop: () => (ends.atStop = ends.last),
    conversation: {
      begin(stdin) {
        const streams = { input: spoken.stream, output: outputTo(stdin) };
        talk = converse({ sdk, task, streams, listener: record.listener })
          .then((end) => (ends.last = end))
          .catch(() => null)
          .finally(() => {
            stdin.end();
            stopIn(LEAVE_MS);
          });
      },
      hear: spoken.add,
    },
  });
  spoken.end();
  const answered = await talk;
  const end = ends.atStop === undefined ? answered : ends.atStop;
  watch.stop();
  for (const timer of timers) clearTimeout(timer);
  task.signal.removeEventListener("abort", onAbort);
  const isOurs = watch.signal.aborted && exit.kind === "interrupted" && !task.signal.aborted;
  return record.conclude({ end, exit: isOurs ? { ...exit, kind: "idle" } : exit, now: params.clock.now() });
}

function nothingDone({ session }: AgentTask, message: string, hint: string): AgentOutcome {
  const usage = { inputTokens: 0, outputTokens: 0, microUsd: 0 };
  return { kind: "failed", cause: "missing", message, hint, until: null, session, usage, instant: true };
}

function nameOf(line: string): string {
  const flat = line.replaceAll(/\s+/g, " ");
  return `\`${flat.length > 80 ? `${flat.slice(0, 79)}…` : flat}\``;
}
