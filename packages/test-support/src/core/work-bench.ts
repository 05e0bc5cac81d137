// The test bench of the engine: small workflows, adapters with a fake agent and a fake clock, and stores that crash at a commit.

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Adapters } from "@holdfast/core/adapters";
import type { Agent, AgentOutcome, AgentTask } from "@holdfast/core/agent";
import { type AgentLogs, NO_LOGS } from "@holdfast/core/agent-log";
import { ALL_CHECKPOINTS } from "@holdfast/core/checkpoint";
import { beginRun } from "@holdfast/core/control-run";
import { defaultErrorPolicy } from "@holdfast/core/error-policy";
import { type ExecuteParams, executeRun } from "@holdfast/core/execute";
import type { EntryKind } from "@holdfast/core/journal";
import type { RunOutcome } from "@holdfast/core/progress";
import { defaultRetention } from "@holdfast/core/retention";
import type { Store } from "@holdfast/core/store";
import { openMemoryStore } from "@holdfast/core/store-memory";
import { type StageFunction, type Workflow, type WorkflowParams, defineWorkflow } from "@holdfast/core/workflow";
import type { Workspace, Workspaces } from "@holdfast/core/workspace";
import type { Clock } from "@holdfast/platform/clock";
import type { Outputs } from "@holdfast/platform/outputs";
import { createSetClock } from "@holdfast/testing/store-contract/harness";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import { scratchDirectory } from "../scratch-directory.ts";

export const ID = "run-1";
export const TOY_INPUTS = { issue: null, task: "t", base: null, plan: null };
export const TOY_CONFIG = {
  agent: "toy",
  model: null,
  temperature: null,
  seed: null,
  mode: "default",
  tools: [],
  inputs: {},
} as const;

export type State = { readonly seen: readonly string[] };

export const worked: StageFunction<State> = async () => ({ event: "worked", reason: "did it" });

/** work → check → done, and back to work when the check fails. */
export function define(
  stages: Record<string, StageFunction<State>>,
  more: Partial<WorkflowParams<State>> = {},
): Workflow<State> {
  return defineWorkflow<State>({
    name: "toy",
    initial: "work",
    transitions: { work: { worked: "check" }, check: { passed: "done", failed: "work" } },
    ends: { done: "done" },
    initialState: () => ({ seen: [] }),
    ...more,
    stages: { check: async () => ({ event: "passed", reason: "fine" }), ...stages },
  });
}

export function begin(adapters: Adapters, workflow: Workflow<State>, workspace?: Workspace): Promise<void> {
  const work = { kind: "none" } as const;
  return beginRun({ adapters, workflow, id: ID, work, inputs: TOY_INPUTS, config: TOY_CONFIG, workspace });
}

export interface TestRun extends WorkBench {
  readonly store: Store;
  go(workflow: Workflow<State>, more?: Partial<ExecuteParams<State>>): Promise<RunOutcome>;
  /** Simulates the death of the process at a commit; "ended" when the run ended before. */
  crash(workflow: Workflow<State>, at: number, moment: "before" | "after", run?: string): Promise<"died" | "ended">;
  kinds(): Promise<readonly EntryKind[]>;
  pass(milliseconds: number): void;
}

export async function startTestRun(
  kind: WorkStore,
  later: (dispose: () => void | Promise<void>) => void,
  more: { readonly workspaces?: Workspaces; readonly agents?: readonly Agent[] } = {},
): Promise<TestRun> {
  const clock = createSetClock();
  const store = await kind.open(clock, later);
  const pass = (milliseconds: number): void => clock.set(new Date(clock.now() + milliseconds).toISOString());
  const bench = createTestAdapters({ ...more, store, clock, onWait: pass });
  const { adapters } = bench;
  const go: TestRun["go"] = (workflow, given = {}) =>
    executeRun({ adapters, run: ID, workflow, signal: new AbortController().signal, ...given });
  return {
    ...bench,
    store,
    pass,
    go,
    async crash(workflow, at, moment, run = ID) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const dying = createCrashingStore(store, { at, moment, die: resolve });
      await Promise.race([promise, go(workflow, { run, adapters: { ...adapters, store: dying } })]);
      return dying.commits < at ? "ended" : "died";
    },
    async kinds() {
      return (await Array.fromAsync(store.readJournal({ run: ID }))).map((entry) => entry.kind);
    },
  };
}

