// What a stage does in steps: plain steps, steps that change files, decisions, recorded events and changes of its graph.

import { HoldfastError } from "@holdfast/platform/error";
import { snapshotParams } from "./adapters.ts";
import { type GraphEvent, stepGraph, viewGraph } from "./graph-state.ts";
import { type Graph, checkGraph } from "./graph.ts";
import type { NewEntry, RunWaiting, StepStarted } from "./journal.ts";
import type { Json, JsonObject } from "./json.ts";
import { reasonOf } from "./progress.ts";
import { restoreRunFiles } from "./restore-files.ts";
import type { RunSession } from "./run-session.ts";
import { RECHECK, type StageExecution, startWaiting, withTimer } from "./stage-execution.ts";
import { type ApplyEvent, own, rebaseRunning } from "./state.ts";
import { capture } from "./values.ts";
import type { Decision, StageGraph, StepOptions, StepScope, Workflow } from "./workflow.ts";

type Work = (scope: StepScope) => Promise<Json> | Json;

/** Executes a plain step: one commit with one entry, after its work. A step that was begun and lost has changed nothing that counts. */
export async function runStep(
  execution: StageExecution,
  name: string,
  work: Work,
  options?: StepOptions,
): Promise<Json> {
  const { runSession } = execution;
  const known = execution.claim(name);
  if (known !== undefined) {
    if (runSession.listening) runSession.tell({ kind: "step_finished", step: name, replayed: true });
    return known;
  }
  execution.enter();
  try {
    if (options?.risk !== undefined)
      await saveBefore(runSession, { trigger: "before_risky", name: options.risk, entries: () => [] });
    if (options?.changesFiles === true)
      return await runFileStep(execution, name, { work, artifacts: options.artifacts ?? [] });
    if (runSession.listening) runSession.tell({ kind: "step_started", step: name });
    let result: Json;
    try {
      result = capture(await work(scopeOf(execution, name)));
    } catch (error) {
      throw await failStep(execution, name, error);
    }
    execution.open();
    await runSession.append(execution.finished(name, { result, spent: null }));
    if (runSession.listening) runSession.tell({ kind: "step_finished", step: name, replayed: false });
    return result;
  } finally {
    execution.leave();
  }
}

async function runFileStep(
  execution: StageExecution,
  name: string,
  { work, artifacts }: { readonly work: Work; readonly artifacts: readonly string[] },
): Promise<Json> {
  const { runSession } = execution;
  await beginStep(execution, name, { files: true, estimate: null });
  let result: Json;
  try {
    result = capture(await withTimer(execution, () => Promise.resolve(work(scopeOf(execution, name)))));
  } catch (error) {
    throw await failStep(execution, name, error);
  }
  execution.open();
  await runSession.save({
    trigger: (await areComplete(runSession, artifacts)) ? "artifact_complete" : "automatic",
    name,
    prepare: () => [execution.finished(name, { result, spent: null })],
    change: (planes, { sequence }) => rebaseRunning(planes, sequence),
  });
  if (runSession.listening) runSession.tell({ kind: "step_finished", step: name, replayed: false });
  return result;
}

async function areComplete(
  { parts, workspace }: StageExecution["runSession"],
  artifacts: readonly string[],
): Promise<boolean> {
  if (workspace === undefined || artifacts.length === 0 || !parts.checkpoints.artifactComplete) return false;
  const outputs = parts.outputs(workspace.root);
  for (const path of artifacts) if ((await outputs.read(path)) === null) return false;
  return true;
}

/** Writes the start durably before the work: if a start has no end, the files may be half-done. */
export async function beginStep(
  execution: StageExecution,
  name: string,
  params: Pick<StepStarted, "files" | "estimate" | "counted" | "aside">,
): Promise<void> {
  const { runSession } = execution;
  const body: StepStarted = { visit: runSession.attempt.number, step: name, ...params };
  if (params.files) runSession.fileSteps += 1;
  await runSession.append({ kind: "step.started", body });
  if (runSession.listening) runSession.tell({ kind: "step_started", step: name });
}

/** Records a failed try and returns what to throw. Aborted work has not failed: it is as after a crash. */
export async function failStep(execution: StageExecution, name: string, error: unknown): Promise<unknown> {
  const { runSession } = execution;
  if (runSession.halt.cause !== undefined) return runSession.halt.cause;
  execution.open();
  const reason = reasonOf(error);
  const step = own(runSession.attempt.running, name);
  const spent = step?.estimate ?? null;
  const code = error instanceof HoldfastError ? { code: error.code } : {};
  const finish = (): readonly NewEntry[] => [execution.failed(name, { reason, spent, ...code })];
  if (step?.files === true && !(await movedBranch(execution, step.base))) {
    await restoreRunFiles(runSession, { to: step.base, trigger: "error_recovery", why: `${name} failed`, finish });
  } else {
    await runSession.append(...finish());
  }
  execution.unclaim(name);
  if (runSession.listening) runSession.tell({ kind: "step_failed", step: name, reason, retryAt: null });
  return error;
}

