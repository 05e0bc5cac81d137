import { adoptWorld } from "../../core/resume/adopt-world.ts";
import type { Checkpoint, CheckpointSummary, Planes } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Setting } from "../../core/resume/finding.ts";
import type { NewEntry, StageEntered } from "../../core/journal/journal.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { RestoreStep } from "../../core/resume/restore-step.ts";
import type { Judgement, ResumeAction, ResumePlan } from "../../core/resume/resume.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Workspace } from "../../ports/workspace.ts";
import { forgetResult } from "../agent/kept-answer.ts";
import { unparked } from "../conduct/park.ts";
import { finished, placeFiles, repairPlace, started } from "./repair-place.ts";
import { applyRestore, planRestore } from "../restore/restorer.ts";
import { Saver } from "../save/saver.ts";
import { loadRun } from "../conduct/load-run.ts";
import type { WorkParts } from "../work-parts.ts";

export interface ResumeWork {
  readonly parts: WorkParts;
  readonly run: RunSummary;
  /** What the run goes on from, as the findings have it. */
  readonly checkpoint: Checkpoint;
  readonly current: Setting;
  readonly plan: ResumePlan;
  readonly lease: Lease;
}

export interface ResumeReport {
  readonly workspace: Workspace | undefined;
  /** The newest checkpoint, when this made one. */
  readonly checkpoint: CheckpointSummary | null;
  /** Of a restore, when the run went back; and what was repaired before the plan was performed. */
  readonly steps?: readonly RestoreStep[];
}

const NOTHING: ResumeReport = { workspace: undefined, checkpoint: null };

/**
 * Performs a plan. Killed anywhere and planned and performed again, it ends in the same place: what it makes outside of the store is
 * made once by its name, and what was decided is written in one commit, after which the same differences are none any more.
 */
export async function applyResume(work: ResumeWork): Promise<ResumeReport> {
  const { plan } = work;
  if (plan.kind === "refuse" || plan.kind === "nothing") return NOTHING;
  await keepTips(work, plan.actions, plan.kind === "ask");
  if (plan.kind === "ask" || (plan.kind === "done" && plan.actions.length === 0)) return NOTHING;
  if (plan.kind === "done") return await finishRun(work, plan);
  if (plan.judgements.length === 0 && plan.actions.length === 0) return NOTHING;
  return await takeUp(work, plan);
}

/** A tip that could not be fetched is the remote's alone: a reason to ask, and none to go on over it. */
async function keepTips({ parts, run }: ResumeWork, actions: readonly ResumeAction[], asks: boolean): Promise<void> {
  for (const action of actions) {
    if (action.kind !== "keep_tips") continue;
    for (const commit of action.commits) {
      try {
        await parts.workspaces?.keep({ run: run.id, commit });
      } catch (error) {
        if (!asks || !(error instanceof HoldfastError) || error.code !== "TREE_MISSING") throw error;
      }
    }
  }
}

/** Whatever lies in the worktree is saved with the end: nobody comes back for it. */
async function finishRun(work: ResumeWork, plan: Extract<ResumePlan, { kind: "done" }>): Promise<ResumeReport> {
  const { parts, lease, run } = work;
  const place = await repairPlace({ ...work, actions: [] });
  const entries: readonly NewEntry[] = [
    ...plan.judgements.flatMap(note),
    noteOf(plan.why),
    { kind: "run.ended", body: { outcome: "done" } },
  ];
  if (place.workspace === undefined) {
    await parts.store.commit({ lease, entries });
    return NOTHING;
  }
  const { planes } = await findStanding(parts, run.id);
  const saver = new Saver(parts, run);
  return {
    workspace: place.workspace,
    checkpoint: await commitHere({ lease, saver, entries, planes, workspace: place.workspace }),
  };
}

/** A quota is the agent's that ran out of it: another one need not wait. A question of the stage that somebody left for another is none any more. */
function unparkedBy(
  { run }: ResumeWork,
  params: { readonly judgements: readonly Judgement[]; readonly actions: readonly ResumeAction[] },
): readonly NewEntry[] {
  const { judgements, actions } = params;
  if (run.state.kind === "parked" && actions.some(({ kind }) => kind === "move_stage")) return [unparked({})];
  const waits = run.state.kind === "parked" && (run.state.on === "quota" || run.state.on === "provider");
  return waits && judgements.some(({ finding }) => finding.kind === "model_changed") ? [unparked({})] : [];
}

