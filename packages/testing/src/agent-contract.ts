// The contract of agents: cases that every agent adapter must pass, on node:assert and real processes.

import assert from "node:assert/strict";
import { existsSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Agent, AgentEvent, AgentOutcome, AgentTask } from "@holdfast/core/agent";
import { readProcessTable } from "@holdfast/platform/process-tree";

/** One agent under test, with its own directory for each case. */
export interface AgentHarness {
  readonly agent: Agent;
  readonly cwd: string;
  /** Makes the agent's next calls behave this way; returns the model to call with. */
  behave(behaviour: AgentBehaviour): Promise<string>;
  /** A model whose program or instructions do not exist. Without a model the same applies until `behave` is called. */
  readonly missingModel: string;
  /** The price that the agent computes for a usage, if it computes prices itself. */
  readonly priceOf?: (usage: { readonly input: number; readonly output: number }) => number;
  /** How many times slower than a shell the agent may start. */
  readonly slowness?: number;
}

/** The parts happen in this order, each only if it is given. */
export interface AgentBehaviour {
  readonly write?: { readonly path: string; readonly text: string };
  /** Prints this many lines, one every `everyMs`. */
  readonly chatter?: { readonly lines: number; readonly everyMs: number };
  /** A process in its own session that ignores SIGTERM and holds no pipe; it writes the file after a while. */
  readonly orphan?: { readonly path: string; readonly afterMs: number };
  /** Used only for agents that report usage. */
  readonly usage?: { readonly input: number; readonly output: number; readonly microUsd: number };
  readonly hang?: boolean;
  readonly reply?: string;
  readonly exit?: number;
}

export interface AgentCase {
  readonly name: string;
  /** Why the case cannot run on this agent or host; null: it can. */
  skip?(agent: Agent): string | null;
  run(harness: AgentHarness): Promise<void>;
}

type Failed = Extract<AgentOutcome, { kind: "failed" }>;

export const NEEDS_PROC = (): string | null => (readProcessTable() === null ? "the system has no /proc" : null);

interface Call {
  readonly task: AgentTask;
  readonly events: AgentEvent[];
  abort(): void;
}

let calls = 0;

export function prepareCall(harness: Pick<AgentHarness, "cwd">, change: Partial<AgentTask>): Call {
  const controller = new AbortController();
  const events: AgentEvent[] = [];
  calls += 1;
  const task: AgentTask = {
    mark: `contract-${process.pid}-${Date.now().toString(36)}-${calls}/1/agent`,
    cwd: harness.cwd,
    prompt: "Do it.",
    role: "impl",
    model: null,
    session: null,
    yolo: true,
    timeoutMs: null,
    idleMs: null,
    iteration: 1,
    attempt: 1,
    env: {},
    signal: controller.signal,
    onEvent: (event) => events.push(event),
    ...change,
  };
  return { task, events, abort: () => controller.abort() };
}

async function call(
  harness: AgentHarness,
  behaviour: AgentBehaviour,
  change: Partial<AgentTask> = {},
): Promise<{ readonly outcome: AgentOutcome } & Call> {
  const prepared = prepareCall(harness, { model: await harness.behave(behaviour), ...change });
  const outcome = await harness.agent.run(prepared.task);
  assertGone(prepared.task.mark);
  return { ...prepared, outcome };
}

function failedWith(outcome: AgentOutcome, cause: Failed["cause"]): Failed {
  assert.equal(outcome.kind, "failed", JSON.stringify(outcome));
  assert.equal(outcome.cause, cause, outcome.message);
  assert.notEqual(outcome.message.trim(), "");
  return outcome;
}

export function processesOf(mark: string): readonly number[] {
  return (readProcessTable()?.live ?? []).filter((entry) => entry.mark === mark).map((entry) => entry.pid);
}

/**
 * Stops all processes first, and those that they start meanwhile. Otherwise a process whose child dies first would continue and end by
 * itself.
 */
function killAll(mark: string): void {
  const stopped = new Set<number>();
  for (;;) {
    const running = processesOf(mark).filter((pid) => !stopped.has(pid));
    if (running.length === 0) break;
    for (const pid of running) {
      stopped.add(pid);
      signalIfThere(pid, "SIGSTOP");
    }
  }
  for (const pid of stopped) signalIfThere(pid, "SIGKILL");
}

/** A process that has ended since the lookup is not a fault of the agent. */
function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

export function assertGone(mark: string): void {
  assert.deepEqual(processesOf(mark), [], "processes of the call are left");
}

