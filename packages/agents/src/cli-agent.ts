// The common part of all agents that are command-line programs: process, session, events, result and probe.

import type {
  Agent,
  AgentArgs,
  AgentCapabilities,
  AgentEvent,
  AgentOutcome,
  AgentProbe,
  AgentSessions,
  AgentTask,
  AgentUsage,
  FailureCause,
  SessionReader,
} from "@holdfast/core/agent";
import { sha256 } from "@holdfast/core/json";
import type { Clock } from "@holdfast/platform/clock";
import { randomId } from "@holdfast/platform/identity";
import { childEnvironment } from "@holdfast/platform/marked-process";
import { type ProcessResult, findProgram, runProcess } from "@holdfast/platform/subprocess";
import { type AgentExit, agentEnvironment, ignoreListenerErrors, runAgentProcess } from "./agent-process.ts";
import { AGENT_VERSIONS, judgeVersion } from "./agent-versions.ts";
import { UNKNOWN_USAGE, classifyExit } from "./failure-cause.ts";

/** Creates an agent from a CLI adapter. */
export function createCliAgent<State>(dialect: CliAdapter<State>, params: CliAgentParams): Agent {
  return {
    name: dialect.name,
    capabilities: dialect.capabilities,
    sessions: dialect.sessions,
    ...(dialect.records === undefined ? {} : { records: dialect.records }),
    async run(given) {
      const task = { ...given, idleMs: given.idleMs ?? dialect.idleMs };
      const extra = params.args?.[dialect.name] ?? [];
      const env = agentEnvironment({ agent: dialect.name, task, args: extra, named: params.env });
      const found = findProgram(dialect.program, env["PATH"]);
      if (found === undefined) return nothingDone(task.session, missing(dialect));
      const call = prepare(dialect, { task, session: task.session, extra, env, now: () => params.clock.now() });
      return await perform({ dialect, call, line: dialect.native?.(found) ?? [found] });
    },
    preview(task) {
      const extra = params.args?.[dialect.name] ?? [];
      const env = agentEnvironment({ agent: dialect.name, task, args: extra, named: params.env });
      const call = prepare(dialect, { task, session: task.session, extra, env, now: () => params.clock.now() });
      const plan = dialect.plan(call);
      const { args, env: more } = plan.kind === "start" ? plan : { args: [], env: {} };
      const shown = args.map((arg) =>
        arg.replaceAll(task.prompt, "<prompt>").replaceAll(call.session ?? "\0", "<session>"),
      );
      const names = Object.keys({ ...env, ...dialect.environment, ...more });
      return { argv: [findProgram(dialect.program, env["PATH"]) ?? dialect.program, ...shown], env: names.toSorted() };
    },
    probe: () => probeProgram(dialect, params.env),
  };
}

export interface CliAgentParams {
  readonly clock: Clock;
  readonly args?: AgentArgs;
  /** Variables that the user passes to every agent. */
  readonly env?: readonly string[];
}

/** A new session or a fork gets a new id if the agent accepts one. */
function prepare<State>(dialect: CliAdapter<State>, call: CliCall): CliCall {
  const { task } = call;
  const isNew = task.session === null || isFork(task);
  if (!isNew) return call;
  if (!dialect.capabilities.chooseSession) return { ...call, session: null };
  const isTaken = (id: string): boolean => dialect.isTaken?.(id, call) ?? false;
  return { ...call, session: newSessionId(task, isTaken, dialect.sessionIds) };
}

