// The state of a run, and the only code that changes it: `reduce` for one journal entry, `takeCheckpoint` for one checkpoint, `loadState`
// to recover.

import {
  NOTHING,
  addReserved,
  amountsBeyond,
  hold,
  holdUnknown,
  reopenLost,
  settle,
  settleLost,
  spendTime,
} from "./budget.ts";
import type { ConversationPlane, FilesPlane, Planes } from "./checkpoint.ts";
import { type Effect, stepEffect } from "./effects.ts";
import { stepGraph } from "./graph-state.ts";
import {
  type JournalEntry,
  type RunResumed,
  type StepAdopted,
  type StepFailed,
  type StepFinished,
  type StepInterrupted,
  type StepLost,
  type StepSession,
  type StepStarted,
  filesSettled,
  graphMoved,
  graphSet,
  isUnsavedChange,
  readBody,
  runResumed,
  stageEntered,
  stepAdopted,
  stepFailed,
  stepFinished,
  stepInterrupted,
  stepLost,
  stepSession,
  stepStarted,
} from "./journal.ts";
import type { Digest, Json, JsonObject } from "./json.ts";
import type { Amounts, Budget, Position, RunningStep, StageAttempt } from "./position.ts";
import { forgetSideWorktreeCalls } from "./side-worktree-steps.ts";

/**
 * The state of a run. `reduce` applies one journal entry, `takeCheckpoint` applies one checkpoint. The engine uses both while it works
 * (RunSession), and `loadState` uses both to recover a run from the store.
 * Observations from outside have no entry: the files, the time, the agent's conversation, and the version of the workflow. They become part
 * of the state with the next checkpoint, whose planes contain them.
 */

export interface RunState {
  readonly run: string;
  /** Its `stageAttempt` has no `settled`, because that describes one checkpoint. */
  readonly position: Position;
  /** The workflow's own values. */
  readonly values: JsonObject;
  readonly tokens: Planes["context"]["tokens"];
  readonly inputs: Planes["inputs"];
  readonly config: Planes["config"];
  readonly extensions: JsonObject;
  /** As in the newest checkpoint, without `rewound` once an agent has been called. */
  readonly conversation: ConversationPlane | null;
  /** Sequence of the newest usable checkpoint. */
  readonly sequence: number;
  readonly files: FilesPlane | null;
  readonly settled: SettledFiles;
  /** By key, in the order in which they were first intended. */
  readonly effects: Readonly<Record<string, Effect>>;
  /** Something happened since the newest checkpoint that only a checkpoint contains completely. */
  readonly unsaved: boolean;
}

/** The newest checkpoint whose files were left by steps that may change files. */
export interface SettledFiles {
  readonly sequence: number;
  readonly files: FilesPlane | null;
}

/** Applies an event that a stage recorded to the workflow's values. Null: the workflow is not known, and events are collected. */
export type ApplyEvent = ((values: JsonObject, event: Json) => JsonObject) | null;

/** Entry numbers and hashes are the store's; the state does not depend on them. */
export type StateEntry = Pick<JournalEntry, "run" | "entry" | "kind" | "at" | "body">;

/** The state after one more entry. Throws without any change when the entry cannot follow on this state. */
export function reduce(state: RunState, entry: StateEntry, apply: ApplyEvent): RunState {
  const after = reduceKind(state, entry, apply);
  return after.unsaved || !isUnsavedChange(entry) ? after : { ...after, unsaved: true };
}

