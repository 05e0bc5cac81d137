// The common part of all agents that are command-line programs: process, session, events, result and probe.

import { realpathSync } from "node:fs";
import {
  type Agent,
  type AgentArgs,
  type AgentCapabilities,
  type AgentEvent,
  type AgentOutcome,
  type AgentProbe,
  type AgentSessions,
  type AgentTask,
  type AgentUsage,
  type FailureCause,
  type SessionReader,
  knownUsage,
} from "@holdfast/core/agent";
import { asRecord, asText, sha256 } from "@holdfast/core/json";
import type { Clock } from "@holdfast/platform/clock";
import { usageError } from "@holdfast/platform/error";
import { randomId } from "@holdfast/platform/identity";
import { childEnvironment } from "@holdfast/platform/marked-process";
import { type ProcessResult, findProgram, runProcess } from "@holdfast/platform/subprocess";
import { type AgentExit, agentEnvironment, ignoreListenerErrors, runAgentProcess } from "./agent-process.ts";
import { AGENT_VERSIONS, judgeVersion, upgradeHint } from "./agent-versions.ts";
import { UNKNOWN_USAGE, classifyExit, notStarted, sharedHint } from "./failure-cause.ts";

/** Creates an agent from a CLI adapter. */
export function createCliAgent<State, Before>(adapter: CliAdapter<State, Before>, params: CliAgentParams): Agent {
  const callOf = (task: AgentTask): CliCall => {
    const extra = params.args?.[adapter.name] ?? [];
    const env = agentEnvironment({ agent: adapter.name, task, args: extra, named: params.env });
    const call = { task, session: task.session ?? "", extra, env, now: () => params.clock.now() };
    if (task.session !== null && !isFork(task)) return call;
    if (!adapter.capabilities.chooseSession) return { ...call, session: "" };
    const isFound = (id: string): boolean => (adapter.findSession?.(id, call) ?? null) !== null;
    const isTaken = (id: string): boolean => adapter.isTaken?.(id, call) ?? isFound(id);
    return { ...call, session: newSessionId(task, isTaken, adapter.sessionIds) };
  };
  return {
    name: adapter.name,
    capabilities: adapter.capabilities,
    sessions: adapter.sessions === null ? null : checkedSessions(adapter.sessions),
    ...(adapter.records === undefined ? {} : { records: adapter.records }),
    async run(task) {
      // The agent reports such a session as lost, so that a fresh one takes over.
      if (![task.session, task.forkAt ?? null].every((id) => id === null || SESSION_ID.test(id)))
        return notStarted(task.session, invalidSession(adapter));
      const call = callOf(task);
      const found = findProgram(adapter.program, call.env["PATH"]);
      if (found === undefined) return notStarted(task.session, missing(adapter));
      return await runCall({ adapter, call, line: adapter.native?.(found) ?? [found] });
    },
    preview(task) {
      const call = callOf(task);
      const plan = planCall(adapter, call);
      const { args, env: more } = plan.kind === "start" ? plan : { args: [], env: {} };
      const shown = args.map((arg) =>
        arg.replaceAll(task.prompt, "<prompt>").replaceAll(call.session || "\0", "<session>"),
      );
      const names = Object.keys({ ...call.env, ...adapter.environment, ...more });
      const program = findProgram(adapter.program, call.env["PATH"]) ?? adapter.program;
      return { argv: [program, ...shown], env: names.toSorted() };
    },
    probe: () => probeProgram(adapter, params.env),
  };
}

export interface CliAgentParams {
  readonly clock: Clock;
  readonly args?: AgentArgs;
  /** Variables that the user passes to every agent. */
  readonly env?: readonly string[];
}

