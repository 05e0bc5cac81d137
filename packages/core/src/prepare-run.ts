// Prepares a run that a worker has leased: ends stale processes, loads its state, repairs its files, and continues it if it was waiting.

import { HoldfastError, usageError } from "@holdfast/platform/error";
import { unseenText } from "./commands.ts";
import { type Adapters, currentPrograms, runMark, snapshotParams } from "./adapters.ts";
import { answerFile, isAnswered } from "./agent-log.ts";
import { RESOURCES, exceeded } from "./budget.ts";
import type { Checkpoint, Toolchain } from "./checkpoint.ts";
import type { NewEntry, RunResumed } from "./journal.ts";
import type { AcquiredLease } from "./hold-lease.ts";
import { type LoadedRun, RunSession, type SessionDriver, emitNote, loadCreated, loadRun } from "./run-session.ts";
import { type Position, type RunningStep, interruptedSteps, recoveryEvents } from "./position.ts";
import type { ProgressListener } from "./progress.ts";
import { filesBeforeSetup } from "./prepare-worktree.ts";
import { appendAll, keepBranch, restoreRunFiles, revertUnexpectedFiles } from "./restore-files.ts";
import { clearStaleLocks } from "./resume.ts";
import { RunHandle } from "./run-handle.ts";
import type { RunSummary } from "./run.ts";
import { sweepSideWorktrees } from "./side-worktrees.ts";
import { eventsOf, movedEntry } from "./stage-state.ts";
import { movedBranch } from "./step.ts";
import { continuedEntry } from "./waiting.ts";
import { type RunState, sameFiles } from "./state.ts";
import { compareToolchains, differencesText } from "./toolchain.ts";
import type { Workflow } from "./workflow.ts";
import type { Workspace } from "./workspace.ts";

/**
 * Loads a leased run and makes it ready to continue. It ends processes of the last worker, reconciles files with the position, and counts
 * costs that were never reported. Only then does it mark a waiting run as continued, once.
 */
export async function prepareRun<S extends object>(params: {
  readonly adapters: Adapters;
  readonly summary: RunSummary;
  readonly lease: Pick<AcquiredLease, "lease" | "created">;
  readonly workflow: Workflow<S>;
  readonly listen: ProgressListener | undefined;
  readonly allowChanged: boolean;
  /** The caller began the run under this lease, or found it begun. */
  readonly starts: boolean;
  readonly driver?: SessionDriver | undefined;
}): Promise<RunSession> {
  const { adapters, summary, workflow, listen, driver } = params;
  const { lease, created } = params.lease;
  const run = summary.id;
  const apply = eventsOf(workflow, run);
  const loaded = created === undefined ? await loadRun(adapters, run, apply) : loadCreated(created.first, apply);
  const { newest, fellBack, state } = loaded;
  checkDefinition(workflow, run, state.position, params.allowChanged);
  // Under the first lease of a run there is no earlier worker. The check saves a scan of all processes of the machine.
  const isFirst = lease.epoch === 1 && newest.sequence <= 1;
  const unseen = isFirst ? null : unseenText(await adapters.commands.endMarked(runMark(adapters, run)));
  const cleared = await clearStaleLocks(adapters, run, newest.planes.files);
  const workspace = await ownWorkspace(adapters, summary, newest);
  const runSession = new RunSession({
    adapters,
    run: summary,
    lease,
    workspace,
    listen,
    loaded,
    workflow,
    apply,
    driver,
  });
  await recoverNodes(runSession, loaded);
  // The cost of a call is computed from the agent's own record, which does not match after the run was rewound.
  const counts = !fellBack && newest.planes.conversation?.rewound === undefined;
  for (const step of counts ? Object.keys({ ...runSession.attempt.lost, ...runSession.attempt.running }) : [])
    if (isAnswered(answerFile(runSession, step))) runSession.answered.add(step);
  const { stage, iteration, stageAttempt } = state.position;
  const hasSteps = Object.keys(stageAttempt.steps).length > 0;
  runSession.emit({ kind: "started", stage, iteration, resumed: newest.sequence > 1 || hasSteps });
  for (const note of [unseen, cleared]) if (note !== null) await emitNote(runSession, note);
  await reportToolchain(runSession, newest.planes.toolchain);
  // A run that was begun just now has the files of its first checkpoint.
  if (!isFirst || !params.starts)
    await recoverFiles(runSession, {
      fellBack,
      newest,
      unfinished: summary.unfinishedRestore !== null,
      resumed: resumedEntries(state, counts),
    });
  if (fellBack && runSession.state.sequence === newest.sequence) await fallBack(runSession, newest);
  await sweepSideWorktrees(runSession, { ended: false });
  if (summary.state.kind !== "active") await runSession.append(continuedEntry({}));
  return runSession;
}

