// Resumes a run: checks what changed since its checkpoint, plans what to do about it, and applies the plan under the run's lease.

import { HoldfastError } from "@holdfast/platform/error";
import { unseenText } from "./commands.ts";
import { type Adapters, rejectRolledBackStore, runMark } from "./adapters.ts";
import { type Checkpoint, type CheckpointSummary, type FilesPlane, type Planes, RESUMED } from "./checkpoint.ts";
import { type OptionsChange, changedPlanes, executedMeanwhile, reopensRun } from "./control-run.ts";
import {
  type Finding,
  type FindingKind,
  type FindingPolicy,
  type Freshness,
  type RecordedRun,
  type Setting,
  type Verdict,
  readAccepted,
} from "./findings.ts";
import type { JsonObject } from "./json.ts";
import type { NewEntry, StageEntered } from "./journal.ts";
import type { Lease } from "./lease.ts";
import { loadRun } from "./run-session.ts";
import { observeWorld } from "./observe.ts";
import { findStart } from "./recovery.ts";
import { finished, forgetResults, placeFiles, repairWorktree, started } from "./restore-files.ts";
import { type RestoreStep, applyRestore, planRestore } from "./restore.ts";
import {
  type Answers,
  type Judgement,
  type ResumeAction,
  type ResumeFrom,
  type ResumePlan,
  acceptFindings,
  planResume,
} from "./resume-plan.ts";
import { type RunState, type RunSummary, isEnded, isFailedOrAborted } from "./run.ts";
import { Saver } from "./save.ts";
import { rebaseRunning } from "./state.ts";
import { continuedEntry } from "./waiting.ts";
import { runNotStarted } from "./store.ts";
import type { Workspace } from "./workspace.ts";

export interface ResumeCheck {
  readonly run: RunSummary;
  /** All findings, whatever is done about them. */
  readonly findings: readonly Finding[];
  readonly plan: ResumePlan;
  /** The checkpoint that the run resumes from. */
  readonly checkpoint: Checkpoint;
  readonly current: Setting;
  /** Sequence of the run's newest checkpoint at planning time, intact or not; 0 without any. */
  readonly top: number;
}

interface ResumeParams {
  readonly adapters: Adapters;
  readonly run: string;
  /** The checkpoint to resume from; absent: the newest intact one. */
  readonly chosen?: number;
  readonly current: Setting;
  readonly policy: FindingPolicy;
  /** The freshness rules of the run's workflow. */
  readonly freshness?: Freshness | null;
  readonly answers: Answers;
  readonly force: boolean;
  /** New options that the resume will set first. They may reopen a run that has ended. */
  readonly change?: OptionsChange | null;
}

/** Checks a run before a resume: what changed since the checkpoint, and what would be done about it. Changes nothing. */
export async function checkResume(params: ResumeParams): Promise<ResumeCheck> {
  const { adapters, chosen, current, policy, answers, force, change = null } = params;
  const run = await findRun(params);
  await rejectRolledBackStore(adapters, run.id);
  const state: RunState = change !== null && reopensRun(run.state, change) ? { kind: "active" } : run.state;
  const ended = isEnded(state);
  // A run that has ended executes nothing, so its files need not be here.
  const passOver = ended ? { passOver: true } : {};
  const start = await findStart({ adapters, run: run.id, ...(chosen === undefined ? passOver : { chosen }) });
  if (start.kind === "none") throw runNotStarted(run);
  const top = await topOf(adapters, run.id);
  const rest = { run: run.id, state, policy, answers, force };
  const checkpoint = change === null ? start.checkpoint : changed(start.checkpoint, run.state, change);
  // A done run is at its newest checkpoint: naming that one does not go back.
  const stays = state.kind === "done" && !force && chosen === top;
  const from: ResumeFrom = stays ? { kind: "newest" } : start.from;
  // The world of a run that stays ended is not checked, because it changed without the run.
  const looks = !ended || (force && from.kind === "chosen");
  // Newer damaged checkpoints are quarantined as for any other resume: the resumed run must be able to read the newest.
  const newest = from.kind === "chosen" ? await findStart({ adapters, run: run.id, passOver: true }) : undefined;
  const known = newest?.kind === "found" ? { newest: newest.checkpoint } : {};
  const seen = looks ? await observeWorld({ adapters, run, checkpoint, current, ...known }) : [];
  const damage = looks && newest?.kind === "found" ? newest.findings : [];
  const freshness = params.freshness ?? null;
  const { position, context } = checkpoint.planes;
  const recorded = { position, values: context.values };
  const findings = [...start.findings, ...damage, ...seen].filter(
    (finding) => freshness?.isOwn(finding, recorded) !== true,
  );
  const accepted = readAccepted(checkpoint.planes.extensions);
  const verdictOf = (finding: Finding): Verdict | null => freshness?.judge(finding, recorded) ?? null;
  const plan = planResume({ ...rest, from, findings, accepted, verdictOf });
  const led = reopened(followed(plan, { freshness, checkpoint, current }), freshness, recorded);
  return {
    run,
    findings,
    plan: withFailedHint(led, freshness, { ...run, state }, context.values),
    checkpoint,
    current,
    top,
  };
}