async function runCall<State, Before>(params: {
  readonly adapter: CliAdapter<State, Before>;
  readonly call: CliCall;
  readonly line: readonly [string, ...string[]];
}): Promise<AgentOutcome> {
  const { adapter, call } = params;
  const [command, ...launcherArgs] = params.line;
  const { task } = call;
  if (isFork(task) && !adapter.capabilities.forkAtMessage) return notStarted(task.session, cannotFork(adapter));
  const plan = planCall(adapter, call);
  if (plan.kind === "refused") return notStarted(task.session, plan);
  const notify = ignoreListenerErrors(task.onEvent);
  let state = adapter.initial;
  let session: string | null = null;
  let worked = false;
  let atStop: State | null = null;
  let reportedTokens = 0;
  const watch = createWaitTimeout(task.idleMs);
  const emit = (event: AgentEvent): void => {
    if (event.kind === "text" || event.kind === "tool") worked = true;
    if (event.kind === "tool") watch.acted();
    if (event.kind === "session" && event.id === session) return;
    if (event.kind === "session") session = event.id;
    if (event.kind === "usage") reportedTokens += event.tokens;
    notify(event);
  };
  const usageNow = (): AgentUsage => knownUsage(adapter.usage(state, call, plan.before));
  const emitUsage = (total: AgentUsage, isLast: boolean): void => {
    const tokens = (total.inputTokens ?? 0) + (total.outputTokens ?? 0) - reportedTokens;
    if (tokens > 0) emit({ kind: "usage", tokens, total, ...(isLast ? { isLast } : {}) });
  };
  // The session is reported before the start, so that a resume after a crash at any later moment can use it.
  if (call.session !== "" && !task.signal.aborted) emit({ kind: "session", id: call.session });
  const signal = AbortSignal.any([task.signal, watch.signal]);
  const raw = await runAgentProcess({
    env: call.env,
    task: { ...task, signal, env: { ...task.env, ...adapter.environment, ...plan.env } },
    command,
    args: [...launcherArgs, ...plan.args],
    input: task.prompt,
    onStop: () => (atStop = state),
    onErrorLine(line) {
      if (adapter.isWaiting?.(line) === true) watch.line(true);
      if (adapter.isOverflow?.(line) === true) watch.overflow();
    },
    onLine(line) {
      const parsed = adapter.read(state, line);
      state = parsed.state;
      watch.line(parsed.waiting === true);
      for (const event of parsed.events) emit(event);
      if (parsed.response !== undefined) emitUsage(usageNow(), parsed.response === "last");
    },
  });
  watch.stop();
  const isOurs = raw.kind === "interrupted" && !task.signal.aborted;
  const exit: AgentExit = isOurs ? { ...raw, kind: "idle" } : raw;
  const usage = exit.kind === "not_started" ? UNKNOWN_USAGE : usageNow();
  emitUsage(usage, true);
  // The state before the stop is used, because some agents report success when they are ended.
  const now = call.now();
  const resumes = task.session !== null;
  const end = adapter.end({ state: atStop ?? state, exit, resumes, now, call, before: plan.before });
  const classified = classifyResult({ end, exit, title: adapter.title, worked, now, task });
  return { ...classified, session: session ?? task.session, usage };
}

/** Refuses to resume a session of which the agent has no record. */
function planCall<State, Before>(adapter: CliAdapter<State, Before>, call: CliCall): CliPlan<Before> {
  const { session } = call.task;
  if (session === null || adapter.findSession === undefined) return adapter.plan(call, null);
  const found = adapter.findSession(session, call);
  if (found !== null) return adapter.plan(call, found);
  const message = `${adapter.title} has no record of session ${session} for this worktree`;
  return { kind: "refused", cause: "session_lost", message, hint: null, until: null };
}

function isFork(task: AgentTask): boolean {
  return task.forkAt !== undefined && task.forkAt !== null;
}

function missing(adapter: { readonly title: string; readonly program: string; readonly install: string }): CliFailure {
  const message = `${adapter.title} is not installed: ${adapter.program} is not on PATH`;
  return { cause: "missing", message, hint: adapter.install, until: null };
}

/**
 * What a session or message id may be. It becomes a part of a path and an argument of the agent, and it may come from
 * the run of another machine: an id like "../../x" or "--yolo" must become neither.
 */
const SESSION_ID = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