async function perform<State>(params: {
  readonly dialect: CliAdapter<State>;
  readonly call: CliCall;
  readonly line: readonly [string, ...string[]];
}): Promise<AgentOutcome> {
  const { dialect, call } = params;
  const [command, ...before] = params.line;
  const { task } = call;
  if (isFork(task) && !dialect.capabilities.forkAtMessage) return nothingDone(task.session, cannotFork(dialect));
  const plan = dialect.plan(call);
  if (plan.kind === "refused") return nothingDone(task.session, plan);
  const emit = ignoreListenerErrors(task.onEvent);
  let { state } = plan;
  let session: string | null = null;
  let worked = false;
  let atStop: State | null = null;
  let told = 0;
  const watch = createWaitTimeout(task.idleMs);
  const tell = (event: AgentEvent): void => {
    if (event.kind === "text" || event.kind === "tool") worked = true;
    if (event.kind === "tool") watch.acted();
    if (event.kind === "session" && event.id === session) return;
    if (event.kind === "session") session = event.id;
    if (event.kind === "usage") told += event.tokens;
    emit(event);
  };
  // The session is reported before the start, so that a resume after a crash at any later moment can use it.
  if (call.session !== null && !task.signal.aborted) tell({ kind: "session", id: call.session });
  const signal = AbortSignal.any([task.signal, watch.signal]);
  const raw = await runAgentProcess({
    env: call.env,
    task: { ...task, signal, env: { ...task.env, ...dialect.environment, ...plan.env } },
    command,
    args: [...before, ...plan.args],
    input: plan.input,
    onStop: () => (atStop = state),
    onErrorLine(line) {
      if (dialect.isWaiting?.(line) === true) watch.line(true);
      if (dialect.isOverflow?.(line) === true) watch.overflow();
    },
    onLine(line) {
      const step = dialect.read(state, line);
      state = step.state;
      watch.line(step.waiting === true);
      for (const event of step.events) tell(event);
    },
  });
  watch.stop();
  const isOurs = raw.kind === "interrupted" && !task.signal.aborted;
  const exit: AgentExit = isOurs ? { ...raw, kind: "idle" } : raw;
  const usage = exit.kind === "not_started" ? UNKNOWN_USAGE : dialect.usage(state, call);
  const untold = (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0) - told;
  if (untold > 0) tell({ kind: "usage", tokens: untold });
  // The state before the stop is used, because some agents report success when they are ended.
  const end = dialect.end(atStop ?? state, exit, call);
  const judged = classifyResult({ end, exit, title: dialect.title, worked, now: call.now(), task });
  return { ...judged, session: session ?? task.session, usage };
}

function isFork(task: AgentTask): boolean {
  return task.forkAt !== undefined && task.forkAt !== null;
}

function nothingDone(session: string | null, failure: CliFailure): AgentOutcome {
  const { cause, message, hint, until } = failure;
  const usage = { inputTokens: 0, outputTokens: 0, microUsd: 0 };
  return { kind: "failed", cause, message, hint, until, session, usage, instant: true };
}

function missing(dialect: { readonly title: string; readonly program: string; readonly install: string }): CliFailure {
  const message = `${dialect.title} is not installed: there is no ${dialect.program} on PATH`;
  return { cause: "missing", message, hint: dialect.install, until: null };
}

function cannotFork({ title }: { readonly title: string }): CliFailure {
  const message = `${title} cannot go on from the middle of a session`;
  return { cause: "session_lost", message, hint: null, until: null };
}

/**
 * Describes one agent's command line. createCliAgent does the rest. It finds the program, chooses and reports a
 * session, and runs the process under the mark and the watchdog. It reduces the output lines and classifies the end.
 *
 * `read` and `end` are pure; the others may read the agent's own files. Only `plan` may write them, where an agent
 * would otherwise lose a session.
 */