/**
 * Whether the branch's head moved. The engine's steps that move the branch do so atomically and may be repeated. The old files under the
 * new head would look like changes that undo it.
 */
export async function movedBranch(
  execution: { readonly runSession: StageExecution["runSession"] },
  base: number,
): Promise<boolean> {
  const { workspace, parts, run } = execution.runSession;
  if (workspace === undefined) return false;
  const { planes } = await parts.store.getCheckpoint({ run: run.id, sequence: base });
  const { head } = await workspace.look(snapshotParams(parts));
  return planes.files !== null && planes.files.head !== head;
}

export function markOf(execution: StageExecution, name: string): string {
  return execution.mark + name;
}

export function attemptOf(execution: StageExecution, name: string): number {
  return (own(execution.runSession.state.position.visit.failures, name) ?? 0) + 1;
}

function scopeOf(execution: StageExecution, name: string): StepScope {
  return {
    signal: execution.runSession.halt.signal,
    attempt: attemptOf(execution, name),
    mark: markOf(execution, name),
  };
}

/**
 * Saves the state before an action that may be irreversible: a push, a rebase, a call to an external service. If a checkpoint already has
 * that state, none is taken, and the entries name the existing one. `entries` are in the same commit, so that a kill leaves both or
 * neither.
 */
export async function saveBefore(
  runSession: RunSession,
  params: {
    readonly trigger: "before_risky" | "before_external";
    readonly name: string;
    /** Gets the sequence of the checkpoint before the action; null: checkpoints are off, or a step is changing files. */
    readonly entries: (before: number | null) => readonly NewEntry[];
  },
): Promise<void> {
  const { trigger, name, entries } = params;
  const { checkpoints } = runSession.parts;
  const isOn = trigger === "before_risky" ? checkpoints.beforeRisky : checkpoints.beforeExternal;
  // A step that is changing files now has half-done files: a checkpoint of them could not be restored.
  const isQuiet = runSession.placing === 0 && !Object.values(runSession.attempt.running).some(({ files }) => files);
  if (!isOn || !isQuiet) return await appendAll(runSession, entries(null));
  if (!runSession.state.unsaved && !(await filesChanged(runSession)))
    return await appendAll(runSession, entries(runSession.state.sequence));
  await runSession.save({ trigger, name: nameOf(name), prepare: ({ sequence }) => entries(sequence) });
}

async function filesChanged({ workspace, state, parts }: RunSession): Promise<boolean> {
  const { files } = state;
  if (workspace === undefined || files === null) return false;
  const { tree, head, branch } = await workspace.look(snapshotParams(parts));
  return tree !== files.tree || head !== files.head || branch !== files.branch;
}

async function appendAll(runSession: RunSession, entries: readonly NewEntry[]): Promise<void> {
  if (entries.length > 0) await runSession.append(...entries);
}

const NAME_CHARACTERS = 100;

/** Targets are the user's texts; a name is one line. */
function nameOf(text: string): string {
  return text.replaceAll(/\s+/g, " ").slice(0, NAME_CHARACTERS).toWellFormed();
}

/** Waits for the user's answer and returns it. It remains the same for the rest of the stage attempt. */
export async function decide(execution: StageExecution, decision: Decision): Promise<string> {
  const { question, options, recheck } = decision;
  const name = decisionStep(decision);
  const known = execution.claim(name);
  if (typeof known === "string") return known;
  const waiting: RunWaiting = {
    for: "you",
    reason: question,
    until: null,
    decision: { name, question, options, ...(recheck === true ? { recheck } : {}) },
  };
  return await startWaiting(execution, waiting);
}

/** Name of the step that holds the answer. */
export function decisionStep({ name, recheck }: Pick<Decision, "name" | "recheck">): string {
  return recheck === true ? `${RECHECK}${name}` : name;
}

/** The workflow's values in the middle of a stage: readable, and changed by one recorded event at a time. */
export class Recorder<S extends JsonObject> {
  readonly #execution: StageExecution;
  readonly #workflow: Workflow<S>;
  /** Caches the parsed state, so that an unchanged state is the same object. */
  #parsed: { readonly values: JsonObject; readonly state: S } | undefined;

