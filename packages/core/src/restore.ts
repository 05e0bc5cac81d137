// Restores a whole checkpoint, one of its planes or some of its paths, step by step, and undoes the restore when a step fails.

import { HoldfastError, describeList } from "@holdfast/platform/error";
import { type CoreAdapters, type SessionAgent, snapshotParams } from "./adapters.ts";
import { planSession } from "./agent-session.ts";
import type { Agent } from "./agent.ts";
import {
  type Checkpoint,
  type CheckpointSummary,
  type ConversationPlane,
  type Planes,
  summaryOf,
} from "./checkpoint.ts";
import type { NewEntry } from "./journal.ts";
import type { JsonObject } from "./json.ts";
import type { Lease } from "./lease.ts";
import { ALL_FILES, forgetResults } from "./restore-files.ts";
import { type RestorePlane, type Saver, conversationRefusal, planesAfterRestore } from "./save.ts";
import { rebaseRunning } from "./state.ts";
import type { FileChange, PreviewSnapshot, RestorePlan, Workspace } from "./workspace.ts";

export interface RunRestorePlan {
  readonly run: string;
  readonly target: CheckpointSummary;
  /** Null: only values and position are restored (the checkpoint has no files, or there is no worktree for them). */
  readonly files: RestorePlan | null;
  /** Null: not limited to files; otherwise only these files, and the position does not change. */
  readonly paths: readonly string[] | null;
  /** Null: not limited to one plane. "files": `paths` is the whole worktree. */
  readonly only: RestorePlane | null;
}

export interface RestoreReport {
  /** The state before the restore, as a checkpoint: restoring it undoes this restore. */
  readonly undo: CheckpointSummary | null;
  /** The checkpoint of the restore itself, now the newest of the run. */
  readonly checkpoint: CheckpointSummary;
  readonly written: number;
  readonly removed: number;
  readonly steps: readonly RestoreStep[];
}

/** Reads only and acquires nothing: a kill here leaves nothing behind. */
export async function planRestore(params: {
  readonly adapters: CoreAdapters;
  readonly target: Checkpoint;
  /** The newest checkpoint with the run's later changes; needed for `only: "conversation"`. */
  readonly newest?: Checkpoint | undefined;
  readonly workspace: Workspace | undefined;
  readonly paths?: readonly string[] | undefined;
  readonly only?: RestorePlane | undefined;
  /** Restores these files instead of the checkpoint's own: those of chosen hunks. */
  readonly to?: PreviewSnapshot;
}): Promise<RunRestorePlan> {
  const { adapters, target, workspace } = params;
  const only = params.only ?? null;
  const { run } = target;
  const whole = { run, target: summaryOf(target), files: null, paths: null, only };
  if (only === "conversation") rejectConversation(target, params.newest);
  if (only === "conversation" || only === "state") return whole;
  const paths = only === "files" ? ALL_FILES : params.paths;
  const to = params.to ?? target.planes.files;
  if (to === null || workspace === undefined || adapters.workspaces === null) {
    if (paths !== undefined) throw noFiles(target);
    return whole;
  }
  const from = await workspace.look(snapshotParams(adapters));
  rejectBusy(workspace.root, from, "restore");
  const { workspaces } = adapters;
  const plan = () => workspace.planRestore({ from, to, ...(paths === undefined ? {} : { paths }) });
  const files = await plan().catch(async (error: unknown) => {
    const isTarget = error instanceof HoldfastError && error.data["snapshot"] === to.snapshot;
    if (!isTarget || error.code !== "TREE_MISSING") throw error;
    // The check fetches the files of another machine, if a remote has them.
    if (target.planes.files === null || !(await workspaces.has(target.planes.files))) throw treeMissing(target, error);
    return await plan();
  });
  return { ...whole, files, paths: paths ?? null };
}

function rejectConversation(target: Checkpoint, newest: Checkpoint | undefined): void {
  const why = conversationRefusal(target.planes, newest?.planes ?? target.planes);
  if (why === null) return;
  throw new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `Restoring only the conversation of ${target.id} would change nothing: ${why}`,
    hint: `To repeat the call, restore the whole checkpoint: holdfast restore ${target.id}`,
  });
}

