import type { Agent, AgentOutcome, AgentTask } from "../ports/agent.ts";
import type { Clock } from "../ports/clock.ts";
import type { Outputs } from "../ports/output.ts";
import type { Store } from "../ports/store.ts";
import type { Workspaces } from "../ports/workspace.ts";
import { DEFAULT_SWITCHES, crunchTriggers } from "../core/crunch/triggers.ts";
import { ALL_CHECKPOINTS } from "../core/checkpoint/checkpoint-switches.ts";
import { defaultErrorPolicy } from "../core/error-policy/policy.ts";
import { defaultRetention } from "../core/retention/retention.ts";
import type { WorkParts } from "../engine/work-parts.ts";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** What an engine works with, over a real store and real worktrees, with an agent of a few lines. Nothing waits. */
export interface WorkBench {
  readonly parts: WorkParts;
  /** Milliseconds of every wait that was asked for, in order. */
  readonly waits: readonly number[];
  /** Marks that were ended, in order. */
  readonly ended: readonly string[];
  /** Raw lines of agents, by step. */
  readonly logs: ReadonlyMap<string, readonly string[]>;
}

export function createWorkBench(params: {
  readonly store: Store;
  readonly clock: Clock;
  readonly workspaces?: Workspaces | null;
  readonly agents?: readonly Agent[];
  /** Time passes by what is waited for. */
  readonly onWait?: (milliseconds: number) => void;
}): WorkBench {
  const waits: number[] = [];
  const ended: string[] = [];
  const logs = new Map<string, string[]>();
  const agents = new Map((params.agents ?? []).map((agent) => [agent.name, agent]));
  const unused = (): never => {
    throw new Error("no part of this bench");
  };
  const parts: WorkParts = {
    store: params.store,
    workspaces: params.workspaces ?? null,
    clock: params.clock,
    random: () => "abc12",
    retention: defaultRetention,
    maxUntrackedBytes: undefined,
    includeIgnored: false,
    ownsRefs: true,
    liveness: () => "alive",
    leaseWaitMs: 0,
    requests: null,
    worktreePath: undefined,
    agent: (provider) => agents.get(provider) ?? unused(),
    agentIdleMs: 60_000,
    checkpointEveryMs: null,
    errorPolicy: defaultErrorPolicy,
    checkpoints: ALL_CHECKPOINTS,
    prices: {},
    checksState: true,
    forge: null,
    branches: { of: unused, asking: unused },
    commands: {
      run: unused,
      endMarked: (mark) => {
        ended.push(mark);
        return Promise.resolve({ ended: 0, supported: true });
      },
    },
    syntax: { check: unused },
    outputs: plainOutputs,
    implDocument: unused,
    crunchTriggers: () => Promise.resolve(crunchTriggers(DEFAULT_SWITCHES)),
    agentLog: ({ step }) => ({
      path: step,
      append: (line) => void logs.set(step, [...(logs.get(step) ?? []), line]),
      close: () => Promise.resolve(),
    }),
    // As if each process died before an answer was kept; memoryAnswers() keeps them.
    agentAnswer: () => ({ write: () => undefined, read: () => null, remove: () => undefined }),
    wait: async (milliseconds, signal) => {
      signal.throwIfAborted();
      waits.push(milliseconds);
      params.onWait?.(milliseconds);
      await Promise.resolve();
      signal.throwIfAborted();
    },
  };
  return { parts, waits, ended, logs };
}

/** Results of calls as files would keep them over the death of a process. */
export function memoryAnswers(): WorkParts["agentAnswer"] {
  const answers = new Map<string, string>();
  return ({ run, visit, step }) => {
    const key = `${run}/${visit}/${step}`;
    return {
      write: (text) => void answers.set(key, text),
      read: () => answers.get(key) ?? null,
      remove: () => void answers.delete(key),
    };
  };
}

export function createBenchAgent(
  name: string,
  run: (task: AgentTask) => Promise<BenchOutcome> | BenchOutcome,
  capabilities: Partial<Agent["capabilities"]> = {},
  sessions: Agent["sessions"] = null,
): Agent {
  const none = { resume: false, forkAtMessage: false, chooseSession: false };
  return {
    name,
    capabilities: { ...none, usage: true, cost: true, structuredOutput: false, ...capabilities },
    sessions,
    run: async (task) => complete(await run(task)),
    probe: () => Promise.resolve({ installed: true, version: "1", problem: null, hint: null }),
  };
}

/** What is not given is unremarkable. */
export type BenchOutcome =
  | Partial<Extract<AgentOutcome, { readonly kind: "completed" }>>
  | ({ readonly kind: "failed" } & Partial<Extract<AgentOutcome, { readonly kind: "failed" }>>);

function complete(outcome: BenchOutcome): AgentOutcome {
  const usage = outcome.usage ?? { inputTokens: null, outputTokens: null, microUsd: null };
  const session = outcome.session ?? null;
  if (outcome.kind !== "failed") return { text: "ok", ...outcome, kind: "completed", session, usage };
  const failed = { cause: "crash", message: "it failed", hint: null, until: null, instant: false } as const;
  return { ...failed, ...outcome, kind: "failed", session, usage };
}

function plainOutputs(root: string): Outputs {
  return {
    read: (path) => {
      const file = join(root, path);
      return Promise.resolve(existsSync(file) ? readFileSync(file, "utf8") : null);
    },
    refusal: () => Promise.resolve(null),
    write: (path, text) => {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
      return Promise.resolve();
    },
    remove: (path) => {
      rmSync(join(root, path), { force: true });
      return Promise.resolve();
    },
    hide: () => Promise.resolve(),
  };
}