export async function appears(harness: Pick<AgentHarness, "cwd">, path: string): Promise<void> {
  while (!existsSync(join(harness.cwd, path))) await pause(10);
}

const UP = { path: "up", text: "up\n" };

const endingCases: readonly AgentCase[] = [
  {
    name: "an abort in the middle is interrupted, with nothing left running",
    async run(harness) {
      const { task, abort } = prepareCall(harness, { model: await harness.behave({ write: UP, hang: true }) });
      const running = harness.agent.run(task);
      await appears(harness, "up");
      abort();
      assert.equal(failedWith(await running, "interrupted").instant, false);
      assertGone(task.mark);
    },
  },
  {
    name: "a call that is aborted before its start starts nothing",
    async run(harness) {
      const { outcome } = await call(harness, { write: UP, reply: "ok" }, { signal: AbortSignal.abort() });
      failedWith(outcome, "interrupted");
      assert.equal(existsSync(join(harness.cwd, "up")), false);
    },
  },
  {
    name: "no output for the given time is a hang",
    async run(harness) {
      const { outcome } = await call(harness, { write: UP, hang: true }, { idleMs: 700 });
      assert.equal(failedWith(outcome, "hang").instant, false);
    },
  },
  {
    name: "an agent that takes longer but prints regularly is not a hang",
    async run(harness) {
      // Long enough for an agent to start on a busy machine.
      const idleMs = Math.max(10_000, 2500 * (harness.slowness ?? 1));
      const chatter = { lines: (1.2 * idleMs) / 100, everyMs: 100 };
      const { outcome } = await call(harness, { chatter, reply: "ok" }, { idleMs });
      assert.equal(outcome.kind, "completed", JSON.stringify(outcome));
    },
  },
  {
    name: "the time limit also ends an agent that prints all the time",
    async run(harness) {
      const { outcome } = await call(harness, { chatter: { lines: 100_000, everyMs: 20 } }, { timeoutMs: 600 });
      failedWith(outcome, "timeout");
    },
  },
  {
    name: "a call that is killed from outside has the cause killed",
    skip: NEEDS_PROC,
    async run(harness) {
      const { task } = prepareCall(harness, { model: await harness.behave({ write: UP, hang: true }) });
      const running = harness.agent.run(task);
      await appears(harness, "up");
      killAll(task.mark);
      failedWith(await running, "killed");
    },
  },
  {
    name: "processes that a successful call leaves are ended when it returns, and write nothing later",
    skip: NEEDS_PROC,
    async run(harness) {
      const { outcome } = await call(harness, { orphan: { path: "late", afterMs: 1500 }, reply: "ok" });
      assert.equal(outcome.kind, "completed", JSON.stringify(outcome));
      const wasWritten = existsSync(join(harness.cwd, "late"));
      await pause(wasWritten ? 0 : 600);
      assert.equal(existsSync(join(harness.cwd, "late")), wasWritten);
    },
  },
  {
    name: "an abort ends processes that have left the agent's session",
    skip: NEEDS_PROC,
    async run(harness) {
      const behaviour = { orphan: { path: "late", afterMs: 60_000 }, hang: true };
      const { task, abort } = prepareCall(harness, { model: await harness.behave(behaviour) });
      const running = harness.agent.run(task);
      while (processesOf(task.mark).length < 2) await pause(20);
      abort();
      failedWith(await running, "interrupted");
      assertGone(task.mark);
    },
  },
  {
    name: "two calls at once: the end of one does not affect the other",
    async run(harness) {
      const model = await harness.behave({ chatter: { lines: 12, everyMs: 100 }, write: UP, reply: "ok" });
      const first = prepareCall(harness, { model });
      const second = prepareCall(harness, { model });
      const both = Promise.all([harness.agent.run(first.task), harness.agent.run(second.task)]);
      await appears(harness, "up");
      first.abort();
      const [stopped, finished] = await both;
      failedWith(stopped, "interrupted");
      assert.equal(finished.kind, "completed", JSON.stringify(finished));
    },
  },
];