/**
 * Applies a restore in this order:
 * - read the checkpoint again;
 * - commit a before_restore checkpoint with the "started" entry;
 * - place the files and verify them;
 * - commit the restore checkpoint (values and conversation) with the "finished" entry, and read it back.
 * If a step fails, everything is as before, and the error contains the list of steps. After a kill the journal shows an unfinished restore,
 * the previous state is in a checkpoint, and the same restore completes it. A restore without files is one commit after the
 * before_restore checkpoint, so a kill leaves it undone or done.
 */
export async function applyRestore(params: RestoreWork): Promise<RestoreReport> {
  const { adapters, plan, saver, lease, workspace } = params;
  const log = new RestoreLog();
  const target = await log.during("integrity", () => adapters.store.getCheckpoint(plan.target));
  log.report("integrity", "done", `${target.id} is whole`);
  const newest = await saver.newest();
  if (newest === undefined) throw noFiles(target);
  const { only, paths } = plan;
  const at = new Date(adapters.clock.now()).toISOString();
  const resumed = planesAfterRestore({ only, paths, target: target.planes, newest: newest.planes, at });
  const started = { target: target.id, paths, ...(only === null ? {} : { only }) };

  if (plan.files === null || workspace === undefined) {
    const why =
      only === null ? "it holds none, or there is no worktree to put them in" : `only the ${only} was asked for`;
    log.report("files", "skipped", why);
    const { undo, checkpoint } = await log.during("values", () =>
      commitWithoutFiles(params, { newest, resumed, started }),
    );
    return await report(params, log, target, { undo, checkpoint, written: 0, removed: 0 });
  }

  const { files } = plan;
  const undo = await log.during("files", () => {
    rejectBlocked(plan);
    return saveBefore(params, { workspace, files, newest: newest.planes, started });
  });
  if (paths !== null) forgetResults(adapters, plan.run, newest.planes.position);
  const back = { adapters, saver, lease, workspace, undo, changes: files.changes };
  const done = await log.during("files", () => orUndoRestore(back, () => workspace.applyRestore(files)));
  log.report("files", "done", `${done.written} written, ${done.removed} removed; what was there is ${undo.id}`);
  const after = await log.during("verify", () =>
    orUndoRestore(back, async () => {
      const snapshot = await saver.snapshot(workspace, `restore of ${target.id}`);
      if (snapshot.files.tree !== done.tree) throw overwritten(workspace.root, "restore");
      return snapshot;
    }),
  );
  // Without this, a resume would replace the restored files by those from before the interrupted step.
  const planes = paths === null ? resumed : rebaseRunning(resumed, after.sequence);
  const checkpoint = await log.during("values", () =>
    orUndoRestore(back, () =>
      saver.commit({
        lease,
        planes: { ...planes, files: after.files },
        params: { trigger: "restore", name: `restore of ${target.id}` },
        entries: [{ kind: "restore.finished", body: { target: target.id, tree: done.tree } }],
        sequence: after.sequence,
      }),
    ),
  );
  const { written, removed } = done;
  return await report(params, log, target, { undo, checkpoint, written, removed });
}

/** The files stay as they are now, and both checkpoints hold them; without a worktree, those of the newest checkpoint. */
async function commitWithoutFiles(
  { adapters, plan, saver, lease, workspace }: RestoreWork,
  { newest, resumed, started }: { readonly newest: Checkpoint; readonly resumed: Planes; readonly started: JsonObject },
): Promise<Pick<RestoreReport, "undo" | "checkpoint">> {
  const { id } = plan.target;
  const unfinished = (await adapters.store.getRun(plan.run))?.unfinishedRestore ?? null;
  if (unfinished !== null && plan.only !== null) {
    throw new HoldfastError({
      code: "RESTORE_REFUSED",
      message: `A restore of ${unfinished} began and did not finish, so the files are in an unknown state`,
      hint: `Finish it first: holdfast restore ${unfinished}`,
    });
  }
  const save = async (
    planes: Planes,
    params: { readonly trigger: "before_restore" | "restore"; readonly name: string },
    entries: readonly NewEntry[],
  ): Promise<CheckpointSummary> => {
    const { sequence, files } =
      workspace === undefined ? await saver.pinAgain(newest) : await saver.snapshot(workspace, params.name);
    return await saver.commit({ lease, planes: { ...planes, files }, params, entries, sequence });
  };
  const undo = await save(newest.planes, { trigger: "before_restore", name: `before restore of ${id}` }, []);
  const checkpoint = await save(resumed, { trigger: "restore", name: `restore of ${id}` }, [
    { kind: "restore.started", body: started },
    { kind: "restore.finished", body: { target: id } },
  ]);
  return { undo, checkpoint };
}