function checkedSessions(sessions: AgentSessions): AgentSessions {
  return {
    ...sessions,
    read: async (params) => (SESSION_ID.test(params.session) ? await sessions.read(params) : null),
    async write(params) {
      if (SESSION_ID.test(params.session)) return await sessions.write(params);
      const message = `${JSON.stringify(params.session)} is not a session id`;
      throw usageError(message, "A new session takes over.");
    },
  };
}

function invalidSession({ title }: { readonly title: string }): CliFailure {
  const message = `${title} cannot resume this session: its id has characters that no session id has`;
  return { cause: "session_lost", message, hint: null, until: null };
}

function cannotFork({ title }: { readonly title: string }): CliFailure {
  const message = `${title} cannot fork a session at a message`;
  return { cause: "session_lost", message, hint: null, until: null };
}

/**
 * Describes one agent's command line. createCliAgent does the rest. It finds the program, chooses and reports a
 * session, and runs the process under the mark and the watchdog. It reduces the output lines and classifies the end.
 *
 * `read` and `end` are pure; the others may read the agent's own files. Only `plan` may write them, where an agent
 * would otherwise lose a session.
 */
export interface CliAdapter<State, Before = null> {
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
  /** The state before the first output line. */
  readonly initial: State;
  /** Environment variables for every start of the program, including probes. */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * The command that replaces a wrapper on PATH: a wrapper is a second process, and killing it would leave the agent
   * running. The elements after the first precede all arguments.
   */
  native?(path: string): readonly [string, ...string[]];
  /** The UUID version that the agent accepts for a session; "8" by default. */
  readonly sessionIds?: UuidVersion;
  /** The agent's file of a session; null if it has none. Absent: the agent reports a lost session itself. */
  findSession?(session: string, call: CliCall): string | null;
  /** True if a session id cannot be chosen for a new session; by default, if it is found. */
  isTaken?(session: string, call: CliCall): boolean;
  /** `found` is the file of the session to resume; null for a new one. */
  plan(call: CliCall, found: string | null): CliPlan<Before>;
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
  end(params: CliEnd<State> & { readonly exit: AgentExit; readonly call: CliCall; readonly before: Before }): CliResult;
  /** The usage of this call alone, so far or at its end, even if it was killed. */
  usage(state: State, call: CliCall, before: Before): AgentUsage;
  /**
   * Checks the login of a program that responds; null if nothing is wrong. `run` starts the program with these
   * arguments, our environment and no input. It must not cost any tokens.
   */
  checkLogin?(run: ProgramRunner): Promise<LoginProblem | null>;
}