function changed(checkpoint: Checkpoint, state: RunState, change: OptionsChange): Checkpoint {
  return { ...checkpoint, planes: changedPlanes(checkpoint.planes, state, change) };
}

function withFailedHint(
  plan: ResumePlan,
  freshness: Freshness | null,
  run: RunSummary,
  values: JsonObject,
): ResumePlan {
  if (!isFailedOrAborted(run.state) || plan.kind !== "refuse") return plan;
  const failed = { run: run.id, stage: run.latest?.stage ?? null, values };
  return { ...plan, hint: freshness?.failedHint?.(failed) ?? plan.hint };
}

/** A reopened run may need other values than the checkpoint's, or its next action would be to end again. */
function reopened(plan: ResumePlan, freshness: Freshness | null, recorded: RecordedRun): ResumePlan {
  if (plan.kind !== "resume" && plan.kind !== "warn") return plan;
  if (!plan.actions.some((action) => action.kind === "go_back" && action.reopens)) return plan;
  const other = freshness?.reopen?.(recorded) ?? null;
  if (other === null) return plan;
  const { values, enters, why } = other;
  const changed: ResumeAction = { kind: "change_values", values, why };
  if (enters === null) return { ...plan, actions: [...plan.actions, changed] };
  const next = `It continues with ${enters.stage}, iteration ${enters.iteration}.`;
  return { ...plan, actions: [...plan.actions, changed, { kind: "move_stage", ...enters, why: next }] };
}

/** If the issue was moved to another stage, the run moves there, after it accepts the issue's new state. */
function followed(
  plan: ResumePlan,
  params: { readonly freshness: Freshness | null; readonly checkpoint: Checkpoint; readonly current: Setting },
): ResumePlan {
  const { freshness, current } = params;
  if (freshness === null || (plan.kind !== "resume" && plan.kind !== "warn")) return plan;
  // A user who goes back to an older checkpoint wants that position, whatever label the run has set since.
  if (plan.actions.some(({ kind }) => kind === "go_back")) return plan;
  const at = plan.actions.findIndex((action) => action.kind === "take_issue" && action.change.labels !== undefined);
  if (at === -1) return plan;
  const planes = acceptFindings({ planes: params.checkpoint.planes, actions: plan.actions, current });
  const { position, context } = params.checkpoint.planes;
  const move = freshness.relocate(planes.inputs.issue?.labels ?? [], { position, values: context.values });
  if (move === null) return plan;
  return { ...plan, actions: plan.actions.toSpliced(at + 1, 0, { kind: "move_stage", ...move }) };
}

/**
 * Applies the plan under the run's lease, after every process of the run has ended. Throws CONFLICT if another process continued the run
 * since the plan was made: its findings are then obsolete.
 */
export async function applyResumeCheck(params: {
  readonly adapters: Adapters;
  readonly lease: Lease;
  readonly planned: ResumeCheck;
}): Promise<ResumeReport> {
  const { adapters, lease, planned } = params;
  const { run, plan, checkpoint, current } = planned;
  if ((await topOf(adapters, run.id)) !== planned.top) throw executedMeanwhile(run.id);
  const unseen = unseenText(await adapters.commands.endMarked(runMark(adapters, run.id)));
  const cleared = await clearStaleLocks(adapters, run.id, checkpoint.planes.files);
  const notes = [unseen, cleared].filter((note) => note !== null);
  if (notes.length > 0) {
    await adapters.store.commit({ lease, entries: notes.map((text) => ({ kind: "note", body: { text } })) });
  }
  const report = await applyResume({ adapters, lease, run, plan, checkpoint, current });
  if (notes.length === 0) return report;
  const steps = notes.map((text) => ({ step: "resume", outcome: "done", text }) as const);
  return { ...report, steps: [...steps, ...(report.steps ?? [])] };
}