interface RestoreWork {
  readonly adapters: CoreAdapters;
  readonly plan: RunRestorePlan;
  readonly saver: Saver;
  readonly lease: Lease;
  readonly workspace: Workspace | undefined;
}

/** Reports the remaining steps, from what is durable now. */
async function report(
  { adapters, plan }: RestoreWork,
  log: RestoreLog,
  target: Checkpoint,
  made: Omit<RestoreReport, "steps">,
): Promise<RestoreReport> {
  const limit = `only ${plan.only === null ? "these paths were" : `the ${plan.only} ${plan.only === "files" ? "were" : "was"}`} asked for`;
  if (movesPosition(plan))
    log.report("values", "done", `position and values are those of ${target.id}; what was spent stays spent`);
  else log.report("values", "skipped", limit);
  const { conversation } = target.planes;
  if (plan.only === "conversation" || (plan.only === null && plan.paths === null))
    reportConversation(log, conversation, conversation === null ? null : await agentOf(adapters, conversation.agent));
  else log.report("conversation", "skipped", limit);
  const saved = await log.during("verify", () => adapters.store.getCheckpoint(made.checkpoint));
  log.report("verify", "done", `${saved.id} was read back, and the files are as it has them`);
  log.report(
    "resume",
    "done",
    movesPosition(plan) ? await describePosition(adapters, saved) : "the run stays where it is",
  );
  return { ...made, steps: log.steps() };
}

/** Whether this restore takes the run back in its workflow. */
export function movesPosition({ only, paths }: Pick<RunRestorePlan, "only" | "paths">): boolean {
  return only === null ? paths === null : only === "state";
}

async function agentOf(adapters: CoreAdapters, name: string): Promise<SessionAgent | null> {
  return (await adapters.sessionsOf?.(name)) ?? null;
}

async function describePosition(adapters: CoreAdapters, { run, stage, iteration }: Checkpoint): Promise<string> {
  const state = (await adapters.store.getRun(run))?.state.kind;
  // The user saved the run by hand: it has no workflow that would continue.
  if (stage === "none") return "the run has no workflow: it was saved by hand";
  const where = `the run is at ${stage}${iteration > 0 ? `, iteration ${iteration}` : ""}`;
  return state === "done" || state === "failed" || state === "aborted"
    ? `${where}; it had ended, and continues only if it is resumed with --force from a checkpoint`
    : where;
}

async function saveBefore(
  { plan, saver, lease }: RestoreWork,
  params: {
    readonly workspace: Workspace;
    readonly files: RestorePlan;
    readonly newest: Planes;
    readonly started: JsonObject;
  },
): Promise<CheckpointSummary> {
  const { workspace, files, newest, started } = params;
  const before = await saver.snapshot(workspace, `before restore of ${plan.target.id}`);
  if (before.files.tree !== files.fromTree) throw changedSince(workspace.root, "restore");
  return await saver.commit({
    lease,
    planes: { ...newest, files: before.files },
    params: { trigger: "before_restore", name: `before restore of ${plan.target.id}` },
    entries: [{ kind: "restore.started", body: started }],
    sequence: before.sequence,
  });
}

type FileChanger = "restore" | "cherry-pick";

export function changedSince(root: string, by: FileChanger): HoldfastError {
  return new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `Files in ${root} changed after this ${by} was planned`,
    hint: `Stop what is writing there, then ${by === "restore" ? "run the restore again" : "repeat the command"}; nothing was changed.`,
    retry: "later",
  });
}