/** The adapters of an engine, over a real store and real worktrees, with a small fake agent. Waits return at once. */
interface WorkBench {
  readonly adapters: Adapters;
  /** The requested waits in milliseconds, in order. */
  readonly waits: readonly number[];
  /** The process marks that were ended, in order. */
  readonly ended: readonly string[];
  /** Raw lines of agents, by step. */
  readonly logs: ReadonlyMap<string, readonly string[]>;
}

export function createTestAdapters(params: {
  readonly store: Store;
  readonly clock: Clock;
  readonly workspaces?: Workspaces | null;
  readonly agents?: readonly Agent[];
  /** Called for each wait, so that a test can advance its clock. */
  readonly onWait?: (milliseconds: number) => void;
}): WorkBench {
  const waits: number[] = [];
  const ended: string[] = [];
  const logs = new Map<string, string[]>();
  const agents = new Map((params.agents ?? []).map((agent) => [agent.name, agent]));
  const unused = (): never => {
    throw new Error("no part of this bench");
  };
  const adapters: Adapters = {
    store: params.store,
    storeDirectory: null,
    // Keeps no result, as if each process died before it was kept; memoryAnswers() keeps them.
    logs: {
      ...NO_LOGS,
      open: ({ step }) => ({
        append: (line) => void logs.set(step, [...(logs.get(step) ?? []), line]),
        close: () => Promise.resolve(),
      }),
    },
    workspaces: params.workspaces ?? null,
    clock: params.clock,
    random: () => "abc12",
    retention: defaultRetention,
    maxUntrackedBytes: undefined,
    includeIgnored: false,
    ownsRefs: true,
    liveness: () => "alive",
    leaseWaitMs: 0,
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
      findUnmarked: () => [],
    },
    syntax: { check: unused },
    outputs: plainOutputs,
    projectRoot: unused,
    wait: async (milliseconds, signal) => {
      signal.throwIfAborted();
      waits.push(milliseconds);
      params.onWait?.(milliseconds);
      await Promise.resolve();
      signal.throwIfAborted();
    },
  };
  return { adapters, waits, ended, logs };
}

/** Keeps the results of calls as files would, beyond the death of a process. */
export function memoryAnswers(): AgentLogs["result"] {
  const answers = new Map<string, string>();
  return ({ run, stageAttempt, step }) => {
    const key = `${run}/${stageAttempt}/${step}`;
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

/** Absent fields get ordinary values. */
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

interface WorkStore {
  readonly name: string;
  open(clock: Clock, later: (dispose: () => void | Promise<void>) => void): Promise<Store>;
}

export const SQLITE: WorkStore = {
  name: "sqlite",
  async open(clock, later) {
    const store = await openSqliteStore({ directory: scratchDirectory(later), clock });
    later(() => store.close());
    return store;
  },
};

export const MEMORY: WorkStore = {
  name: "memory",
  open: (clock) => Promise.resolve(openMemoryStore({ clock })),
};

/** Both stores, for suites of code that uses a store. */
export const WORK_STORES: readonly WorkStore[] = [MEMORY, SQLITE];

interface CrashingStore extends Store {
  /** How many commits were called. */
  readonly commits: number;
}

/**
 * A store whose process dies at its n-th commit, before or after it is durable. In a real process `die` does not return. If it returns (a
 * simulated death), no later call is ever answered.
 */
export function createCrashingStore(
  store: Store,
  params: { readonly at: number; readonly moment: "before" | "after"; readonly die: () => void },
): CrashingStore {
  let commits = 0;
  let dead = false;
  const never = new Promise<never>(() => {});
  const die = (): Promise<never> => {
    dead = true;
    params.die();
    return never;
  };
  const dying: Pick<Store, "commit"> & { readonly commits: number } = {
    get commits() {
      return commits;
    },
    async commit(commit) {
      if (dead) return await never;
      commits += 1;
      const mine = commits === params.at;
      if (mine && params.moment === "before") return await die();
      const committed = await store.commit(commit);
      return mine ? await die() : committed;
    },
  };
  return new Proxy(store, {
    get: (target, key) => {
      if (key in dying) return Reflect.get(dying, key);
      if (dead) return () => never;
      return Reflect.get(target, key);
    },
  }) as CrashingStore;
}