function reduceKind(state: RunState, entry: StateEntry, apply: ApplyEvent): RunState {
  switch (entry.kind) {
    case "run.resumed":
      return resume(state, readBody(runResumed, entry));
    case "step.started":
      return startStep(state, readBody(stepStarted, entry));
    case "step.finished":
      return finishStep(state, readBody(stepFinished, entry), apply);
    case "step.failed":
      return failStep(state, readBody(stepFailed, entry));
    case "step.interrupted":
      return interruptStep(state, readBody(stepInterrupted, entry));
    case "step.lost":
      return loseStep(state, readBody(stepLost, entry));
    case "step.adopted":
      return adoptStep(state, readBody(stepAdopted, entry));
    case "step.session":
      return keepSession(state, readBody(stepSession, entry));
    case "graph.set": {
      const { stageAttempt, graph } = readBody(graphSet, entry);
      if (stageAttempt !== state.position.stageAttempt.number) return state;
      return withStageAttempt({ ...state, position: { ...state.position, graph } }, { graph: true });
    }
    case "graph.moved": {
      const { stageAttempt, events } = readBody(graphMoved, entry);
      const { graph } = state.position;
      if (stageAttempt !== state.position.stageAttempt.number || graph === null) return state;
      return { ...state, position: { ...state.position, graph: events.reduce(stepGraph, graph) } };
    }
    case "effect.intended":
    case "effect.unknown":
    case "effect.settled":
    case "effect.undoing":
    case "effect.undone": {
      const effect = stepEffect((key) => own(state.effects, key), entry);
      return effect === null ? state : { ...state, effects: { ...state.effects, [effect.key]: effect } };
    }
    case "yolo.allowed":
      return { ...state, position: { ...state.position, yolo: true } };
    case "files.settled": {
      const { sequence } = readBody(filesSettled, entry);
      return sequence === state.sequence ? { ...state, settled: { sequence, files: state.files } } : state;
    }
    default:
      return state;
  }
}

/** A checkpoint contains everything, so the state after it is its content. */
export function takeCheckpoint(
  state: Pick<RunState, "run" | "effects" | "settled">,
  { sequence, planes }: { readonly sequence: number; readonly planes: Planes },
): RunState {
  const { position, context, files, conversation, inputs, config, extensions } = planes;
  const { settled, ...stageAttempt } = position.stageAttempt;
  return {
    run: state.run,
    effects: state.effects,
    position: { ...position, stageAttempt },
    values: context.values,
    tokens: context.tokens,
    inputs,
    config,
    extensions,
    conversation,
    sequence,
    files,
    settled: settled?.of === sequence ? state.settled : { sequence, files },
    unsaved: false,
  };
}

/** The planes of a checkpoint taken now. */
export function planesOf(
  state: RunState,
  observed: {
    /** Definition of the workflow that runs now; absent: the state's. */
    readonly definition?: Digest | null;
    readonly files: FilesPlane | null;
    readonly conversation: ConversationPlane | null;
    /** Working time that is not in the budget yet. */
    readonly milliseconds: number;
    /** Newest journal entry that the store has confirmed. */
    readonly entry: number;
  },
): Planes {
  const { position, inputs, config, extensions } = state;
  const { definition = position.definition } = observed;
  return {
    position: { ...position, definition, budget: spendTime(position.budget, observed.milliseconds) },
    context: { values: state.values, tokens: state.tokens },
    files: observed.files,
    conversation: observed.conversation,
    effects: { entry: observed.entry, pending: pendingEffects(state) },
    inputs,
    config,
    extensions,
  };
}

/**
 * Marks planes whose files are not settled: they differ from the settled ones while an agent call was in flight that must not change them.
 * `settles`: the files are as they should be, whatever is in flight.
 */
export function markSettled(
  planes: Planes,
  params: { readonly sequence: number; readonly before: SettledFiles; readonly settles: boolean },
): Planes {
  const { sequence, before, settles } = params;
  if (settles || (planes.files !== null && sameFiles(planes.files, before.files))) return planes;
  const { position } = planes;
  return {
    ...planes,
    position: {
      ...position,
      stageAttempt: { ...position.stageAttempt, settled: { of: sequence, at: before.sequence } },
    },
  };
}

type FilesIdentity = Pick<FilesPlane, "tree" | "head" | "branch">;

export function sameFiles(one: FilesIdentity, other: FilesIdentity | null): boolean {
  return one.tree === other?.tree && one.head === other.head && one.branch === other.branch;
}