/** None of them is a credential of an agent that the suites run: those have their own keys, or none. */
const TOKENS: readonly string[] = [
  "GITHUB_TOKEN",
  "GH_TOKEN",
  "GITLAB_TOKEN",
  "CI_JOB_TOKEN",
  "NPM_TOKEN",
  "NODE_AUTH_TOKEN",
  "CARGO_REGISTRY_TOKEN",
  "AWS_ACCESS_KEY_ID",
  "AWS_SECRET_ACCESS_KEY",
  "AWS_SESSION_TOKEN",
  "AZURE_CLIENT_SECRET",
  "CLOUDFLARE_API_TOKEN",
  "GOOGLE_APPLICATION_CREDENTIALS",
  "SSH_AUTH_SOCK",
  "VAULT_TOKEN",
  "DATABASE_PASSWORD",
];

const OUTER: Readonly<Record<string, string>> = {
  GIT_DIR: "/somewhere/else",
  GIT_INDEX_FILE: "/somewhere/index",
  HOLDFAST_STORE: "/somewhere/store",
  HOLDFAST_MARK: "outer/1/step",
  LC_CONTRACT: "kept",
  https_proxy: "http://127.0.0.1:9",
  NO_PROXY: "127.0.0.1,localhost",
  CONTRACT_OTHER: "not passed",
  ...Object.fromEntries(TOKENS.map((name) => [name, `planted-${name}`])),
};

const environmentCases: readonly AgentCase[] = [
  {
    name: "the child has the allowed part of our environment without any token, the task's variables and its mark",
    skip: NEEDS_PROC,
    async run(harness) {
      const before = Object.keys(OUTER).map((name) => [name, process.env[name]] as const);
      Object.assign(process.env, OUTER);
      try {
        const model = await harness.behave({ write: { path: "up", text: "" }, hang: true });
        const env = { HOLDFAST_ISSUE: "42", CONTRACT_OWN: "own", HOLDFAST_MARK: "stolen" };
        const call = prepareCall(harness, { model, env, iteration: 3, attempt: 2, role: "review" });
        await whileRunning(harness, call, () => {
          const pids = processesOf(call.task.mark);
          assert.notDeepEqual(pids, [], "no process carries the mark");
          const checked = pids.filter((pid) => checkProcess({ pid, cwd: harness.cwd, mark: call.task.mark }));
          assert.notDeepEqual(checked, [], "every process has ended");
        });
      } finally {
        for (const [name, value] of before) {
          if (value === undefined) delete process.env[name];
          else process.env[name] = value;
        }
      }
    },
  },
];

/** A failure in between must not leave the agent running. */
async function whileRunning(harness: AgentHarness, call: Call, look: () => void): Promise<void> {
  const running = harness.agent.run(call.task);
  try {
    await appears(harness, "up");
    look();
  } finally {
    call.abort();
    await running;
  }
}

/** False: the process has ended, as short-lived helpers of an agent do. */
function checkProcess(params: { readonly pid: number; readonly cwd: string; readonly mark: string }): boolean {
  if (!existsSync(`/proc/${params.pid}/environ`)) return false;
  const text = readFileSync(`/proc/${params.pid}/environ`, "utf8");
  if (text === "") return false;
  const variables = new Map(
    text.split("\0").map((entry) => [entry.split("=")[0] ?? "", entry.slice(entry.indexOf("=") + 1)]),
  );
  for (const name of ["GIT_DIR", "GIT_INDEX_FILE", "HOLDFAST_STORE", "CONTRACT_OTHER", ...TOKENS])
    assert.equal(variables.has(name), false, name);
  assert.equal(text.includes("planted-"), false, "a planted token is in the environment under another name");
  const expected = {
    LC_CONTRACT: "kept",
    https_proxy: "http://127.0.0.1:9",
    CONTRACT_OWN: "own",
    HOLDFAST_ISSUE: "42",
    HOLDFAST_ROLE: "review",
    HOLDFAST_ITERATION: "3",
    HOLDFAST_ATTEMPT: "2",
    HOLDFAST_MARK: params.mark,
  };
  for (const [name, value] of Object.entries(expected)) assert.equal(variables.get(name), value, name);
  assert.equal(readlinkSync(`/proc/${params.pid}/cwd`), realpathSync(params.cwd));
  return true;
}