export function overwritten(root: string, by: FileChanger): HoldfastError {
  const [done, again] = by === "restore" ? ["restored", "restore again"] : ["written", "repeat the command"];
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `Files in ${root} were changed by another process right after they were ${done}`,
    hint: `Stop what is writing there, then ${again}.`,
    retry: "later",
  });
}

/** The plan alone shows this, so no work begins that would then be refused. */
export function rejectBlocked(plan: RunRestorePlan): void {
  const paths = plan.files?.blocked ?? [];
  if (paths.length === 0) return;
  const log = new RestoreLog();
  log.report("integrity", "done", `${plan.target.id} is whole`);
  const error = new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `Restoring ${plan.target.id} is not possible: ${describeList(paths, 1)} is a git repository of its own, or a file that no checkpoint holds`,
    hint: "Move it away first, or restore other paths only: holdfast restore ADDRESS -- PATH...",
    data: { blocked: paths },
  });
  throw log.failed("files", error);
}

function noFiles(target: Checkpoint): HoldfastError {
  return new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `Checkpoint ${target.id} holds no files that could be put back here`,
    hint: "Only checkpoints taken in a git worktree hold files; run this inside the run's worktree.",
  });
}

function treeMissing(target: Checkpoint, cause: unknown): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `The git objects of checkpoint ${target.id} are not in this repository`,
    hint: "Run `holdfast verify` to see which checkpoints are whole, and restore one of those.",
    data: { tree: target.tree },
    cause,
  });
}

/** The steps of a restore, in order. */
const RESTORE_STEPS = ["integrity", "files", "values", "conversation", "verify", "resume"] as const;
type RestoreStepName = (typeof RESTORE_STEPS)[number];

/** The result of one step. A type and not an interface, because it is printed as JSON and is part of error data. */
export type RestoreStep = {
  readonly step: RestoreStepName;
  /**
   * "skipped": there was nothing to do. "handed_over": it cannot be restored, and the next agent session gets a handover instead.
   * "not_reached": an earlier step failed, and this one did nothing.
   */
  readonly outcome: "done" | "skipped" | "handed_over" | "failed" | "not_reached";
  readonly text: string;
};

/** Completes the list: steps that were not reported are "not_reached". */
function completeSteps(done: readonly RestoreStep[]): readonly RestoreStep[] {
  return RESTORE_STEPS.map(
    (step) => done.find((one) => one.step === step) ?? { step, outcome: "not_reached", text: "not reached" },
  );
}

/** Reads the steps from an error's data, which may hold anything. */
export function stepsOf(data: Readonly<Record<string, unknown>>): readonly RestoreStep[] {
  const { steps } = data;
  return Array.isArray(steps) ? steps.filter(isStep) : [];
}

function isStep(value: unknown): value is RestoreStep {
  if (typeof value !== "object" || value === null || !("step" in value) || !("outcome" in value)) return false;
  return RESTORE_STEPS.some((step) => step === value.step) && "text" in value && typeof value.text === "string";
}

/** Collects the result of each step of a restore; an error that ends the restore contains the list. */
export class RestoreLog {
  readonly #steps: RestoreStep[] = [];

  report(step: RestoreStepName, outcome: "done" | "skipped" | "handed_over", text: string): void {
    this.#steps.push({ step, outcome, text });
  }

  async during<T>(step: RestoreStepName, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.failed(step, error);
    }
  }

  /** Returns the error with the list in its data. */
  failed(step: RestoreStepName, error: unknown): unknown {
    if (!(error instanceof HoldfastError) || "steps" in error.data) return error;
    const { code, message, hint, retry, data, cause } = error;
    // Planning the files finds this problem, but the damage is in the checkpoint.
    const at = code === "TREE_MISSING" || code === "STORE_CORRUPT" ? "integrity" : step;
    const done = this.#steps.filter((one) => one.step !== at);
    const steps = completeSteps([...done, { step: at, outcome: "failed", text: message }]);
    return new HoldfastError({
      code,
      message,
      retry,
      data: { ...data, steps },
      cause: cause ?? error,
      ...(hint === undefined ? {} : { hint }),
    });
  }

  steps(): readonly RestoreStep[] {
    return completeSteps(this.#steps);
  }
}