/** Whether steps are in flight and none of them may change the run's own files. */
export function onlyReaders(state: RunState): boolean {
  const running = Object.values(runningOf(state));
  return running.length > 0 && running.every(({ files }) => !files);
}

/**
 * A checkpoint at the end of a step that changes files also contains half of every other such step in flight. They cannot be separated, so
 * those steps restore to this checkpoint.
 */
export function rebaseRunning(planes: Planes, sequence: number): Planes {
  const { running } = planes.position.stageAttempt;
  if (running === undefined) return planes;
  const entries = Object.entries(running).map(([name, step]) => [name, { ...step, base: sequence }] as const);
  const stageAttempt = { ...planes.position.stageAttempt, running: Object.fromEntries(entries) };
  return { ...planes, position: { ...planes.position, stageAttempt } };
}

/** Marks a conversation that the run went back to. A forked one remains "fork": its session is also the parent's. */
export function rewoundTo(kept: ConversationPlane | null, how: "restore" | "fork"): ConversationPlane | null {
  return kept === null ? null : { ...kept, rewound: kept.rewound === "fork" ? "fork" : how };
}

export interface LoadedState {
  readonly state: RunState;
  /**
   * Newer checkpoints than this one exist and cannot be used. Work that finished after it is dropped, because its files are gone. Costs are
   * kept, and the stage attempt gets a number that was never used.
   */
  readonly fellBack: boolean;
}

/** Recovers a run from its newest usable checkpoint and all entries after it. */
export function loadState(params: {
  readonly run: string;
  readonly checkpoint: { readonly sequence: number; readonly planes: Planes };
  /** Entries after the checkpoint. */
  readonly entries: readonly StateEntry[];
  /** The run's effect ledger as the store has it now. */
  readonly effects: readonly Effect[];
  /** Absent: the checkpoint's own files. */
  readonly settled?: SettledFiles;
  readonly apply: ApplyEvent;
}): LoadedState {
  const { run, checkpoint, entries, apply } = params;
  const effects = Object.fromEntries(params.effects.map((effect) => [effect.key, effect]));
  const settled = params.settled ?? { sequence: checkpoint.sequence, files: checkpoint.planes.files };
  const start = applyCollected(takeCheckpoint({ run, effects, settled }, checkpoint), apply);
  const fellBack = entries.some(({ kind }) => kind === "checkpoint");
  if (!fellBack) return { state: entries.reduce((before, entry) => reduce(before, entry, apply), start), fellBack };
  const state = entries
    .filter(({ kind }) => kind !== "graph.set" && kind !== "graph.moved")
    .reduce((before, entry) => reduce(before, entry, null), start);
  const stageAttempts = entries.flatMap((entry) =>
    entry.kind === "stage.entered" ? [readBody(stageEntered, entry).stageAttempt] : [],
  );
  const number = Math.max(start.position.stageAttempt.number, ...stageAttempts) + 1;
  const { lost: _counted, ...stageAttempt } = forgetSideWorktreeCalls(start.position.stageAttempt);
  return {
    state: {
      ...start,
      effects: state.effects,
      settled: { sequence: start.sequence, files: start.files },
      position: { ...start.position, budget: state.position.budget, stageAttempt: { ...stageAttempt, number } },
      // Agents may remember work that cannot be used any more.
      conversation: rewoundTo(start.conversation, "restore"),
    },
    fellBack,
  };
}

export function own<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

function runningOf(state: RunState): Readonly<Record<string, RunningStep>> {
  return state.position.stageAttempt.running ?? {};
}

function pendingEffects({ effects }: RunState): readonly string[] {
  return Object.values(effects)
    .filter(({ state }) => state.kind === "intended" || state.kind === "unknown")
    .map(({ key }) => key);
}

/** Applies events that a writer without the workflow left in a checkpoint. */
function applyCollected(state: RunState, apply: ApplyEvent): RunState {
  const { unreduced } = state.position.stageAttempt;
  if (unreduced === undefined || apply === null) return state;
  return withStageAttempt(
    { ...state, values: unreduced.reduce(apply, state.values), unsaved: true },
    { unreduced: [] },
  );
}