/**
 * Removes the git locks of killed processes and returns a text that names them; null when there are none. The caller holds the lease and
 * has ended every process of the run, so a lock in its worktree or on its branch has no owner.
 */
export async function clearStaleLocks(
  adapters: Pick<Adapters, "workspaces">,
  run: string,
  files: FilesPlane | null,
): Promise<string | null> {
  const removed = (await adapters.workspaces?.clearLocks({ run, branch: files?.branch ?? null })) ?? [];
  if (removed.length === 0) return null;
  return `Removed ${removed.length === 1 ? "a stale git lock" : `${removed.length} stale git locks`} of a process that was killed: ${removed.join(", ")}`;
}

async function topOf(adapters: Adapters, run: string): Promise<number> {
  const [top] = await adapters.store.listCheckpoints({ run, limit: 1 });
  return top?.sequence ?? 0;
}

async function findRun(params: ResumeParams): Promise<RunSummary> {
  const run = await params.adapters.store.getRun(params.run);
  if (run !== undefined) return run;
  throw new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: `There is no run "${params.run}"`,
    hint: "See `holdfast list` for the runs there are.",
  });
}

interface ResumeWork {
  readonly adapters: Adapters;
  readonly run: RunSummary;
  /** The checkpoint that the run resumes from, as in the findings. */
  readonly checkpoint: Checkpoint;
  readonly current: Setting;
  readonly plan: ResumePlan;
  readonly lease: Lease;
}

interface ResumeReport {
  readonly workspace: Workspace | undefined;
  /** The newest checkpoint, if this resume made one. */
  readonly checkpoint: CheckpointSummary | null;
  /** The steps of a restore, if the run went back, and the repairs before the plan was applied. */
  readonly steps?: readonly RestoreStep[];
}

const NOTHING: ResumeReport = { workspace: undefined, checkpoint: null };

/**
 * Applies a plan. After a kill, planning and applying again gives the same result. Everything outside of the store is created once under
 * its name, and all decisions are written in one commit. After that commit the same differences are no longer findings.
 */
async function applyResume(work: ResumeWork): Promise<ResumeReport> {
  const { plan } = work;
  if (plan.kind === "refuse") return NOTHING;
  await keepTips(work, plan.actions, plan.kind === "ask");
  if (plan.kind === "ask" || (plan.kind === "done" && plan.actions.length === 0)) return NOTHING;
  if (plan.kind === "done") return await finishRun(work, plan);
  if (plan.judgements.length === 0 && plan.actions.length === 0) return NOTHING;
  return await continueRun(work, plan);
}

/** A tip that could not be fetched exists only on the remote. That is a reason to ask the user, and not to overwrite it. */
async function keepTips({ adapters, run }: ResumeWork, actions: readonly ResumeAction[], asks: boolean): Promise<void> {
  for (const action of actions) {
    if (action.kind !== "keep_tips") continue;
    for (const commit of action.commits) {
      try {
        await adapters.workspaces?.keep({ run: run.id, commit });
      } catch (error) {
        if (!asks || !(error instanceof HoldfastError) || error.code !== "TREE_MISSING") throw error;
      }
    }
  }
}

/** Saves the worktree's files with the end, because no later process will look at them. */
async function finishRun(work: ResumeWork, plan: Extract<ResumePlan, { kind: "done" }>): Promise<ResumeReport> {
  const { adapters, lease, run } = work;
  const place = await repairWorktree({ ...work, actions: [] });
  const entries: readonly NewEntry[] = [
    ...plan.judgements.flatMap(note),
    noteOf(plan.why),
    { kind: "run.ended", body: { outcome: "done" } },
  ];
  if (place.workspace === undefined) {
    await adapters.store.commit({ lease, entries });
    return NOTHING;
  }
  const { planes } = await loadPlanes(adapters, run.id);
  const saver = new Saver(adapters, run);
  return {
    workspace: place.workspace,
    checkpoint: await commitHere({ lease, saver, entries, planes, workspace: place.workspace }),
  };
}