export interface CliAdapter<State> {
  /** The part before the colon of `provider:model`. */
  readonly name: string;
  /** The name used in messages. */
  readonly title: string;
  /** The name of the program on PATH. */
  readonly program: string;
  /** The hint for a missing program. */
  readonly install: string;
  readonly capabilities: AgentCapabilities;
  readonly sessions: AgentSessions | null;
  readonly records?: SessionReader;
  /**
   * The idle limit if a task sets none. It is longer than the agent is ever silent while it works, and no call hangs
   * for ever.
   */
  readonly idleMs: number;
  /** Environment variables for every start of the program, including probes. */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * The command that replaces a wrapper on PATH: a wrapper is a second process, and killing it would leave the agent
   * running. The elements after the first precede all arguments.
   */
  native?(path: string): readonly [string, ...string[]];
  /** The UUID version that the agent accepts for a session; "8" by default. */
  readonly sessionIds?: UuidVersion;
  /** True if this session id was used before. Called only for agents that can choose one. */
  isTaken?(session: string, call: CliCall): boolean;
  plan(call: CliCall): CliPlan<State>;
  /** Reads one line of standard output. Never throws: an irrelevant line changes nothing. */
  read(state: State, line: string): ParsedLine<State>;
  /**
   * True if a line of standard error only reports that the agent waits and retries. Such a line does not reset the idle
   * limit.
   */
  isWaiting?(line: string): boolean;
  /**
   * True if a line of standard error reports that the model rejected the prompt as too long while the agent continues.
   */
  isOverflow?(line: string): boolean;
  /** The result according to the lines, independent of the exit status. */
  end(state: State, exit: AgentExit, call: CliCall): CliResult;
  /** The usage of this call alone, even if it was killed. No process of the agent runs any more. */
  usage(state: State, call: CliCall): AgentUsage;
  /** `run` starts the program with these arguments, our environment and no input. A probe must not cost any tokens. */
  probe(run: (args: readonly string[]) => Promise<ProcessResult>): Promise<AgentProbe>;
}

export interface CliCall {
  readonly task: AgentTask;
  /**
   * The session to resume, or the id chosen for a new one; null if the agent chooses and reports it. With `task.forkAt`
   * it is the new one.
   */
  readonly session: string | null;
  /** The user's own arguments for the program. */
  readonly extra: readonly string[];
  /** The environment of the program, without the variables of the plan. */
  readonly env: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  now(): number;
}

type CliPlan<State> =
  | {
      readonly kind: "start";
      readonly args: readonly string[];
      readonly input: string;
      /** Overrides the task's environment. */
      readonly env: Readonly<Record<string, string>>;
      readonly state: State;
    }
  /** Nothing was started and nothing was spent. */
  | ({ readonly kind: "refused" } & CliFailure);

export interface ParsedLine<State> {
  readonly state: State;
  /** createCliAgent adds the raw event of the line. A session is reported once, however often it occurs here. */
  readonly events: readonly AgentEvent[];
  /** True if the line only reports that the agent waits and retries. Such a line does not reset the idle limit. */
  readonly waiting?: boolean;
}

export type CliResult =
  /** No terminal event was received. */
  | { readonly kind: "open" }
  /**
   * No terminal event was received, and the last output names what the agent waits for. If it was ended for silence,
   * that is the reason.
   */
  | ({ readonly kind: "waiting" } & CliFailure)
  | { readonly kind: "completed"; readonly text: string }
  | ({ readonly kind: "failed" } & CliFailure);

export interface CliFailure {
  readonly cause: FailureCause;
  readonly message: string;
  readonly hint: string | null;
  /** ISO 8601. */
  readonly until: string | null;
}

type Judged = Pick<Extract<AgentOutcome, { kind: "completed" }>, "kind" | "text"> | Omit<Failed, "session" | "usage">;
type Failed = Extract<AgentOutcome, { kind: "failed" }>;

/**
 * A call succeeds only with a terminal event without an error, exit code 0, and no surviving process. If Holdfast ended
 * the process, the reason for that decides. Otherwise the agent's own report takes precedence over its exit code.
 */