/** Calls that died with their process: their reserved amounts count as spent until their cost is known. */
function resume(state: RunState, { counts }: RunResumed): RunState {
  const { running, lost } = fullAttempt(state.position.stageAttempt);
  const calls = Object.fromEntries(Object.entries(running).filter(([, { estimate }]) => estimate !== null));
  const after = withBudget(state, settleLost(state.position.budget));
  return withStageAttempt(after, { running: {}, lost: counts ? { ...lost, ...calls } : {} });
}

function startStep(state: RunState, body: StepStarted): RunState {
  const { step, files, estimate, counted, sent, sideWorktree } = body;
  const { running, sideWorktrees, lost } = fullAttempt(state.position.stageAttempt);
  // The step started again without an end: the first try never reported its cost.
  const unreported = own(running, step)?.estimate ?? null;
  const paid = unreported === null ? state : pay(state, step, unreported);
  const started: RunningStep = {
    files,
    estimate,
    base: state.sequence,
    ...(counted === undefined ? {} : { counted }),
    ...(sent === undefined ? {} : { sent }),
  };
  return withStageAttempt(estimate === null ? paid : withBudget(paid, addReserved(paid.position.budget, estimate)), {
    running: { ...running, [step]: started },
    lost: without(lost, step),
    ...(sideWorktree === undefined ? {} : { sideWorktrees: { ...sideWorktrees, [step]: sideWorktree } }),
  });
}

function finishStep(state: RunState, body: StepFinished, apply: ApplyEvent): RunState {
  const { stageAttempt: number, step, result, spent, recorded } = body;
  const paid = pay(state, step, spent);
  const stageAttempt = fullAttempt(paid.position.stageAttempt);
  const ended = { running: without(stageAttempt.running, step), lost: without(stageAttempt.lost, step) };
  if (number !== stageAttempt.number) return withStageAttempt(paid, ended);
  const done = withStageAttempt(paid, {
    ...ended,
    steps: { ...stageAttempt.steps, [step]: result },
    failures: without(stageAttempt.failures, step),
    sessions: without(stageAttempt.sessions, step),
    sideWorktrees: without(stageAttempt.sideWorktrees, step),
    errors: without(stageAttempt.errors, step),
  });
  if (recorded !== true) return done;
  if (apply === null) return withStageAttempt(done, { unreduced: [...stageAttempt.unreduced, result] });
  return { ...done, values: apply(done.values, result) };
}

function failStep(state: RunState, body: StepFailed): RunState {
  const { stageAttempt: number, step, spent, verdict, errors } = body;
  const paid = pay(state, step, spent);
  const stageAttempt = fullAttempt(paid.position.stageAttempt);
  const ended = { running: without(stageAttempt.running, step), lost: without(stageAttempt.lost, step) };
  if (number !== stageAttempt.number) return withStageAttempt(paid, ended);
  return withStageAttempt(paid, {
    ...ended,
    failures: { ...stageAttempt.failures, [step]: (own(stageAttempt.failures, step) ?? 0) + 1 },
    ...(errors === undefined ? {} : { errors: { ...stageAttempt.errors, [step]: errors } }),
    // A session belongs to one agent; the next agent begins its own.
    ...(verdict?.action === "fallback" ? { sessions: without(stageAttempt.sessions, step) } : {}),
  });
}

/** A call that was stopped and reported its cost. The rest is as after a crash. */
function interruptStep(state: RunState, { step, spent }: StepInterrupted): RunState {
  const { running } = fullAttempt(state.position.stageAttempt);
  const stopped = own(running, step);
  if (stopped === undefined) return state;
  const { counted: _known, ...rest } = stopped;
  const settled: RunningStep = { ...rest, estimate: NOTHING, settled: true };
  return withStageAttempt(pay(state, step, spent), { running: { ...running, [step]: settled } });
}