/** Another agent need not wait for the quota of the first one. A question of a stage that the user has left is obsolete. */
function continuedBy(
  { run }: ResumeWork,
  params: { readonly judgements: readonly Judgement[]; readonly actions: readonly ResumeAction[] },
): readonly NewEntry[] {
  const { judgements, actions } = params;
  const stopped = run.state.kind === "waiting" || run.state.kind === "paused";
  if (stopped && actions.some(({ kind }) => kind === "move_stage")) return [continuedEntry({})];
  const waits = run.state.kind === "waiting" && (run.state.for === "quota" || run.state.for === "provider");
  return waits && judgements.some(({ finding }) => finding.kind === "model_changed") ? [continuedEntry({})] : [];
}

async function continueRun(
  work: ResumeWork,
  plan: Extract<ResumePlan, { kind: "resume" | "warn" }>,
): Promise<ResumeReport> {
  const { adapters, run, lease, current } = work;
  const { actions, judgements } = plan;
  for (const action of actions) {
    if (action.kind === "quarantine")
      await adapters.store.quarantine({ run: run.id, sequences: [action.sequence], reason: action.why });
  }
  if (actions.some(({ kind }) => REPLACES_FILES.has(kind)))
    forgetResults(adapters, run.id, (await loadRun(adapters, run.id)).state.position);
  const place = await repairWorktree({ ...work, actions });
  const { workspace } = place;
  const saver = new Saver(adapters, run);
  const latest = await loadPlanes(adapters, run.id);
  const target = targetOf(actions, place.unfinished);
  const moved = target === null ? null : await moveTo({ work, saver, before: latest.planes, workspace, target });
  const putsBack = actions.some((action) => action.kind === "put_files_back");
  const planes = acceptFindings({ planes: moved?.planes ?? latest.planes, actions, current });
  const entries = [
    ...judgements.flatMap(note),
    ...actions.filter(({ kind }) => NOTED.has(kind)).map(({ why }) => noteOf(why)),
    // The two entries are adjacent: a replay recognizes by them that no transition led here.
    ...actions.flatMap((action) => reopenedBy(action)),
    ...actions.flatMap((action) => (action.kind === "move_stage" ? [entered(planes)] : [])),
    ...place.entries,
    ...continuedBy(work, { judgements, actions }),
    ...(putsBack ? [started(latest.newest)] : []),
  ];
  const adopts = moved !== null || place.entries.length > 0 || actions.some((action) => WRITES.has(action.kind));
  if (!adopts) {
    if (entries.length > 0) await adapters.store.commit({ lease, entries });
    return { workspace, checkpoint: null };
  }
  const keepsEdits = moved === null && !putsBack && judgements.some(({ finding }) => EDITS.has(finding.kind));
  const adopted = await commitHere({
    lease,
    saver,
    entries,
    planes,
    workspace,
    trigger: putsBack ? "before_restore" : "automatic",
    rebases: keepsEdits,
  });
  const steps = moved === null ? {} : { steps: moved.steps };
  if (!putsBack || workspace === undefined || adapters.workspaces === null)
    return { workspace, checkpoint: adopted, ...steps };
  const tree = await placeFiles({
    adapters,
    workspaces: adapters.workspaces,
    workspace,
    run: run.id,
    target: latest.newest,
    fresh: true,
  });
  const restored = await commitHere({
    lease,
    saver,
    entries: [finished(latest.newest, tree)],
    planes,
    workspace,
    trigger: "restore",
  });
  return { workspace, checkpoint: restored, ...steps };
}

/** Actions after which the worktree no longer contains the writes of a call in flight. */
const REPLACES_FILES: ReadonlySet<ResumeAction["kind"]> = new Set([
  "recreate_worktree",
  "refresh_worktree",
  "finish_restore",
  "put_files_back",
  "go_back",
]);

/** The user's changes in the worktree. They are findings only if no step writes there, or if the run was stopped cleanly in one. */
const EDITS: ReadonlySet<FindingKind> = new Set(["files_changed", "head_moved", "branch_switched"]);

/** Actions whose result is part of the next checkpoint. */
const WRITES: ReadonlySet<ResumeAction["kind"]> = new Set([
  "go_back",
  "take_issue",
  "move_stage",
  "change_values",
  "take_settings",
  "take_files",
  "remember",
  "put_files_back",
]);