/** What a result is classified by. */
export interface CliEnd<State> {
  readonly state: State;
  readonly exit: Pick<AgentExit, "kind" | "code" | "stderr">;
  /** True if the call resumed a session. */
  readonly resumes: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** What the arguments of a program depend on. */
export interface CliArgs {
  readonly task: Pick<AgentTask, "model" | "yolo" | "session" | "forkAt">;
  /** The session id of the call: `task.session`, or a new one. */
  readonly session: string;
  readonly extra: readonly string[];
}

type ProgramRunner = (args: readonly string[]) => Promise<ProcessResult>;

export interface LoginProblem {
  readonly problem: string;
  readonly hint: string;
}

export interface CliCall {
  readonly task: AgentTask;
  /**
   * The session to resume, or the id chosen for a new one; empty if the agent chooses and reports it. With `task.forkAt`
   * it is the new one.
   */
  readonly session: string;
  /** The user's own arguments for the program. */
  readonly extra: readonly string[];
  /** The environment of the program, without the variables of the plan. */
  readonly env: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  now(): number;
}

type CliPlan<Before> =
  /** The prompt is passed on standard input, because an argument is limited to 128 KB. */
  | {
      readonly kind: "start";
      readonly args: readonly string[];
      /** Overrides the task's environment. */
      readonly env?: Readonly<Record<string, string>>;
      /** The agent's session files before the call, to count what the call adds. */
      readonly before: Before;
    }
  /** Nothing was started and nothing was spent. */
  | ({ readonly kind: "refused" } & CliFailure);

export interface ParsedLine<State> {
  readonly state: State;
  /** createCliAgent adds the raw event of the line. A session is reported once, however often it occurs here. */
  readonly events: readonly AgentEvent[];
  /** True if the line only reports that the agent waits and retries. Such a line does not reset the idle limit. */
  readonly waiting?: boolean;
  /**
   * Set if `usage` now counts a further response of the model. "more": the agent sends the next request. "last": the
   * response ends the turn. The usage is then reported, so that the engine can end a call at a limit.
   */
  readonly response?: "more" | "last";
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

type Classified =
  | Pick<Extract<AgentOutcome, { kind: "completed" }>, "kind" | "text">
  | Omit<Failed, "session" | "usage">;
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
}): Classified {
  const { end, exit, title, worked, now } = params;
  const { timeoutMs, idleMs } = params.task;
  const ended = classifyExit({ exit, name: title, now, timeoutMs, idleMs });
  const byItself = exit.survivors === null && exit.kind === "exited";
  const isInstant = (byItself || exit.kind === "signalled") && !worked && exit.milliseconds < EARLY_EXIT_MS;
  const fail = (failure: CliFailure): Classified => {
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
const EARLY_EXIT_MS = 10_000;

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
  const third = `${version}${hex.slice(13, 16)}`;
  return [hex.slice(0, 8), hex.slice(8, 12), third, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join("-");
}

/**
 * The idle limit for an agent that keeps printing that it waits. It starts with the first such line in a row; any other
 * line cancels it.
 */
export function createWaitTimeout(idleMs: number | null): WaitTimeout {
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

interface WaitTimeout {
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

/** Checks that the program exists and responds, its version and its login. */
async function probeProgram<State, Before>(
  adapter: CliAdapter<State, Before>,
  named: readonly string[] | undefined,
): Promise<AgentProbe> {
  const { title, program, install } = adapter;
  const found = findProgram(program);
  if (found === undefined)
    return { installed: false, version: null, problem: `${program} is not on PATH`, hint: install };
  const [command, ...launcherArgs] = adapter.native?.(found) ?? [found];
  const base = agentEnvironment({ agent: adapter.name, task: { model: null, env: {} }, named });
  const env = childEnvironment({ base, mark: `probe-${randomId()}`, env: adapter.environment ?? {} });
  const run: ProgramRunner = (args) =>
    runProcess({ command, args: [...launcherArgs, ...args], cwd: "/", env, timeoutMs: PROBE_MS });
  try {
    const probe = await probeVersion(run, { program, install });
    const login = probe.problem === null ? ((await adapter.checkLogin?.(run)) ?? null) : null;
    const known = AGENT_VERSIONS[adapter.name];
    if (known !== undefined && judgeVersion(adapter.name, probe.version) === "too_old") {
      const problem = `Version ${probe.version ?? ""} is too old: Holdfast needs ${known.minimum} or newer (${known.needs})`;
      return { ...probe, problem, hint: upgradeHint(adapter.name) };
    }
    return { ...probe, ...login };
  } catch (error) {
    const problem = `${title} does not respond: ${error instanceof Error ? error.message : String(error)}`;
    return { installed: true, version: null, problem, hint: `Run ${program} --version by hand.` };
  }
}

/** Some programs take seconds to print their version, and longer on a busy machine. */
const PROBE_MS = 30_000;

async function probeVersion(
  run: ProgramRunner,
  { program, install }: { readonly program: string; readonly install: string },
): Promise<AgentProbe> {
  const { code, stdout, stderr } = await run(["--version"]);
  const output = `${stdout.toString("utf8")}\n${stderr}`;
  const version = /\d+\.\d+\.\d+[\w.+-]*/.exec(output)?.[0].replace(/\.$/, "") ?? null;
  if (code === 0 && version !== null) return { installed: true, version, problem: null, hint: null };
  const problem = `${program} --version failed: ${stderr.trim().slice(-300) || `exit ${code ?? "none"}`}`;
  return { installed: true, version: null, problem, hint: install };
}

/** Capabilities that all these agents share. */
export const CLI_CAPABILITIES = { resume: true, forkAtMessage: false, usage: true, structuredOutput: false };

/**
 * The command behind a launcher script that npm installs. A launcher starts a second process, and if it is killed, the
 * agent continues alone. `inner` returns null for a path that is not the launcher, which is then started unchanged.
 */
export function unwrapLauncher(
  found: string,
  inner: (script: string) => readonly [string, ...string[]] | null,
): readonly [string, ...string[]] {
  try {
    return inner(realpathSync.native(found)) ?? [found];
  } catch {
    return [found];
  }
}

/** The part of a tool's input that is worth showing to the user: the first of these fields that has a text. */
export function toolDetail(input: unknown, fields: readonly string[]): string {
  const record = asRecord(input);
  return fields.map((field) => asText(record[field])).find((text) => text !== "") ?? "";
}

/** Builds the failures of one agent, with the agent's own hint or the shared one. */
export function createFailures(agent: {
  readonly name: string;
  readonly title: string;
  readonly hints: Partial<Readonly<Record<FailureCause, string>>>;
}) {
  const { name, title, hints } = agent;
  const fail = (cause: FailureCause, message: string, until: string | null = null) => {
    const hint = hints[cause] ?? sharedHint(cause, name);
    return { kind: "failed", cause, message, hint, until } as const;
  };
  return {
    failure: (cause: FailureCause, text: string, until: string | null = null) =>
      fail(cause, `${title}: ${(text || "failed without a message").slice(0, 500)}`, until),
    denied: (tools: Iterable<string>) =>
      fail("permission_denied", `${title} was not allowed to use ${[...tools].join(", ")}`),
  };
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

/** All input tokens, cached or not, and all output tokens, including reasoning. */
export interface TokenCount {
  readonly input: number;
  readonly output: number;
  /** The cached part of the input. Absent: the agent does not report it. */
  readonly cached?: number;
  /** The part of the input that was written to a cache. Absent: the agent does not report it. */
  readonly cacheWrite?: number;
}

export const NO_TOKENS: TokenCount = { input: 0, output: 0 };

export function addTokens(one: TokenCount, other: TokenCount): TokenCount {
  const sum = (name: "cached" | "cacheWrite") =>
    one[name] === undefined && other[name] === undefined ? {} : { [name]: (one[name] ?? 0) + (other[name] ?? 0) };
  return { input: one.input + other.input, output: one.output + other.output, ...sum("cached"), ...sum("cacheWrite") };
}

/** The sum without the cached part; 0 if it is unknown. */
export function sumTokens(counts: Iterable<TokenCount>): { readonly input: number; readonly output: number } {
  const { input, output } = [...counts].reduce(addTokens, NO_TOKENS);
  return { input: input || 0, output: output || 0 };
}

/**
 * Usage of an agent that reports tokens and dollars; `spent` is null if it reported nothing. A model without a known
 * price reports 0, which is treated as unknown.
 */
export function pricedUsage(spent: (TokenCount & { readonly cost: number }) | null): AgentUsage {
  if (spent === null) return UNKNOWN_USAGE;
  const { input, output, cost } = spent;
  const isPriced = cost > 0 || input + output === 0;
  return { inputTokens: input, outputTokens: output, microUsd: isPriced ? Math.round(cost * 1e6) : null };
}

/** Usage of an agent that reports tokens but no cost. Zero tokens cost nothing; any other cost is unknown. */
export function unpricedUsage({ input, output, cached }: TokenCount): AgentUsage {
  const microUsd = input + output === 0 ? 0 : null;
  const cachedTokens = cached === undefined ? {} : { cachedTokens: cached };
  return { inputTokens: input, outputTokens: output, ...cachedTokens, microUsd };
}

/** Usage of the answers that are not in `before`, by their ids. */
export function usageSince(
  answers: ReadonlyMap<string, TokenCount>,
  before: Pick<ReadonlySet<string>, "has">,
): AgentUsage {
  const own = [...answers].filter(([id]) => !before.has(id)).map(([, tokens]) => tokens);
  return own.length === 0 ? UNKNOWN_USAGE : unpricedUsage(own.reduce(addTokens));
}