/** Names the programs that differ from those of the checkpoint: they may be why something behaves differently now. */
async function reportToolchain(runSession: RunSession, before: Toolchain | undefined): Promise<void> {
  if (before === undefined) return;
  const now = currentPrograms(runSession.adapters, before);
  const differences = compareToolchains(before, now);
  // The next checkpoint holds what is here now, so that each difference is reported once.
  runSession.toolchain = now;
  if (differences.length > 0) await emitNote(runSession, differencesText(differences));
}

/** Needed only if steps were in flight or amounts were reserved when the last process died. */
function resumedEntries(state: RunState, counts: boolean): readonly NewEntry[] {
  const { stageAttempt, budget } = state.position;
  const isReserved = RESOURCES.some((resource) => budget.reserved[resource] > 0);
  const body: RunResumed = { counts };
  return stageAttempt.running !== undefined || isReserved ? [{ kind: "run.resumed", body }] : [];
}

/**
 * Runs before any other write, because later checkpoints do not contain the steps that were in flight. After falling back to an older
 * checkpoint, only that checkpoint has the calls in side worktrees that were in flight.
 */
async function recoverNodes(runSession: RunSession, { newest, state, fellBack }: LoadedRun): Promise<void> {
  const events = recoveryEvents(fellBack ? newest.planes.position : state.position, runSession.isoNow());
  if (events.length > 0) await runSession.append(movedEntry(events, runSession.attempt.number));
}

/** Saves a checkpoint at once: work that finishes from here on must not be discarded together with the unusable part. */
async function fallBack(runSession: RunSession, newest: Checkpoint): Promise<void> {
  const text = `Went back to ${newest.id}: what is newer cannot be used`;
  const prepare = () => [{ kind: "note", body: { text } } as const];
  await runSession.save({ trigger: "error_recovery", name: text, prepare });
  runSession.emit({ kind: "note", text });
}

/** Whether a waiting run may continue now. A question waits for its answer, a wait for its time, a budget for a higher limit. */
export function mayContinue(params: {
  readonly state: RunSummary["state"];
  readonly position: Position;
  readonly now: number;
}): boolean {
  const { state } = params;
  if (state.kind !== "waiting") return true;
  // The time is an estimate. A user who resumes earlier may know better, and a try costs nothing.
  if (state.for === "provider") return true;
  // The engine measures free disk space, so no time decides.
  if (state.for === "disk") return true;
  if (state.until !== null) return Date.parse(state.until) <= params.now;
  if (state.decision !== undefined) return state.decision.recheck === true;
  // A user who resumes has handled every other cause: signed in, freed disk space or waited long enough.
  return state.for !== "budget" || exceeded(params.position.budget).length === 0;
}

function checkDefinition<S extends object>(
  workflow: Workflow<S>,
  run: string,
  position: Position,
  allowChanged: boolean,
): void {
  const { shape, definition } = workflow;
  if (position.workflow !== shape.name) {
    throw usageError(
      `Run ${run} follows workflow ${position.workflow}, not ${shape.name}`,
      "Resume it with the workflow that it began with.",
    );
  }
  const known = shape.stages.includes(position.stage);
  if (known && (allowChanged || position.definition === definition)) return;
  throw new HoldfastError({
    code: "WORKFLOW_CHANGED",
    message: known
      ? `Workflow ${shape.name} is not any more what run ${run} began with`
      : `Run ${run} is in stage ${position.stage}, which workflow ${shape.name} does not have any more`,
    hint: "Resume it with the version that it began with, or start a new run.",
    retry: "ask",
    data: { run, was: position.definition, is: definition },
  });
}

async function ownWorkspace(
  adapters: Adapters,
  summary: RunSummary,
  newest: Checkpoint,
): Promise<Workspace | undefined> {
  const workspace = await new RunHandle(adapters, summary).workspace();
  const { files } = newest.planes;
  if (workspace !== undefined || files === null || adapters.workspaces === null) return workspace;
  throw new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `The worktree of run ${summary.id} is not there any more: ${files.worktree}`,
    hint: `Its files are safe: \`holdfast fork ${summary.id}@latest\` brings them back in a worktree of their own.`,
    data: { run: summary.id },
  });
}

/**
 * Repairs the files after a crash or an interrupt. Files that a step left half-done are saved, then restored to where the step began,
 * unless its agent can resume its session or had finished. If no step was in flight, differences are the user's work and are kept.
 * `resumed` are the entries that continue the run. They are written after the restore, because the steps in flight are known only until
 * then.
 */