interface TakeBack extends Pick<RestoreWork, "adapters" | "saver" | "lease"> {
  readonly workspace: Workspace;
  /** The state before the restore. */
  readonly undo: CheckpointSummary;
  readonly changes: readonly FileChange[];
}

/**
 * Undoes a restore that cannot finish, so that a failed restore changes nothing. It touches only the paths of the restore: the rest belongs
 * to others. If the undo fails too, the journal still shows an unfinished restore, and the error says so. A restore whose last commit was
 * made is done, whatever error came instead of the answer: its checkpoint needs the restored files.
 */
export async function orUndoRestore<T>(back: TakeBack, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // The process that now holds the lease decides about the files.
    if (!(error instanceof HoldfastError) || error.code === "LEASE_LOST") throw error;
    const said = await takeBack(back).catch(
      () => `What was there before is ${back.undo.id}; the restore can be run again, or that one restored.`,
    );
    const { code, message, retry, data, cause } = error;
    const hint = error.hint === undefined ? said : `${error.hint} ${said}`;
    throw new HoldfastError({ code, message, hint, retry, data, cause: cause ?? error });
  }
}

/** Returns what to report. */
async function takeBack({ adapters, saver, lease, workspace, undo, changes }: TakeBack): Promise<string> {
  const newest = await adapters.store.latest(undo.run);
  // The last commit was made, and only its answer was lost.
  if (newest !== undefined && newest.sequence > undo.sequence) return `The restore is done: ${newest.id} holds it.`;
  const { files: to } = (await adapters.store.getCheckpoint(undo)).planes;
  const from = await workspace.look(snapshotParams(adapters));
  if (to !== null && from.tree !== to.tree) {
    // Edits that the user made over restored files are in no checkpoint, so they are kept here.
    await adapters.workspaces?.keep({ run: undo.run, commit: from.snapshot });
    const paths = changes.map(({ path }) => path);
    // Quoted names are in git's notation; a scope needs them as they are on disk.
    const scope = paths.some((path) => path.startsWith('"')) ? {} : { paths };
    await workspace.applyRestore(await workspace.planRestore({ from, to, ...scope }));
  }
  const text = `The restore was reverted; the files are those of ${undo.id}`;
  await adapters.store.commit({
    lease,
    entries: [
      { kind: "restore.finished", body: { target: undo.id } },
      { kind: "note", body: { text } },
    ],
  });
  saver.forget();
  return "Everything is as it was before.";
}

/**
 * Reports how the next call will restore the conversation, because only that call rewinds the session. It reports also what cannot be
 * restored, because an agent that remembers less works differently.
 */
function reportConversation(
  log: RestoreLog,
  kept: ConversationPlane | null,
  agent: Pick<Agent, "name" | "capabilities" | "sessions"> | null,
): void {
  if (kept === null) {
    log.report("conversation", "skipped", "there is none in it");
    return;
  }
  const { session, lastMessage } = kept;
  if (session === null) {
    log.report("conversation", "handed_over", handedOver(kept.agent, "the checkpoint holds no session"));
    return;
  }
  if (agent === null) {
    log.report("conversation", "done", `the next call goes back to session ${session} as far as ${kept.agent} can`);
    return;
  }
  const plan = planSession({ agent, kept: { ...kept, rewound: "restore" }, session, there: lastMessage ?? "" });
  switch (plan.kind) {
    case "go_on":
    case "put_back":
      log.report("conversation", "done", `the next call puts session ${session} of ${kept.agent} back as it was then`);
      return;
    case "fork":
      log.report("conversation", "done", `the next call continues from message ${plan.at}, in a new session`);
      return;
    case "hand_over":
      log.report("conversation", "handed_over", handedOver(kept.agent, plan.why));
  }
}

function handedOver(agent: string, why: string): string {
  return `${agent} cannot go back (${why}): the next call is a new session with a summary of the work`;
}

/** Throws WORKSPACE_BUSY during a git operation such as a merge: files placed now would become part of it. */
export function rejectBusy(
  root: string,
  { operation }: { readonly operation: string | null },
  then: FileChanger,
): void {
  if (operation === null) return;
  throw new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `A ${operation} is under way in ${root}`,
    hint: `Finish it or abort it (git ${operation} --abort), then ${then}.`,
    retry: "later",
  });
}
