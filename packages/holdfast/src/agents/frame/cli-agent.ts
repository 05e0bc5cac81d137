import type { AgentArgs } from "../../core/agent/agent-args.ts";
import type { Agent, AgentEvent, AgentOutcome, AgentTask } from "../../ports/agent.ts";
import type { Clock } from "../../ports/clock.ts";
import { findProgram } from "../../system/probe.ts";
import { quietly, runAgentProcess, type AgentExit } from "../agent-process.ts";
import { UNKNOWN_USAGE } from "../classify-exit.ts";
import { passedEnvironment } from "../passed-environment.ts";
import { chooseSession } from "./choose-session.ts";
import type { CliCall, CliDialect, CliFailure } from "./dialect.ts";
import { judgeEnd } from "./judge-end.ts";
import { probeProgram } from "./probe-program.ts";
import { createWaitingWatch } from "./waiting-watch.ts";

/** An agent that is a program with a command line of its own. */
export function createCliAgent<State>(dialect: CliDialect<State>, params: CliAgentParams): Agent {
  return {
    name: dialect.name,
    capabilities: dialect.capabilities,
    sessions: dialect.sessions,
    ...(dialect.records === undefined ? {} : { records: dialect.records }),
    async run(given) {
      const task = { ...given, idleMs: given.idleMs ?? dialect.idleMs };
      const extra = params.args?.[dialect.name] ?? [];
      const env = passedEnvironment({ agent: dialect.name, task, args: extra, named: params.env });
      const found = findProgram(dialect.program, env["PATH"]);
      if (found === undefined) return nothingDone(task.session, missing(dialect));
      const call = prepare(dialect, { task, session: task.session, extra, env, now: () => params.clock.now() });
      return await perform({ dialect, call, line: dialect.native?.(found) ?? [found] });
    },
    preview(task) {
      const extra = params.args?.[dialect.name] ?? [];
      const env = passedEnvironment({ agent: dialect.name, task, args: extra, named: params.env });
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
function prepare<State>(dialect: CliDialect<State>, call: CliCall): CliCall {
  const { task } = call;
  const isNew = task.session === null || isFork(task);
  if (!isNew) return call;
  if (!dialect.capabilities.chooseSession) return { ...call, session: null };
  const isTaken = (id: string): boolean => dialect.isTaken?.(id, call) ?? false;
  return { ...call, session: chooseSession(task, isTaken, dialect.sessionIds) };
}

async function perform<State>(params: {
  readonly dialect: CliDialect<State>;
  readonly call: CliCall;
  readonly line: readonly [string, ...string[]];
}): Promise<AgentOutcome> {
  const { dialect, call } = params;
  const [command, ...before] = params.line;
  const { task } = call;
  if (isFork(task) && !dialect.capabilities.forkAtMessage) return nothingDone(task.session, cannotFork(dialect));
  const plan = dialect.plan(call);
  if (plan.kind === "refused") return nothingDone(task.session, plan);
  const emit = quietly(task.onEvent);
  let { state } = plan;
  let session: string | null = null;
  let worked = false;
  let atStop: State | null = null;
  let told = 0;
  const watch = createWaitingWatch(task.idleMs);
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
  const judged = judgeEnd({ end, exit, title: dialect.title, worked, now: call.now(), task });
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
