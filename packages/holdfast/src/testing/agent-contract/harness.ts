import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Agent, AgentEvent, AgentOutcome, AgentTask } from "../../ports/agent.ts";
import { readProcessTable } from "../../system/process-table.ts";

/** One agent under test, with a directory of its own for each case. */
export interface AgentHarness {
  readonly agent: Agent;
  readonly cwd: string;
  /** Makes the agent's next calls behave so; what comes back is the model to call with. */
  behave(behaviour: AgentBehaviour): Promise<string>;
  /** A model for which the program or its instructions are not there. So it is for none at all, until `behave` was called. */
  readonly missingModel: string;
  /** What the agent makes of a usage, where it reckons the price itself. */
  readonly priceOf?: (usage: { readonly input: number; readonly output: number }) => number;
  /** How many times slower than a shell it may begin. */
  readonly slowness?: number;
}

/** In this order; each part only where it is given. */
export interface AgentBehaviour {
  readonly write?: { readonly path: string; readonly text: string };
  /** Lines, one every `everyMs`. */
  readonly chatter?: { readonly lines: number; readonly everyMs: number };
  /** In a session of its own, deaf to SIGTERM, holding no pipe; it writes the file after a while. */
  readonly orphan?: { readonly path: string; readonly afterMs: number };
  /** Only asked of agents that tell their usage. */
  readonly usage?: { readonly input: number; readonly output: number; readonly microUsd: number };
  readonly hang?: boolean;
  readonly reply?: string;
  readonly exit?: number;
}

export interface AgentCase {
  readonly name: string;
  /** Why the case cannot be run on this agent or host; null: it can. */
  skip?(agent: Agent): string | null;
  run(harness: AgentHarness): Promise<void>;
}

export type Failed = Extract<AgentOutcome, { kind: "failed" }>;

export const NEEDS_PROC = (): string | null => (readProcessTable() === null ? "the system has no /proc" : null);

export interface Call {
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

export async function call(
  harness: AgentHarness,
  behaviour: AgentBehaviour,
  change: Partial<AgentTask> = {},
): Promise<{ readonly outcome: AgentOutcome } & Call> {
  const prepared = prepareCall(harness, { model: await harness.behave(behaviour), ...change });
  const outcome = await harness.agent.run(prepared.task);
  assertGone(prepared.task.mark);
  return { ...prepared, outcome };
}

export function failedWith(outcome: AgentOutcome, cause: Failed["cause"]): Failed {
  assert.equal(outcome.kind, "failed", JSON.stringify(outcome));
  assert.equal(outcome.cause, cause, outcome.message);
  assert.notEqual(outcome.message.trim(), "");
  return outcome;
}

export function processesOf(mark: string): readonly number[] {
  return (readProcessTable()?.live ?? []).filter((entry) => entry.mark === mark).map((entry) => entry.pid);
}

/** All are stopped first, what they start meanwhile too: one whose child dies before it would go on and end by itself. */
export function killAll(mark: string): void {
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

/** One that has ended by itself since it was looked up is no fault of the agent's. */
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