/** Actions that the journal describes in a note. */
const NOTED: ReadonlySet<ResumeAction["kind"]> = new Set(["go_back", "change_values", "move_stage"]);

interface Target {
  readonly sequence: number;
  readonly paths: readonly string[] | null;
  readonly asked: boolean;
}

function targetOf(actions: readonly ResumeAction[], unfinished: Target | null): Target | null {
  const back = actions.find((action) => action.kind === "go_back");
  return back === undefined ? unfinished : { sequence: back.sequence, paths: null, asked: false };
}

/**
 * Goes back through a restore, so that the current state is saved first. Costs since the newest checkpoint remain spent. The stage attempt
 * gets a number that no later attempt used, because effects are identified by it.
 */
async function moveTo(params: {
  readonly work: ResumeWork;
  readonly saver: Saver;
  readonly before: Planes;
  readonly workspace: Workspace | undefined;
  readonly target: Target;
}): Promise<Moved> {
  const { saver, before, workspace, target: to } = params;
  const { adapters, run, lease } = params.work;
  const target = await adapters.store.getCheckpoint({ run: run.id, sequence: to.sequence });
  const scope = to.asked ? ({ only: "files" } as const) : { paths: to.paths ?? undefined };
  const plan = await planRestore({ adapters, target, workspace, ...scope });
  const { steps, checkpoint } = await applyRestore({ adapters, plan, saver, lease, workspace });
  if (to.paths !== null) return { planes: rebaseRunning(before, checkpoint.sequence), steps };
  const planes = (await saver.newest())?.planes ?? target.planes;
  const { budget, stageAttempt: last } = before.position;
  const stageAttempt = {
    ...planes.position.stageAttempt,
    number: Math.max(planes.position.stageAttempt.number, last.number),
  };
  return { planes: { ...planes, position: { ...planes.position, budget, stageAttempt } }, steps };
}

interface Moved {
  readonly planes: Planes;
  readonly steps: readonly RestoreStep[];
}

async function commitHere(params: {
  readonly lease: Lease;
  readonly saver: Saver;
  readonly entries: readonly NewEntry[];
  readonly planes: Planes;
  readonly workspace: Workspace | undefined;
  readonly trigger?: "automatic" | "before_restore" | "restore";
  /** An interrupted step begins again from these files, which contain the user's edits. */
  readonly rebases?: boolean;
}): Promise<CheckpointSummary> {
  const { lease, saver, entries, workspace, rebases = false } = params;
  const save = { trigger: params.trigger ?? "automatic", name: RESUMED } as const;
  if (workspace === undefined) return await saver.commit({ lease, planes: params.planes, params: save, entries });
  const { sequence, files } = await saver.snapshot(workspace, save.name);
  const planes = rebases ? rebaseRunning(params.planes, sequence) : params.planes;
  return await saver.commit({ lease, planes: { ...planes, files }, params: save, entries, sequence });
}

/** One note for each decision, so that the journal shows what was accepted and why. */
function note({ finding, decision }: Judgement): readonly NewEntry[] {
  if (decision === "accepted_before" || decision === "open") return [];
  const text = `${finding.summary}: ${SAID[decision]}`;
  return [{ kind: "note", body: { text, finding: finding.kind, decision } }];
}

const SAID = {
  accepted: "accepted",
  put_back: "put back",
  by_policy: "accepted by policy",
  moot: "of no consequence, the pull request was merged",
} as const;

function entered({ position }: Planes): NewEntry {
  const { stage, iteration, stageAttempt } = position;
  const body: StageEntered = { stageAttempt: stageAttempt.number, stage, iteration };
  return { kind: "stage.entered", body };
}

function noteOf(text: string): NewEntry {
  return { kind: "note", body: { text } };
}

function reopenedBy(action: ResumeAction): readonly NewEntry[] {
  if (action.kind !== "go_back" || !action.reopens) return [];
  return [{ kind: "run.reopened", body: { reason: action.why } }];
}

/** The newest checkpoint, and its planes with the later entries applied. A step in flight remains in flight. */
async function loadPlanes(
  adapters: Adapters,
  run: string,
): Promise<{ readonly newest: Checkpoint; readonly planes: Planes }> {
  const { newest, position } = await loadRun(adapters, run);
  return { newest, planes: { ...newest.planes, position } };
}