  constructor(execution: StageExecution, workflow: Workflow<S>) {
    this.#execution = execution;
    this.#workflow = workflow;
    this.#parsed = {
      values: execution.runSession.state.values,
      state: workflow.parseState(execution.runSession.state.values),
    };
  }

  get state(): S {
    const { values } = this.#execution.runSession.state;
    if (this.#parsed?.values !== values) this.#parsed = { values, state: this.#workflow.parseState(values) };
    return this.#parsed.state;
  }

  /** The event and the values that it makes are one commit: an event that the workflow's reducer rejects is not written. */
  async record(name: string, live: Json): Promise<Json> {
    const execution = this.#execution;
    const { runSession } = execution;
    const known = execution.claim(name);
    if (known !== undefined) {
      if (runSession.listening) runSession.tell({ kind: "step_finished", step: name, replayed: true });
      return known;
    }
    return await execution.busy(async () => {
      let event: Json;
      let written: Promise<void>;
      try {
        event = capture(live);
        if (this.#workflow.reduce === null) throw noReducer(this.#workflow.shape.name);
        written = runSession.append(execution.finished(name, { recorded: true, result: event, spent: null }));
      } catch (error) {
        execution.unclaim(name);
        throw error;
      }
      await written;
      if (runSession.listening) runSession.tell({ kind: "step_finished", step: name, replayed: false });
      return event;
    });
  }
}

/** Applies a recorded event to the values with the workflow's `reduce`. */
export function eventsOf<S extends JsonObject>(workflow: Workflow<S>, run: string): NonNullable<ApplyEvent> {
  const { reduce, shape } = workflow;
  return (values, event) => {
    if (reduce === null) {
      throw new HoldfastError({
        code: "WORKFLOW_CHANGED",
        message: `Run ${run} has recorded events, and workflow ${shape.name} has no reducer any more`,
        hint: "Continue it with the workflow version that recorded them.",
        retry: "ask",
        data: { run },
      });
    }
    // The state is an object, and a capture has the same shape as its source.
    return capture(reduce(workflow.parseState(values), event), values) as S;
  };
}

function noReducer(workflow: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Workflow ${workflow} records an event and has no reducer`,
    hint: "Give defineWorkflow a `reduce` that says what the event makes of the state.",
  });
}

/** The graph in the run's state, and the entries that change it. */
export function stageGraph(execution: StageExecution): StageGraph {
  const { runSession } = execution;
  /** The graph after the given events, while `choose` reads it; one commit contains both. */
  let tentative: Graph | null = null;
  const view = viewGraph(() => tentative ?? requireGraph(execution));

  async function commitMoves(params: {
    readonly given: readonly GraphEvent[];
    readonly choose: Parameters<StageGraph["moveThen"]>[1];
    readonly also: readonly NewEntry[];
  }): Promise<readonly GraphEvent[]> {
    const given = params.given.map(captureEvent);
    tentative = given.reduce(stepGraph, requireGraph(execution));
    let chosen: readonly GraphEvent[];
    try {
      chosen = params.choose(view).map(captureEvent);
    } finally {
      tentative = null;
    }
    const events = [...given, ...chosen];
    const entries = [...(events.length === 0 ? [] : [movedEntry(events, runSession.attempt.number)]), ...params.also];
    if (entries.length > 0) await execution.busy(() => runSession.append(...entries));
    if (runSession.listening && events.length > 0) runSession.tell({ kind: "graph_moved", events });
    return chosen;
  }

  const moveThen: StageGraph["moveThen"] = async (given, choose) => {
    // A completed node may still be written while work stops; nothing starts then.
    if (given.length > 0 && given.every(({ kind }) => kind === "complete")) execution.open();
    else execution.check();
    return await commitMoves({ given, choose, also: [] });
  };
  return {
    now: () => currentGraph(execution),
    view() {
      requireGraph(execution);
      return view;
    },
    set: (graph) => setGraph(execution, graph),
    moveThen,
    async move(...events) {
      await moveThen(events, () => []);
    },
    async moveOnce(name, ...events) {
      if (execution.claim(name) !== undefined) return;
      const also = [execution.finished(name, { result: null, spent: null })];
      await commitMoves({ given: events, choose: () => [], also }).catch((error: unknown) => {
        execution.unclaim(name);
        throw error;
      });
    },
  };
}

async function setGraph(execution: StageExecution, live: Graph): Promise<void> {
  const { runSession } = execution;
  execution.check();
  const current = currentGraph(execution);
  if (current !== null) {
    if (current.id !== live.id) throw anotherGraph(execution, current.id, live.id);
    return;
  }
  const graph = capture(live);
  // A capture has the same shape as its source.
  checkGraph(graph as unknown as Graph);
  await execution.busy(() =>
    runSession.append({ kind: "graph.set", body: { graph, visit: runSession.attempt.number } }),
  );
}

function captureEvent(event: GraphEvent): GraphEvent {
  // The cast is safe as above.
  return capture(event) as unknown as GraphEvent;
}

export function movedEntry(events: readonly GraphEvent[], visit: number): NewEntry {
  // The events are plain data, captured or made by the engine.
  return { kind: "graph.moved", body: { events: events as unknown as Json[], visit } };
}

/** Null: this stage attempt has set none. The graph of an earlier attempt cannot be changed any more. */
function currentGraph({ runSession }: StageExecution): Graph | null {
  const { graph, visit } = runSession.state.position;
  return visit.graph === true ? graph : null;
}

function requireGraph(execution: StageExecution): Graph {
  const graph = currentGraph(execution);
  if (graph !== null) return graph;
  throw new HoldfastError({
    code: "USAGE",
    message: `Stage ${execution.stage} moves a graph that it has not set`,
    hint: "Call graph.set first; the graph of an earlier stage attempt cannot be changed.",
    data: { stage: execution.stage },
  });
}

function anotherGraph({ stage }: StageExecution, current: string, id: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Stage ${stage} sets graph ${id}, and this stage attempt has set ${current}`,
    hint: "A stage attempt has one graph: add nodes to it, or set the second one in another stage.",
    data: { stage },
  });
}
