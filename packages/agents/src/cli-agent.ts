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

/** An agent that is a program with a command line of its own. */
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

/** A new session, or a fork, has a new id where the agent takes one. */
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
  // Told before the start: a crash at any moment after it can go on with this one.
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
  // Told to end, some say that all went well.
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
 * What one maker's command line says and understands; createCliAgent does the rest: finds the program, chooses a session where that can be
 * done and tells it before the start, runs it with the mark and the watchdog, folds its lines, judges its end.
 * `read` and `end` are pure; the others may look at the agent's own files. Nothing writes them, but `plan` where an agent would lose a session by itself.
 */
export interface CliAdapter<State> {
  /** What stands before the colon of `provider:model`. */
  readonly name: string;
  /** As messages call it. */
  readonly title: string;
  /** As PATH knows it. */
  readonly program: string;
  /** What to do where it is missing. */
  readonly install: string;
  readonly capabilities: AgentCapabilities;
  readonly sessions: AgentSessions | null;
  readonly records?: SessionReader;
  /** The watchdog where a task names none: longer than the agent is ever silent while it works. Nothing hangs for good. */
  readonly idleMs: number;
  /** What the program finds in its environment whatever it is started for. */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * The program itself, where what PATH knows is a wrapper: a second process that a kill would leave behind. What follows it goes before
   * all arguments.
   */
  native?(path: string): readonly [string, ...string[]];
  /** Which ids it takes for a session; by default "8". */
  readonly sessionIds?: UuidVersion;
  /** Was this session id used before? Only asked of agents that can choose one. */
  isTaken?(session: string, call: CliCall): boolean;
  plan(call: CliCall): CliPlan<State>;
  /** One line of standard output. Never throws: a line that says nothing changes nothing. */
  read(state: State, line: string): ParsedLine<State>;
  /** Does a line of standard error say only that the agent waits and tries again? Such a line is no sign of life for the watchdog. */
  isWaiting?(line: string): boolean;
  /** Does a line of standard error say that the model refused the prompt because it is too long, while the agent itself continues? */
  isOverflow?(line: string): boolean;
  /** What the lines came to, whatever the exit. */
  end(state: State, exit: AgentExit, call: CliCall): CliResult;
  /** Of this call alone, also when it was killed. Nothing of the agent runs any more. */
  usage(state: State, call: CliCall): AgentUsage;
  /** `run` starts the program with these arguments, our environment and no input; nothing here may cost a token. */
  probe(run: (args: readonly string[]) => Promise<ProcessResult>): Promise<AgentProbe>;
}

export interface CliCall {
  readonly task: AgentTask;
  /** Given to go on with, or chosen for a new one; null: the agent chooses and tells. With `task.forkAt`, the new one. */
  readonly session: string | null;
  /** The user's own arguments for the program. */
  readonly extra: readonly string[];
  /** What the program will find in its environment, less the plan's own. */
  readonly env: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  now(): number;
}

type CliPlan<State> =
  | {
      readonly kind: "start";
      readonly args: readonly string[];
      readonly input: string;
      /** Wins over the task's. */
      readonly env: Readonly<Record<string, string>>;
      readonly state: State;
    }
  /** Nothing was started, nothing was spent. */
  | ({ readonly kind: "refused" } & CliFailure);

export interface ParsedLine<State> {
  readonly state: State;
  /** The raw event of the line is the frame's. A session is told once, however often it stands here. */
  readonly events: readonly AgentEvent[];
  /** The line says only that the agent waits and tries again: no sign of life for the watchdog. */
  readonly waiting?: boolean;
}

export type CliResult =
  /** No terminal event came. */
  | { readonly kind: "open" }
  /** Nor did one, and the last that it said is what it waits for: that is why it was silent, where it was ended for silence. */
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
 * Success is a terminal event without an error *and* exit 0 *and* nothing left running. What we ended ourselves is judged by why; else what the
 * agent says about its failure goes before what its exit code may mean.
 */
export function classifyResult(params: {
  readonly end: CliResult;
  readonly exit: AgentExit;
  readonly title: string;
  /** Text or a tool call was seen. */
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

/** The same call would come to the same. */
const SAME_AGAIN: readonly FailureCause[] = ["context_too_long", "permission_denied"];
/** These programs take a second or two to say that they cannot begin. */
const INSTANT_MS = 10_000;

/**
 * The id of a new session, as a UUID. It follows from the call, so that a try whose record was lost in a crash can be traced to its
 * transcript; one that was used before is passed over.
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

/** 8 says that it is made in a way of our own; 5, that it follows from a name, for who knows no 8. */
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
 * The watchdog for an agent that goes on saying that it waits: such a line is no sign of life. It runs from the first of them in a row;
 * any other line calls it off.
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

/** One leads to a summary of the history, which may help; the next one shows that it did not. */
const MAX_OVERFLOWS = 3;

interface WaitingWatch {
  /** Aborted when it has waited long enough. */
  readonly signal: AbortSignal;
  line(isWaiting: boolean): void;
  /** The model refused the prompt because it is too long. The third time without a tool call in between is the end: each one costs a summary. */
  overflow(): void;
  /** A tool was called. */
  acted(): void;
  stop(): void;
}

/** Is it there, and does it answer? */
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

/** Some take seconds to say their version, on a machine that is busy many. */
const PROBE_MS = 30_000;

/** Does it say its version? For programs that have no command which tells of a login. */
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
 * What the user has put into the config, with ours for permissions before it: unless it speaks of the same. Then it alone holds, also with
 * `--yolo`, since most refuse two answers to one question and a limit that somebody has set is to be kept.
 */
export function permissionArgs(params: {
  readonly ours: readonly string[];
  readonly extra: readonly string[];
  /** Options that speak of what ours speak of. */
  readonly words: readonly string[];
}): readonly string[] {
  const { ours, extra, words } = params;
  return extra.some((arg) => words.includes(arg.split("=")[0] ?? "")) ? extra : [...ours, ...extra];
}

/** Of an agent that tells tokens and dollars; null: it told nothing. A model without a price has the price 0, which is none. */
export function pricedUsage(
  spent: { readonly input: number; readonly output: number; readonly cost: number } | null,
): AgentUsage {
  if (spent === null) return UNKNOWN_USAGE;
  const { input, output, cost } = spent;
  const isPriced = cost > 0 || input + output === 0;
  return { inputTokens: input, outputTokens: output, microUsd: isPriced ? Math.round(cost * 1e6) : null };
}

/** Of an agent that tells tokens and no price. Nothing costs nothing; what anything else costs is not known here. */
export function unpricedUsage(tokens: {
  readonly input: number;
  readonly output: number;
  /** Of the input; what a cache gave has a price of its own. Absent: it does not tell. */
  readonly cached?: number;
}): AgentUsage {
  const { input, output, cached } = tokens;
  const microUsd = input + output === 0 ? 0 : null;
  const told = cached === undefined ? {} : { cachedTokens: cached };
  return { inputTokens: input, outputTokens: output, ...told, microUsd };
}

/** What a dialect plans when the agent has nothing of the session that it should go on with. */
export function sessionNotFound(message: string) {
  return { kind: "refused", cause: "session_lost", message, hint: null, until: null } as const;
}
