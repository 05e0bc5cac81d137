import { beginRun } from "../engine/conduct/begin-run.ts";
import { conduct } from "../engine/conduct/conduct.ts";
import type { ConductParams } from "../engine/conduct/conduct.ts";
import { defineWorkflow } from "../engine/define-workflow.ts";
import type { WorkflowParams } from "../engine/define-workflow.ts";
import type { Workflow } from "../engine/definition.ts";
import type { RunOutcome } from "../engine/outcome.ts";
import type { StageFunction } from "../engine/stage-context.ts";
import type { WorkParts } from "../engine/work-parts.ts";
import type { EntryKind } from "../core/journal/journal.ts";
import type { Run } from "../core/run/run.ts";
import type { Agent } from "../ports/agent.ts";
import type { Store } from "../ports/store.ts";
import type { Workspace, Workspaces } from "../ports/workspace.ts";
import { createCrashingStore } from "./crashing-store.ts";
import { createSetClock } from "./store-contract.ts";
import { createWorkBench } from "./work-bench.ts";
import type { WorkBench } from "./work-bench.ts";
import type { WorkStore } from "./work-stores.ts";

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

export function begin(parts: WorkParts, workflow: Workflow<State>, workspace?: Workspace): Promise<Run> {
  const work = { kind: "none" } as const;
  return beginRun({ parts, workflow, id: ID, work, inputs: TOY_INPUTS, config: TOY_CONFIG, workspace });
}

export interface ToyRun extends WorkBench {
  readonly store: Store;
  go(workflow: Workflow<State>, more?: Partial<ConductParams<State>>): Promise<RunOutcome>;
  /** Plays the death of the process at a commit; "ended" when it ended before. */
  crash(workflow: Workflow<State>, at: number, moment: "before" | "after"): Promise<"died" | "ended">;
  kinds(): Promise<readonly EntryKind[]>;
  pass(milliseconds: number): void;
}

export async function startToy(
  kind: WorkStore,
  later: (dispose: () => void | Promise<void>) => void,
  more: { readonly workspaces?: Workspaces; readonly agents?: readonly Agent[] } = {},
): Promise<ToyRun> {
  const clock = createSetClock();
  const store = await kind.open(clock, later);
  const pass = (milliseconds: number): void => clock.set(new Date(clock.now() + milliseconds).toISOString());
  const bench = createWorkBench({ ...more, store, clock, onWait: pass });
  const { parts } = bench;
  const go: ToyRun["go"] = (workflow, given = {}) =>
    conduct({ parts, run: ID, workflow, signal: new AbortController().signal, ...given });
  return {
    ...bench,
    store,
    pass,
    go,
    async crash(workflow, at, moment) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const dying = createCrashingStore(store, { at, moment, die: resolve });
      await Promise.race([promise, go(workflow, { parts: { ...parts, store: dying } })]);
      return dying.commits < at ? "ended" : "died";
    },
    async kinds() {
      return (await Array.fromAsync(store.readJournal({ run: ID }))).map((entry) => entry.kind);
    },
  };
}