const outcomeCases: readonly AgentCase[] = [
  {
    name: "a call that succeeds: files edited, the last message as text, every line an event",
    async run(harness) {
      const written = { path: "made.txt", text: "by the agent\n" };
      const { outcome, events } = await call(harness, { write: written, reply: "All done, é ✓" });
      assert.equal(outcome.kind, "completed", JSON.stringify(outcome));
      assert.match(outcome.text, /All done, é ✓/);
      assert.equal(readFileSync(join(harness.cwd, "made.txt"), "utf8"), "by the agent\n");
      assert.ok(events.some((event) => event.kind === "raw" && event.line.includes("All done, é ✓")));
      assert.ok(events.some((event) => event.kind === "text" && event.text.includes("All done, é ✓")));
    },
  },
  {
    name: "usage that the agent does not report is null, which is not zero",
    async run(harness) {
      const { outcome } = await call(harness, { reply: "ok" });
      assert.deepEqual(outcome.usage, { inputTokens: null, outputTokens: null, microUsd: null });
    },
  },
  {
    name: "a usage of zero is zero, and usage before a crash is reported",
    skip: (agent) => (agent.capabilities.usage ? null : "the agent does not report its usage"),
    async run(harness) {
      const free = await call(harness, { reply: "ok", usage: { input: 0, output: 0, microUsd: 0 } });
      const { cachedTokens = 0, inputTokens, outputTokens, microUsd } = free.outcome.usage;
      assert.deepEqual([inputTokens, outputTokens, cachedTokens, microUsd], [0, 0, 0, 0]);
      const crashed = await call(harness, { usage: { input: 70, output: 7, microUsd: 900 }, reply: "x", exit: 3 });
      failedWith(crashed.outcome, "crash");
      assert.equal(crashed.outcome.usage.inputTokens, 70);
      const price = harness.priceOf?.({ input: 70, output: 7 }) ?? 900;
      assert.equal(crashed.outcome.usage.microUsd, harness.agent.capabilities.cost ? price : null);
      assert.ok(crashed.events.some((event) => event.kind === "usage" && event.tokens === 77));
    },
  },
  {
    name: "a nonzero exit code is a crash, whatever was printed before",
    async run(harness) {
      const { outcome } = await call(harness, { reply: "looks fine", exit: 3 });
      assert.equal(failedWith(outcome, "crash").until, null);
    },
  },
  {
    name: "a program or script that does not exist is missing, and the hint names the fix",
    async run(harness) {
      for (const model of [harness.missingModel, null]) {
        const { task } = prepareCall(harness, { model });
        const failed = failedWith(await harness.agent.run(task), "missing");
        assert.ok(failed.hint !== null && failed.hint !== "");
      }
    },
  },
  {
    name: "a worktree that does not exist is a failure, not an exception",
    async run(harness) {
      const { task } = prepareCall(harness, {
        model: await harness.behave({ reply: "ok" }),
        cwd: "/nonexistent/place",
      });
      const outcome = await harness.agent.run(task);
      assert.equal(outcome.kind, "failed");
      assert.match(outcome.kind === "failed" ? outcome.message : "", /nonexistent/);
    },
  },
  {
    name: "a prompt of five megabytes that the agent does not read does no harm",
    async run(harness) {
      const { outcome } = await call(harness, { reply: "ok" }, { prompt: "é".repeat(2_500_000) });
      assert.equal(outcome.kind, "completed", JSON.stringify(outcome));
    },
  },
  {
    name: "a listener that throws does not fail the call",
    async run(harness) {
      const onEvent = (): never => {
        throw new Error("a careless listener");
      };
      const { outcome } = await call(harness, { reply: "ok" }, { onEvent });
      assert.equal(outcome.kind, "completed");
    },
  },
  {
    name: "a session is reported, as an event and in the outcome, if and only if the agent can resume one",
    async run(harness) {
      const first = await call(harness, { reply: "one" });
      if (!harness.agent.capabilities.resume) {
        assert.equal(first.outcome.session, null);
        return;
      }
      const { session } = first.outcome;
      assert.ok(session !== null && session !== "");
      assert.ok(first.events.some((event) => event.kind === "session" && event.id === session));
      const second = await call(harness, { reply: "two" }, { session });
      assert.equal(second.outcome.session, session);
      const crashed = await call(harness, { reply: "three", exit: 3 }, { session });
      assert.equal(failedWith(crashed.outcome, "crash").session, session);
    },
  },
  {
    name: "a probe answers without doing any work",
    async run(harness) {
      assert.match(harness.agent.name, /^[a-z][a-z0-9-]*$/);
      const probe = await harness.agent.probe();
      assert.equal(probe.installed, true, probe.problem ?? "");
      assert.equal(probe.problem, null);
    },
  },
];

/** Every promise of the agent contract, one case each, on node:assert and real processes, for any test runner. */
export const agentContract: readonly AgentCase[] = [...outcomeCases, ...endingCases, ...environmentCases];
