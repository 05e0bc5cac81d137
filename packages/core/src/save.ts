// Saves checkpoints of a run outside of a workflow, and computes the planes of the next checkpoint and of a restored one.

import { usageError } from "@holdfast/platform/error";
import { type CoreAdapters, rejectRolledBackStore, snapshotParams } from "./adapters.ts";
import {
  type Checkpoint,
  type CheckpointId,
  type CheckpointSummary,
  type FilesPlane,
  type Planes,
  type Trigger,
  emptyPlanes,
} from "./checkpoint.ts";
import { stepGraph } from "./graph-state.ts";
import type { NewEntry } from "./journal.ts";
import type { Json, JsonObject } from "./json.ts";
import type { Lease } from "./lease.ts";
import type { Run } from "./run.ts";
import { loadFrom } from "./run-session.ts";
import { type ArgumentKind, checkOptions } from "./options.ts";
import { type Position, type StageAttempt, forgetAborts, recoveryEvents } from "./position.ts";
import { filesElsewhere } from "./recovery.ts";
import { rewoundTo } from "./state.ts";
import { runNotStarted } from "./store.ts";
import { capture, captureState } from "./values.ts";
import { forgetSideWorktreeCalls } from "./side-worktree-steps.ts";
import type { CurrentFiles, Workspace } from "./workspace.ts";

/** `stored`: the checkpoint that holds the values. null: they are about to be saved. */
type CheckValues = (values: JsonObject, stored: CheckpointId | null) => void;

export interface SavePlan {
  readonly run: string;
  readonly sequence: number;
  readonly trigger: Trigger;
  readonly files: (CurrentFiles & { readonly changedSinceLast: boolean }) | null;
}

/**
 * Saves checkpoints of one run under one lease. The git objects and the ref are durable first, then one store transaction follows. A kill
 * in between leaves an unreferenced ref for the garbage collector, never a checkpoint without its files.
 */
export class Saver {
  readonly #adapters: CoreAdapters;
  readonly #run: string;
  readonly #summary: Pick<Run, "id" | "workflow" | "forkedFrom">;
  readonly #check: CheckValues | undefined;
  /** The newest checkpoint's planes. They are known only while this process holds the lease. */
  #newest: Planes | undefined;
  #sequence: number | undefined;
  /** Saves with files run one after the other: each needs the sequence before it. */
  #queue: Promise<unknown> = Promise.resolve();

  /** `check` throws for values that the caller's schema rejects. */
  constructor(adapters: CoreAdapters, run: Pick<Run, "id" | "workflow" | "forkedFrom">, check?: CheckValues) {
    this.#adapters = adapters;
    this.#check = check;
    this.#run = run.id;
    this.#summary = run;
  }

  /** Called after other code (a restore, another process) wrote to the run. */
  forget(): void {
    this.#newest = undefined;
    this.#sequence = undefined;
  }