export function classifyResult(params: {
  readonly end: CliResult;
  readonly exit: AgentExit;
  readonly title: string;
  /** True if a text or a tool call was received. */
  readonly worked: boolean;
  readonly now: number;
  readonly task: Pick<AgentTask, "timeoutMs" | "idleMs">;
}): Judged {
  const { end, exit, title, worked, now } = params;
  const { timeoutMs, idleMs } = params.task;
  const ended = classifyExit({ exit, name: title, now, timeoutMs, idleMs });
  const byItself = exit.survivors === null && exit.kind === "exited";
  const isInstant = (byItself || exit.kind === "signalled") && !worked && exit.milliseconds < INSTANT_MS;
  const fail = (failure: CliFailure): Judged => {
    const { cause, message, hint, until } = failure;
    return { kind: "failed", cause, message, hint, until, instant: isInstant && !SAME_AGAIN.includes(cause) };
  };
  if (exit.kind === "not_started" && ended !== null) return ended;
  const waitsFor = end.kind === "waiting" && exit.survivors === null && exit.kind === "idle" ? end : null;
  if (ended !== null && !byItself) return fail(waitsFor ?? ended);
  switch (end.kind) {
    case "failed":
      return fail(end);
    case "open":
    case "waiting":
      return fail(ended ?? { cause: "crash", message: `${title} ended without a result`, hint: null, until: null });
    case "completed":
      return ended === null ? { kind: "completed", text: end.text } : fail(ended);
  }
}

/** Causes with which the same call would fail again. */
const SAME_AGAIN: readonly FailureCause[] = ["context_too_long", "permission_denied"];
/** These programs take a second or two to report that they cannot start. */
const INSTANT_MS = 10_000;

/**
 * The id of a new session, as a UUID. It is derived from the call, so that an attempt whose record was lost in a crash
 * can be matched with its transcript. Ids already used are skipped.
 */
export function newSessionId(
  task: Pick<AgentTask, "mark" | "iteration" | "attempt">,
  isTaken: (id: string) => boolean,
  version: UuidVersion = "8",
): string {
  for (let count = 0; ; count += 1) {
    const id = uuidOf(sha256(JSON.stringify([task.mark, task.iteration, task.attempt, count])), version);
    if (!isTaken(id)) return id;
  }
}

/** Version 8 marks a custom scheme. Version 5 marks a name-based id, for agents that reject version 8. */
type UuidVersion = "5" | "8";