async function recoverFiles(
  runSession: RunSession,
  params: {
    readonly fellBack: boolean;
    readonly newest: Checkpoint;
    readonly unfinished: boolean;
    readonly resumed: readonly NewEntry[];
  },
): Promise<void> {
  const { workspace } = runSession;
  const { running } = runSession.attempt;
  const { resumed, fellBack, unfinished } = params;
  const keepsFiles = (name: string): boolean =>
    Object.hasOwn(runSession.attempt.sessions, name) || runSession.answered.has(name);
  const lost = interruptedSteps(runSession.attempt, (name) => runSession.answered.has(name));
  const continues = Object.entries({ ...runSession.attempt.lost, ...running }).some(
    ([name, step]) => step.files && keepsFiles(name),
  );
  if (workspace === undefined) return await appendAll(runSession, resumed);
  const isQuiet = lost.length === 0 && !continues && !fellBack && !unfinished;
  const setup = isQuiet ? await baseOfSetup(runSession, workspace, params.newest) : null;
  if (isQuiet && setup === null) await revertLeftChanges(runSession);
  const base = setup ?? (await baseOf(runSession, lost));
  const fallback = fellBack ? runSession.state.sequence : runSession.state.settled.sequence;
  const to = fellBack || unfinished ? (base ?? fallback) : base;
  if (to !== null) {
    const names = setup === null ? lost.map(([name]) => name).join(", ") : "set-up";
    if (base !== null) {
      const { planes } = await runSession.adapters.store.getCheckpoint({ run: runSession.run.id, sequence: base });
      await keepBranch(runSession, names, planes.files);
    }
    const why = names === "" ? "what an unfinished restore left" : `what ${names} left half-done`;
    const restored: readonly NewEntry[] = unfinished
      ? [{ kind: "restore.finished", body: { target: `${runSession.run.id}@${to}` } }]
      : [];
    const before = runSession.state.sequence;
    await restoreRunFiles(runSession, { to, trigger: "error_recovery", why, finish: () => [...restored, ...resumed] });
    // Without a checkpoint the files were as they should be.
    if (runSession.state.sequence === before) return;
    const saved = runSession.state.sequence - before > 1 ? ` as ${runSession.run.id}@${before + 1}` : "";
    runSession.emit({
      kind: "note",
      text: `Put the files back to ${runSession.run.id}@${to}; ${why} is saved${saved}`,
    });
    return;
  }
  await appendAll(runSession, resumed);
  if (!continues && lost.length === 0) await keepEdits(runSession);
}

/** A set-up is no step, but its files go back like those of one: otherwise the next try would be applied to half-done files. */
async function baseOfSetup(runSession: RunSession, workspace: Workspace, newest: Checkpoint): Promise<number | null> {
  const base = filesBeforeSetup(workspace, newest);
  return base !== null && !(await movedBranch({ runSession }, base)) ? base : null;
}

/** Null: nothing to restore. A fork may name a checkpoint of its parent, which is not in this run. */
async function baseOf(
  runSession: RunSession,
  lost: readonly (readonly [string, RunningStep])[],
): Promise<number | null> {
  if (lost.length === 0) return null;
  const base = Math.max(...lost.map(([, step]) => step.base));
  const [found] = await runSession.adapters.store.listCheckpoints({
    run: runSession.run.id,
    before: base + 1,
    limit: 1,
  });
  if (found?.sequence !== base || base > runSession.state.sequence) return null;
  const agents = lost.some(([, step]) => step.estimate !== null);
  return agents || !(await movedBranch({ runSession }, base)) ? base : null;
}

/** Saves the user's edits in their own checkpoint, so that no later restore discards them. */
async function keepEdits(runSession: RunSession): Promise<void> {
  const { workspace, adapters } = runSession;
  const { at: _at, ...params } = snapshotParams(adapters);
  if (workspace === undefined || (await workspace.currentFiles(params)).tree === runSession.state.files?.tree) return;
  // Between two tries of a call that resumes its session, the changes may be the call's own.
  const text = Object.keys(runSession.attempt.sessions).some(
    (step) => !Object.hasOwn(runSession.attempt.sideWorktrees, step),
  )
    ? "Files were changed since the last checkpoint, by the resumed call or by someone else; they are kept"
    : "Files were changed while the run did not execute; they are kept";
  await runSession.save({
    trigger: "automatic",
    name: "changed from outside",
    prepare: () => [{ kind: "note", body: { text } }],
  });
  runSession.emit({ kind: "note", text });
}

/**
 * The newest checkpoint contains unexpected changes from before the kill. If the files are unchanged since, the changes are reverted;
 * otherwise they are kept and reported.
 */
async function revertLeftChanges(runSession: RunSession): Promise<void> {
  const { workspace, adapters } = runSession;
  const { files, settled } = runSession.state;
  if (workspace === undefined || settled.sequence === runSession.state.sequence) return;
  if (sameFiles(await workspace.look(snapshotParams(adapters)), files)) return await revertUnexpectedFiles(runSession);
  const text = `${runSession.run.id}@${runSession.state.sequence} holds what was changed in the run's own worktree by calls that were to change nothing there, and files were changed since; all of it is kept (compare with ${runSession.run.id}@${settled.sequence})`;
  await emitNote(runSession, text);
}