async function takeUp(work: ResumeWork, plan: Extract<ResumePlan, { kind: "resume" | "warn" }>): Promise<ResumeReport> {
  const { parts, run, lease, current } = work;
  const { actions, judgements } = plan;
  for (const action of actions) {
    if (action.kind === "quarantine")
      await parts.store.quarantine({ run: run.id, sequences: [action.sequence], reason: action.why });
  }
  if (actions.some(({ kind }) => REPLACES_FILES.has(kind))) await forgetResults(work);
  const place = await repairPlace({ ...work, actions });
  const { workspace } = place;
  const saver = new Saver(parts, run);
  const standing = await findStanding(parts, run.id);
  const target = targetOf(actions, place.unfinished);
  const moved = target === null ? null : await moveTo({ work, saver, standing: standing.planes, workspace, target });
  const putsBack = actions.some((action) => action.kind === "put_files_back");
  const planes = adoptWorld({ planes: moved?.planes ?? standing.planes, actions, current });
  const entries = [
    ...judgements.flatMap(note),
    ...actions.filter(({ kind }) => NOTED.has(kind)).map(({ why }) => noteOf(why)),
    // Side by side: whoever replays the run tells by them that no transition led here.
    ...actions.flatMap((action) => reopenedBy(action)),
    ...actions.flatMap((action) => (action.kind === "move_stage" ? [entered(planes)] : [])),
    ...place.entries,
    ...unparkedBy(work, { judgements, actions }),
    ...(putsBack ? [started(standing.newest)] : []),
  ];
  const adopts = moved !== null || place.entries.length > 0 || actions.some((action) => WRITES.has(action.kind));
  if (!adopts) {
    if (entries.length > 0) await parts.store.commit({ lease, entries });
    return { workspace, checkpoint: null };
  }
  const adopted = await commitHere({
    lease,
    saver,
    entries,
    planes,
    workspace,
    trigger: putsBack ? "before_restore" : "automatic",
  });
  const told = moved === null ? {} : { steps: moved.steps };
  if (!putsBack || workspace === undefined || parts.workspaces === null)
    return { workspace, checkpoint: adopted, ...told };
  const tree = await placeFiles({
    parts,
    workspaces: parts.workspaces,
    workspace,
    target: standing.newest,
    fresh: true,
  });
  const restored = await commitHere({
    lease,
    saver,
    entries: [finished(standing.newest, tree)],
    planes,
    workspace,
    trigger: "restore",
  });
  return { workspace, checkpoint: restored, ...told };
}

/** Actions after which the worktree no longer holds what a call under way had written there. */
const REPLACES_FILES: ReadonlySet<ResumeAction["kind"]> = new Set([
  "recreate_worktree",
  "finish_restore",
  "put_files_back",
  "go_back",
]);

/** Before the files are replaced: killed in between, the next resume calls the agent again instead of adopting a result without its files. */
async function forgetResults({ parts, run }: ResumeWork): Promise<void> {
  const { state } = await loadRun(parts, run.id);
  const { number: visit, running = {} } = state.position.visit;
  for (const [step, { files }] of Object.entries(running))
    if (files) forgetResult(parts.agentAnswer({ run: run.id, visit, step }));
}

/** Actions whose outcome is part of the next checkpoint. */
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

/** Actions that the journal tells of in words. */
const NOTED: ReadonlySet<ResumeAction["kind"]> = new Set(["go_back", "change_values", "move_stage"]);

interface Target {
  readonly sequence: number;
  readonly paths: readonly string[] | null;
}

function targetOf(actions: readonly ResumeAction[], unfinished: Target | null): Target | null {
  const back = actions.find((action) => action.kind === "go_back");
  return back === undefined ? unfinished : { sequence: back.sequence, paths: null };
}

/**
 * Through a restore, so that what is there is saved first. What was spent since the newest checkpoint stays spent too, and the visit
 * gets no number that one after it may have had, because effects are told apart by it.
 */
async function moveTo(params: {
  readonly work: ResumeWork;
  readonly saver: Saver;
  readonly standing: Planes;
  readonly workspace: Workspace | undefined;
  readonly target: Target;
}): Promise<Moved> {
  const { saver, standing, workspace, target: to } = params;
  const { parts, run, lease } = params.work;
  const target = await parts.store.getCheckpoint({ run: run.id, sequence: to.sequence });
  const plan = await planRestore({ parts, target, workspace, paths: to.paths ?? undefined });
  const { steps } = await applyRestore({ parts, plan, saver, lease, workspace });
  if (to.paths !== null) return { planes: standing, steps };
  const planes = (await saver.newest())?.planes ?? target.planes;
  const { budget, visit: last } = standing.position;
  const visit = { ...planes.position.visit, number: Math.max(planes.position.visit.number, last.number) };
  return { planes: { ...planes, position: { ...planes.position, budget, visit } }, steps };
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
}): Promise<CheckpointSummary> {
  const { lease, saver, entries, planes, workspace } = params;
  const save = { trigger: params.trigger ?? "automatic", name: "taken up again" } as const;
  if (workspace === undefined) return await saver.commit({ lease, planes, params: save, entries });
  const { sequence, files } = await saver.snapshot(workspace, save.name);
  return await saver.commit({ lease, planes: { ...planes, files }, params: save, entries, sequence });
}

/** One line for each decision, so that the journal says who let what pass. */
function note({ finding, decision }: Judgement): readonly NewEntry[] {
  if (decision === "accepted_before" || decision === "open") return [];
  const text = `${finding.summary}: ${SAID[decision]}`;
  return [{ kind: "note", body: { text, finding: finding.kind, decision } }];
}

const SAID = {
  accepted: "accepted",
  put_back: "put back",
  by_policy: "gone on by policy",
  moot: "of no consequence, the pull request was merged",
} as const;

function entered({ position }: Planes): NewEntry {
  const { stage, iteration, visit } = position;
  const body: StageEntered = { visit: visit.number, stage, iteration };
  return { kind: "stage.entered", body };
}

function noteOf(text: string): NewEntry {
  return { kind: "note", body: { text } };
}

function reopenedBy(action: ResumeAction): readonly NewEntry[] {
  if (action.kind !== "go_back" || !action.reopens) return [];
  return [{ kind: "run.reopened", body: { reason: action.why } }];
}

/** The newest checkpoint, and its planes with the entries after it folded in. A step that was in flight stays in flight. */
async function findStanding(
  parts: WorkParts,
  run: string,
): Promise<{ readonly newest: Checkpoint; readonly planes: Planes }> {
  const { newest, position } = await loadRun(parts, run);
  return { newest, planes: { ...newest.planes, position } };
}