  capture(params: SaveParams<object>): SaveParams {
    return captureParams(params, this.#newest);
  }

  async plan(params: SaveParams<object>, workspace: Workspace | undefined): Promise<SavePlan> {
    const latest = await this.#adapters.store.latest(this.#run);
    if (latest === undefined) this.#refuseHalfFork();
    const captures = workspace !== undefined && params.files !== false;
    const files = captures ? await workspace.currentFiles(snapshotParams(this.#adapters)) : undefined;
    return {
      run: this.#run,
      sequence: await this.#nextSequence(),
      trigger: params.trigger ?? "manual",
      files: files === undefined ? null : { ...files, changedSinceLast: files.tree !== latest?.tree },
    };
  }

  /** `params` must come from `capture`. */
  async save(params: SaveParams, lease: Lease, workspace: Workspace | undefined): Promise<CheckpointSummary> {
    if (workspace === undefined || params.files === false || params.planes?.files !== undefined) {
      const previous = this.#newest ?? (await this.#loadNewest());
      return await this.commit({ lease, planes: this.#nextPlanes(previous, params), params, entries: [] });
    }
    const done = this.#queue.then(() => this.#saveWithFiles(params, lease, workspace));
    this.#queue = done.catch(() => undefined);
    return await done;
  }

  async commit(what: {
    readonly lease: Lease;
    readonly planes: Planes;
    readonly params: Pick<SaveParams, "trigger" | "name">;
    readonly entries: readonly NewEntry[];
    readonly sequence?: number;
  }): Promise<CheckpointSummary> {
    const { name, trigger } = what.params;
    const committing = this.#adapters.store.commit({
      lease: what.lease,
      entries: what.entries,
      checkpoint: {
        trigger: trigger ?? "manual",
        planes: what.planes,
        ...(name === undefined ? {} : { name }),
        ...(what.sequence === undefined ? {} : { sequence: what.sequence }),
      },
    });
    // Commits keep the order of the calls, so the next save can already build on this one.
    this.#newest = what.planes;
    let checkpoint: CheckpointSummary | null;
    try {
      ({ checkpoint } = await committing);
    } catch (error) {
      this.forget();
      throw error;
    }
    if (checkpoint === null) throw new TypeError("a commit with a checkpoint returned none");
    this.#sequence = checkpoint.sequence;
    return checkpoint;
  }

  async snapshot(
    workspace: Workspace,
    message: string,
  ): Promise<{ readonly sequence: number; readonly files: FilesPlane }> {
    // Checked once, by the first save of a process: later refs are its own.
    if (this.#sequence === undefined) await rejectRolledBackStore(this.#adapters, this.#run);
    const sequence = await this.#nextSequence();
    const files = await workspace.snapshot({
      run: this.#run,
      sequence,
      message,
      ...snapshotParams(this.#adapters),
    });
    return { sequence, files };
  }

  /** The files of the newest checkpoint under the ref of the next one. */
  async pinAgain(newest: Checkpoint): Promise<{ readonly sequence: number; readonly files: FilesPlane | null }> {
    const sequence = await this.#nextSequence();
    return { sequence, files: await pinFilesAgain(this.#adapters, newest, sequence) };
  }

  /**
   * The newest checkpoint with the later entries of the run applied. A checkpoint without them would become the newest, and finished work
   * would be repeated.
   */
  async newest(): Promise<Checkpoint | undefined> {
    const { store } = this.#adapters;
    const latest = await store.latest(this.#run);
    if (latest === undefined || latest.planes.position.stageAttempt.number === 0) return latest;
    const { position } = await loadFrom(store, latest);
    return { ...latest, planes: { ...latest.planes, position } };
  }

  async #saveWithFiles(params: SaveParams, lease: Lease, workspace: Workspace): Promise<CheckpointSummary> {
    const previous = this.#newest ?? (await this.#loadNewest());
    const next = this.#nextPlanes(previous, params);
    const { sequence, files } = await this.snapshot(workspace, params.name ?? params.trigger ?? "manual");
    const planes = { ...next, files };
    return await this.commit({ lease, planes, params, entries: [], sequence });
  }

  #nextPlanes(previous: Planes, params: SaveParams): Planes {
    const next = nextPlanes(previous, params);
    if (next.context.values !== this.#newest?.context.values) this.#check?.(next.context.values, null);
    return next;
  }

  /** Also checks the stored values: a program that cannot read them must not save over them. Empty values hold nothing. */
  async #loadNewest(): Promise<Planes> {
    const newest = await this.newest();
    if (newest === undefined) {
      this.#refuseHalfFork();
      return captureSame(emptyPlanes({ workflow: this.#summary.workflow }), undefined);
    }
    const { values } = newest.planes.context;
    if (Object.keys(values).length > 0) this.#check?.(values, newest.id);
    return newest.planes;
  }

  /** With another first checkpoint, the same `fork` would find the run complete and never fill it. */
  #refuseHalfFork(): void {
    if (this.#summary.forkedFrom !== null) throw runNotStarted(this.#summary);
  }

  async #nextSequence(): Promise<number> {
    if (this.#sequence !== undefined) return this.#sequence + 1;
    const newest = await this.#adapters.store.listCheckpoints({ run: this.#run, limit: 1 });
    return (newest[0]?.sequence ?? 0) + 1;
  }
}

/**
 * Pins the files of the newest checkpoint under the ref of the next one, because retention may drop the older checkpoint with its ref.
 * TREE_MISSING if another machine has the files and no remote gives them.
 */
export async function pinFilesAgain(
  adapters: CoreAdapters,
  newest: Checkpoint,
  sequence: number,
): Promise<FilesPlane | null> {
  const { run } = newest;
  const { files } = newest.planes;
  if (files === null || adapters.workspaces === null) return files;
  if (!(await adapters.workspaces.has(files))) throw filesElsewhere(newest);
  return { ...files, ref: await adapters.workspaces.pin({ run, sequence, snapshot: files.snapshot }) };
}

/** What a caller saves: usually `values`, of type `V`; `planes` is for callers that set more. */
export interface SaveParams<V extends object = JsonObject> {
  readonly values?: V;
  readonly tokens?: Readonly<Record<string, number>>;
  readonly stage?: string;
  readonly iteration?: number;
  readonly score?: number | null;
  readonly trigger?: Trigger;
  readonly name?: string;
  /** Used as given; absent planes come from the run's newest checkpoint. */
  readonly planes?: Partial<Planes>;
  /** Whether to capture the worktree. Default: true when the run has a workspace. */
  readonly files?: boolean;
}

const SAVE_OPTIONS = {
  values: "any",
  tokens: "object",
  stage: "text",
  iteration: "number",
  score: "any",
  trigger: "text",
  name: "text",
  planes: "object",
  files: "flag",
} satisfies Readonly<Record<keyof SaveParams, ArgumentKind>>;

/** Throws USAGE for what an untyped caller may pass: an unknown option, or values that are not an object. */
export function checkSave(params: SaveParams<object>): void {
  checkOptions("save", params, SAVE_OPTIONS);
  const { values } = params as { readonly values?: unknown };
  if (values === undefined || (typeof values === "object" && values !== null && !Array.isArray(values))) return;
  throw usageError("The values of a save must be an object", "Give them a name: save({ values: { result: … } }).");
}

/**
 * Copies the caller's objects at once: the caller may change them while the save waits for a lease or a snapshot. Parts equal to the newest
 * checkpoint are shared with it, so that the store detects changes quickly.
 */
function captureParams(params: SaveParams<object>, newest: Planes | undefined): SaveParams {
  const { values, tokens, planes, ...rest } = params;
  return {
    ...rest,
    ...(values === undefined ? {} : { values: captureState(values, newest?.context.values) }),
    ...(tokens === undefined ? {} : { tokens: captureSame(tokens, newest?.context.tokens) }),
    ...(planes === undefined ? {} : { planes: captureSame(planes, newest) }),
  };
}

/** A capture has the same shape as its source: `capture` rejects everything that it could not copy exactly. */
function captureSame<T extends object>(live: T, previous: object | undefined): T {
  const captured: unknown = capture(live, previous as Json | undefined);
  return captured as T;
}

/** The next checkpoint's planes, from the newest one's and the caller's. The snapshot fills in the files. */
function nextPlanes(previous: Planes, params: SaveParams): Planes {
  const given = params.planes;
  const position = given?.position ?? previous.position;
  const context = given?.context ?? previous.context;
  return {
    position: movesPosition(params)
      ? {
          ...position,
          stage: params.stage ?? position.stage,
          iteration: params.iteration ?? position.iteration,
          score: params.score === undefined ? position.score : params.score,
        }
      : position,
    context:
      params.values === undefined && params.tokens === undefined
        ? context
        : { values: params.values ?? context.values, tokens: params.tokens ?? context.tokens },
    files: given?.files ?? null,
    conversation: given?.conversation === undefined ? previous.conversation : given.conversation,
    effects: given?.effects ?? previous.effects,
    inputs: given?.inputs ?? previous.inputs,
    config: given?.config ?? previous.config,
    extensions: given?.extensions ?? previous.extensions,
    ...(previous.toolchain === undefined ? {} : { toolchain: previous.toolchain }),
  };
}

/**
 * The planes after a whole restore: the target's position and values, with the newest budget and effects. Rewinding those would repeat
 * effects and costs. Raised limits remain raised, both of the budget and in the workflow's options: a resume reads them from the newest
 * checkpoint.
 */
function restoredPlanes(target: Planes, newest: Planes, at: string): Planes {
  return {
    ...target,
    position: {
      ...withoutYolo(target.position),
      // Rights are not restored: the user may have withdrawn them since, or granted them.
      ...(newest.position.yolo === undefined ? {} : { yolo: newest.position.yolo }),
      graph: recoveredGraph(target.position, at),
      budget: newest.position.budget,
      stageAttempt: repeatStageAttempt(target.position.stageAttempt, newest.position.stageAttempt),
    },
    conversation: rewoundTo(target.conversation, "restore"),
    config: { ...target.config, inputs: newest.config.inputs },
    effects: newest.effects,
  };
}

function withoutYolo({ yolo: _right, ...position }: Position): Position {
  return position;
}

/** The part of a checkpoint that a restore is limited to. */
export const RESTORE_PLANES = ["files", "conversation", "state"] as const;
export type RestorePlane = (typeof RESTORE_PLANES)[number];

/** The planes after a restore of this scope; the caller sets the files. `paths`: only files are restored. */
export function planesAfterRestore(params: {
  readonly only: RestorePlane | null;
  readonly paths: readonly string[] | null;
  readonly target: Planes;
  readonly newest: Planes;
  readonly at: string;
}): Planes {
  const { only, target, newest, at } = params;
  if (only === "conversation") return withConversation(target, newest);
  if (only === "state") return withState(restoredPlanes(target, newest, at), newest);
  return params.paths === null ? restoredPlanes(target, newest, at) : newest;
}

/** The agent remembers what it remembers now, so only calls that are still in the same session may resume it. */
function withState(restored: Planes, newest: Planes): Planes {
  const { sessions, ...stageAttempt } = restored.position.stageAttempt;
  const now = newest.position.stageAttempt.sessions ?? {};
  const kept = Object.entries(sessions ?? {}).filter(([step, id]) => Object.hasOwn(now, step) && now[step] === id);
  return {
    ...restored,
    conversation: newest.conversation,
    position: {
      ...restored.position,
      stageAttempt: kept.length === 0 ? stageAttempt : { ...stageAttempt, sessions: Object.fromEntries(kept) },
    },
  };
}

function withConversation(target: Planes, newest: Planes): Planes {
  const { stageAttempt } = newest.position;
  const sessions = { ...stageAttempt.sessions, ...sharedSessions(target, newest) };
  return {
    ...newest,
    conversation: rewoundTo(target.conversation, "restore"),
    position: {
      ...newest.position,
      stageAttempt: Object.keys(sessions).length === 0 ? stageAttempt : { ...stageAttempt, sessions },
    },
  };
}

/** The target's sessions of calls that are unfinished in the target and now. */
function sharedSessions(target: Planes, newest: Planes): Readonly<Record<string, string | null>> {
  const { running = {}, sessions = {}, lost = {} } = newest.position.stageAttempt;
  if (newest.position.stage !== target.position.stage) return {};
  const then = Object.entries(target.position.stageAttempt.sessions ?? {});
  return Object.fromEntries(
    then.filter(([step]) => [running, sessions, lost].some((calls) => Object.hasOwn(calls, step))),
  );
}

/** Why restoring only this conversation would change nothing; null: the next call continues it. */
export function conversationRefusal(target: Planes, newest: Planes): string | null {
  const kept = target.conversation;
  if (kept === null || kept.session === null) return "it holds no agent session";
  if (newest.conversation?.session === kept.session) return null;
  return Object.values(sharedSessions(target, newest)).includes(kept.session)
    ? null
    : `the call of session ${kept.session} has ended, and no later call opens it again`;
}

/**
 * Starts a stage attempt of its own: under the old number, later effects would count as this one's. The files are the chosen ones, even in
 * the middle of a step: nothing restores them any further.
 */
function repeatStageAttempt(target: StageAttempt, newest: StageAttempt): StageAttempt {
  const { running: _half, lost: _counted, ...stageAttempt } = forgetAborts(forgetSideWorktreeCalls(target));
  return newest.number === 0 ? stageAttempt : { ...stageAttempt, number: newest.number + 1 };
}

/** Runs before the steps in flight are forgotten: a node that must not run twice may have done its work. */
export function recoveredGraph(position: Position, at: string): Position["graph"] {
  const { graph } = position;
  return graph === null ? null : recoveryEvents(position, at).reduce(stepGraph, graph);
}

function movesPosition(params: SaveParams): boolean {
  return params.stage !== undefined || params.iteration !== undefined || params.score !== undefined;
}