function uuidOf(hex: string, version: UuidVersion): string {
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `${version}${hex.slice(13, 16)}`,
    `a${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return parts.join("-");
}

/**
 * The idle limit for an agent that keeps printing that it waits. It starts with the first such line in a row; any other
 * line cancels it.
 */
export function createWaitTimeout(idleMs: number | null): WaitingWatch {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | null = null;
  let overflows = 0;
  const stop = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
  };
  return {
    signal: controller.signal,
    line(isWaiting) {
      if (!isWaiting) stop();
      else if (timer === null && idleMs !== null) timer = setTimeout(() => controller.abort(), idleMs);
    },
    overflow() {
      overflows += 1;
      if (overflows === MAX_OVERFLOWS) controller.abort();
    },
    acted: () => void (overflows = 0),
    stop,
  };
}

/** The first overflow leads to a summary of the history, which may help. The next one shows that it did not. */
const MAX_OVERFLOWS = 3;

interface WaitingWatch {
  /** Aborted when the agent has waited too long. */
  readonly signal: AbortSignal;
  line(isWaiting: boolean): void;
  /**
   * Reports that the model rejected the prompt as too long. The third time without a tool call in between ends the
   * call, because each one costs a summary.
   */
  overflow(): void;
  /** Reports a tool call. */
  acted(): void;
  stop(): void;
}

/** Checks that the program exists and responds. */
async function probeProgram<State>(
  dialect: CliAdapter<State>,
  named: readonly string[] | undefined,
): Promise<AgentProbe> {
  const { title, program, install } = dialect;
  const found = findProgram(program);
  if (found === undefined) {
    const problem = `There is no ${program} on PATH`;
    return { installed: false, version: null, problem, hint: install };
  }
  const [command, ...before] = dialect.native?.(found) ?? [found];
  const base = agentEnvironment({ agent: dialect.name, task: { model: null, env: {} }, named });
  const env = childEnvironment({ base, mark: `probe-${randomId()}`, env: dialect.environment ?? {} });
  try {
    const probe = await dialect.probe((args) =>
      runProcess({ command, args: [...before, ...args], cwd: "/", env, timeoutMs: PROBE_MS }),
    );
    const known = AGENT_VERSIONS[dialect.name];
    if (known === undefined) return probe;
    switch (judgeVersion(dialect.name, probe.version)) {
      case "ok":
        return probe;
      case "too_old": {
        const problem = `Version ${probe.version ?? ""} is too old: Holdfast needs ${known.minimum} or newer (${known.needs})`;
        return { ...probe, problem, hint: `Upgrade it: ${known.upgrade}` };
      }
      case "unknown": {
        if (probe.problem !== null) return probe;
        const problem = `Its version cannot be read; Holdfast needs ${known.minimum} or newer`;
        return { ...probe, problem, hint: `Run ${program} --version by hand.` };
      }
    }
  } catch (error) {
    const problem = `${title} could not be asked: ${error instanceof Error ? error.message : String(error)}`;
    return { installed: true, version: null, problem, hint: `Run ${program} --version by hand.` };
  }
}

/** Some programs take seconds to print their version, and longer on a busy machine. */
const PROBE_MS = 30_000;

/** Probes with `--version`, for programs without a command that reports a login. */
export async function probeVersion(
  run: (args: readonly string[]) => Promise<ProcessResult>,
  { program, install }: { readonly program: string; readonly install: string },
): Promise<AgentProbe> {
  const answer = await run(["--version"]);
  const said = `${answer.stdout.toString("utf8")}\n${answer.stderr}`;
  const version = /\d+\.\d+\.\d+[\w.+-]*/.exec(said)?.[0].replace(/\.$/, "") ?? null;
  if (answer.code === 0 && version !== null) return { installed: true, version, problem: null, hint: null };
  const problem = `${program} --version failed: ${answer.stderr.trim().slice(-300) || `exit ${answer.code ?? "none"}`}`;
  return { installed: true, version: null, problem, hint: install };
}

/**
 * Returns the user's arguments with our permission arguments before them. If the user's arguments set permissions, ours
 * are omitted, even with `--yolo`. Most programs reject two values, and a limit set by the user must be kept.
 */
export function permissionArgs(params: {
  readonly ours: readonly string[];
  readonly extra: readonly string[];
  /** Options that set permissions, like ours. */
  readonly words: readonly string[];
}): readonly string[] {
  const { ours, extra, words } = params;
  return extra.some((arg) => words.includes(arg.split("=")[0] ?? "")) ? extra : [...ours, ...extra];
}

/**
 * Usage of an agent that reports tokens and dollars; `spent` is null if it reported nothing. A model without a known
 * price reports 0, which is treated as unknown.
 */
export function pricedUsage(
  spent: { readonly input: number; readonly output: number; readonly cost: number } | null,
): AgentUsage {
  if (spent === null) return UNKNOWN_USAGE;
  const { input, output, cost } = spent;
  const isPriced = cost > 0 || input + output === 0;
  return { inputTokens: input, outputTokens: output, microUsd: isPriced ? Math.round(cost * 1e6) : null };
}

/** Usage of an agent that reports tokens but no cost. Zero tokens cost nothing; any other cost is unknown. */
export function unpricedUsage(tokens: {
  readonly input: number;
  readonly output: number;
  /** The cached part of the input, which has another price. Absent if the agent does not report it. */
  readonly cached?: number;
}): AgentUsage {
  const { input, output, cached } = tokens;
  const microUsd = input + output === 0 ? 0 : null;
  const told = cached === undefined ? {} : { cachedTokens: cached };
  return { inputTokens: input, outputTokens: output, ...told, microUsd };
}

/** The plan of an adapter when the agent has no record of the session to resume. */
export function sessionNotFound(message: string) {
  return { kind: "refused", cause: "session_lost", message, hint: null, until: null } as const;
}