/** Settles the real cost of a lost call. Its reserved amounts count as spent since the run was resumed. */
function loseStep(state: RunState, { step, spent, held }: StepLost): RunState {
  const stageAttempt = fullAttempt(state.position.stageAttempt);
  const counted = own(stageAttempt.lost, step)?.estimate ?? NOTHING;
  const { budget } = pay(state, step, amountsBeyond(spent, counted)).position;
  const after = withBudget(state, held === undefined ? budget : hold(budget, held));
  return withStageAttempt(after, {
    running: without(stageAttempt.running, step),
    lost: without(stageAttempt.lost, step),
  });
}

/** A lost call had finished after all: it is in flight again until its result is recorded. */
function adoptStep(state: RunState, { step }: StepAdopted): RunState {
  const { running, lost } = fullAttempt(state.position.stageAttempt);
  const call = own(lost, step);
  if (call === undefined) return state;
  const budget = reopenLost(state.position.budget, call.estimate ?? NOTHING);
  return withStageAttempt(withBudget(state, budget), {
    running: { ...running, [step]: call },
    lost: without(lost, step),
  });
}

function keepSession(state: RunState, { stageAttempt: number, step, session }: StepSession): RunState {
  const stageAttempt = fullAttempt(state.position.stageAttempt);
  const kept =
    number === stageAttempt.number
      ? withStageAttempt(state, { sessions: { ...stageAttempt.sessions, [step]: session } })
      : state;
  // A session in a side worktree is not the run's own conversation.
  if (Object.hasOwn(stageAttempt.sideWorktrees, step) || kept.conversation?.rewound === undefined) return kept;
  const { rewound: _over, ...conversation } = kept.conversation;
  return { ...kept, conversation };
}

/** Releases the step's reservation and spends its actual cost. */
function pay(state: RunState, step: string, actual: Amounts | null): RunState {
  const estimate = own(runningOf(state), step)?.estimate ?? null;
  if (estimate === null && actual === null) return state;
  const { budget } = state.position;
  const settled = settle(budget, { estimate: estimate ?? NOTHING, actual: actual ?? NOTHING });
  return withBudget(state, holdUnknown(settled, estimate ?? NOTHING, actual ?? NOTHING));
}

function withBudget(state: RunState, budget: Budget): RunState {
  return { ...state, position: { ...state.position, budget } };
}

/** A stage attempt with empty records for what it does not have. */
export type FullAttempt = Omit<Required<StageAttempt>, "settled">;

export function fullAttempt(stageAttempt: StageAttempt): FullAttempt {
  const { number, steps, failures, running = {}, sessions = {}, graph = false } = stageAttempt;
  const { unreduced = [], sideWorktrees = {}, errors = {}, lost = {} } = stageAttempt;
  return { number, steps, failures, running, sessions, graph, unreduced, sideWorktrees, errors, lost };
}

/** Omits empty fields, so that equal states are equal JSON. */
function withStageAttempt(state: RunState, change: Partial<FullAttempt>): RunState {
  const full = { ...fullAttempt(state.position.stageAttempt), ...change };
  const { number, steps, failures, running, sessions, graph, unreduced, sideWorktrees, errors, lost } = full;
  const stageAttempt: StageAttempt = {
    number,
    steps,
    failures,
    ...(isEmpty(running) ? {} : { running }),
    ...(isEmpty(sessions) ? {} : { sessions }),
    ...(graph ? { graph } : {}),
    ...(unreduced.length === 0 ? {} : { unreduced }),
    ...(isEmpty(sideWorktrees) ? {} : { sideWorktrees }),
    ...(isEmpty(errors) ? {} : { errors }),
    ...(isEmpty(lost) ? {} : { lost }),
  };
  return { ...state, position: { ...state.position, stageAttempt } };
}

function isEmpty(record: object): boolean {
  for (const _key in record) return false;
  return true;
}

function without<T>(record: Readonly<Record<string, T>>, key: string): Readonly<Record<string, T>> {
  if (!Object.hasOwn(record, key)) return record;
  const { [key]: _gone, ...rest } = record;
  return rest;
}
