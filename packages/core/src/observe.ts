// Compares the world with a run's checkpoint before a resume. Each difference is a finding. Here: worktree, branch, files, processes and journal.

import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describeList } from "@holdfast/platform/error";
import type { FolderProcess } from "@holdfast/platform/folder-processes";
import { processIdentity } from "@holdfast/platform/identity";
import { type Adapters, NO_WORKTREE, WORKTREE, findRunWorkspace, runMark, snapshotParams } from "./adapters.ts";
import { isAnswered } from "./agent-log.ts";
import { type Checkpoint, type FilesPlane, RESUMED, type Trigger } from "./checkpoint.ts";
import type { Effect } from "./effects.ts";
import { type Finding, type Setting, compareSettings, reliedOn } from "./findings.ts";
import { type SinceCheckpoint, foldSince } from "./journal.ts";
import { isJsonObject } from "./json.ts";
import { type Place, observeForge, observeRemote } from "./observe-remote.ts";
import { type StageAttempt, interruptedSteps } from "./position.ts";
import { filesBeforeSetup } from "./prepare-worktree.ts";
import { loadRun } from "./run-session.ts";
import type { RunSummary } from "./run.ts";
import { type Store, journalDamage } from "./store.ts";
import type { PreviewSnapshot, Workspaces } from "./workspace.ts";

/**
 * Returns every difference between the world and the checkpoint. No finding hides another, and a question that gets no answer is a finding
 * too. Reads only, except for a git fetch. Changes that the run itself made after the checkpoint are not differences.
 */
export async function observeWorld(params: {
  readonly adapters: Adapters;
  readonly run: RunSummary;
  /** The checkpoint that the run resumes from. */
  readonly checkpoint: Checkpoint;
  /** The checkpoint to compare branch and files with, when the run resumes from an older one. Absent: `checkpoint`. */
  readonly newest?: Checkpoint;
  /** The definition and configuration that would continue the run. */
  readonly current: Setting;
}): Promise<readonly Finding[]> {
  const { adapters, run, checkpoint } = params;
  const { position, config } = checkpoint.planes;
  const relied = reliedOn(checkpoint.planes);
  const newest = params.newest ?? checkpoint;
  const entries = await Array.fromAsync(adapters.store.readJournal({ run: run.id, after: newest.entry }));
  const since = foldSince({ stageAttempt: newest.planes.position.stageAttempt, entries });
  const effects = await adapters.store.listEffects(run.id);
  const place = await observePlace({ adapters, run, checkpoint: newest, since });
  const observed = { adapters, run, relied, effects, place };
  const forge = await observeForge(observed);
  const journal = await observeJournal(adapters.store, run.id);
  const remote = await observeRemote(observed, { merged: forge.merged, seen: since.seen });
  return [
    ...forge.findings,
    ...place.findings,
    ...journal,
    ...remote,
    ...compareSettings({ saved: { definition: position.definition, config }, current: params.current }),
    ...effects.flatMap(inFlight),
    ...unfinishedRestore(run, since.changesFiles),
    ...(await observeProcesses(adapters, run.id)),
  ];
}

/**
 * Looks for processes in the run's own worktree that no mark, parent, group or record ties to the run. One whose parent
 * has ended and that has no terminal may be an agent that a killed run left. Others belong to a user: an editor, a server.
 * A shell that waits at its prompt is no finding.
 */
async function observeProcesses(
  { commands, workspaces, ...adapters }: Adapters,
  run: string,
): Promise<readonly Finding[]> {
  const workspace = await workspaces?.find(run);
  if (workspace === undefined) return [];
  const place = { mark: runMark(adapters, run), folder: workspace.root };
  let found = commands.findUnmarked(place);
  // A git or a set-up of the killed process may be about to end.
  for (let look = 0; look < LOOKS && found?.some(isLeft) === true; look += 1) {
    await pause(LOOK_MS);
    found = commands.findUnmarked(place);
  }
  if (found === null) {
    const summary = "This system does not show which processes work in the run's worktree";
    return [{ kind: "worktree_in_use", summary, expected: [], actual: null }];
  }
  const left = found.filter(isLeft);
  const isOther = ({ orphan, parent, terminal, name }: FolderProcess): boolean =>
    !orphan && !left.some(({ pid }) => pid === parent) && !(terminal && SHELLS.test(name));
  const others = found.filter(isOther);
  const finding = (
    kind: "process_left" | "worktree_in_use",
    some: readonly FolderProcess[],
    text: string,
  ): Finding[] => {
    const names = some.map(({ name, pid }) => `${name} (${pid})`);
    const summary = `${names.join(", ")} ${some.length === 1 ? "works" : "work"} in the run's worktree${text}`;
    return some.length === 0 ? [] : [{ kind, summary, expected: [], actual: names }];
  };
  const end = `and may be left of the killed run. End ${left.length === 1 ? "it" : "them"} with \`kill ${left.map(({ pid }) => pid).join(" ")}\``;
  return [...finding("process_left", left, `, ${end}`), ...finding("worktree_in_use", others, "")];
}

/** A git ends by itself, and a lock that it may leave is found by itself. */
function isLeft({ terminal, orphan, name }: FolderProcess): boolean {
  return orphan && !terminal && !/^git(?:-|$)/.test(name);
}

const LOOKS = 5;
const LOOK_MS = 200;
const SHELLS = /^-?(?:ba|da|z|k|tc|c|fi|nu|pw)?sh$/;

function inFlight(effect: Effect): readonly Finding[] {
  const { key, kind, target, state } = effect;
  if (state.kind !== "intended" && state.kind !== "unknown") return [];
  const summary = `Whether ${kind} on ${target} happened was not written down`;
  return [{ kind: "effect_in_flight", summary, expected: "settled", actual: { key, state: state.kind } }];
}

/** A restore that a step began is finished by that step when it runs again, so it is not a finding. */
function unfinishedRestore(run: RunSummary, stepInFlight: boolean): readonly Finding[] {
  const target = run.unfinishedRestore;
  if (target === null || stepInFlight) return [];
  const summary = `The restore of ${target} did not finish`;
  return [{ kind: "restore_unfinished", summary, expected: null, actual: target }];
}

const NOWHERE: Place = { findings: [], head: null, branch: null, root: null };

/** Observes the run's worktree, its branch and its files. */
async function observePlace(params: {
  readonly adapters: Adapters;
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly since: SinceCheckpoint;
}): Promise<Place> {
  const { adapters, run, checkpoint, since } = params;
  const { files } = checkpoint.planes;
  const { workspaces } = adapters;
  if (files === null || workspaces === null) return NOWHERE;
  const [whole, workspace] = await Promise.all([workspaces.has(files), findRunWorkspace(adapters, run)]);
  const tip = files.branch === null ? files.head : await workspaces.branchTip(files.branch);
  const findings: Finding[] = whole ? [] : [treeMissing(checkpoint, files)];
  const branchGone = files.branch !== null && files.head !== null && tip === null;
  const isNew = workspace === undefined && run.labels[WORKTREE] === NO_WORKTREE;
  const elsewhere = await findElsewhere({ ...params, files, root: workspace?.root ?? null });
  if (branchGone) findings.push(branchMissing(files, { isNew, elsewhere }));
  const place = { head: tip ?? files.head, branch: files.branch, root: workspace?.root ?? null };
  if (elsewhere !== null && (workspace !== undefined || (tip !== null && tip !== files.head))) {
    const missing = workspace === undefined ? [worktreeMissing(files, { isNew, elsewhere })] : [];
    return {
      ...place,
      head: files.head,
      findings: [...findings, ...missing, worktreeOutdated(elsewhere, workspace?.root ?? null)],
    };
  }
  if (workspace === undefined) {
    if (!branchGone) findings.push(...headMoved({ files, tip, since, stepWrites: since.changesFiles }));
    const content = await workspaces.inspectWorktree(run.id);
    const missing =
      content?.isForeign === true ? worktreeForeign(content.path) : worktreeMissing(files, { isNew, elsewhere });
    return { ...place, findings: [...findings, missing] };
  }
  const look = await workspace.look(snapshotParams(adapters));
  if (workspace.root !== files.worktree) findings.push(worktreeMoved(files, workspace.root));
  // A clean stop saved the files of the step in flight, so every later difference is the user's. So did a resume that accepted edits.
  const stopped = (STOPPED.has(checkpoint.trigger) || acceptedEdits(checkpoint)) && !since.startsFiles;
  const stepWrites = since.changesFiles && !stopped;
  // A step that is in flight is undone together with the branch switch that it made.
  const setsUp = filesBeforeSetup(workspace, checkpoint) !== null;
  if (!stepWrites && !setsUp) findings.push(...branchSwitched(files, look));
  if (!branchGone)
    findings.push(...headMoved({ files, tip: files.branch === null ? look.head : tip, since, stepWrites }));
  // After an unfinished restore, or in the middle of a step that writes files, a difference is not the user's edit.
  const halfWork = stepWrites || setsUp || run.unfinishedRestore !== null;
  if (whole && !halfWork && look.tree !== files.tree)
    findings.push(
      inConflict(
        run.id,
        await filesChanged(workspaces, checkpoint, files, look),
        stepsToRepeat(adapters.logs, run.id, checkpoint.planes.position.stageAttempt),
      ),
    );
  return { ...place, findings };
}

/**
 * Where the files of the newest checkpoint were saved, if that was on another host or in another clone: then the worktree and the branch here
 * are older than the run. null: here, as far as the journal shows. A store of this repository alone has no other clone.
 */
async function findElsewhere(params: {
  readonly adapters: Adapters;
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly files: FilesPlane;
  readonly root: string | null;
}): Promise<string | null> {
  const { adapters, run, checkpoint, files, root } = params;
  if (adapters.ownsRefs) return null;
  const { entry } = await findSnapshot(adapters.store, checkpoint);
  let holder: string | null = null;
  for await (const { entry: at, kind, body } of adapters.store.readJournal({ run: run.id })) {
    if (at >= entry) break;
    const owner = kind === "lease.taken" ? body["owner"] : undefined;
    if (isJsonObject(owner) && typeof owner["host"] === "string") holder = owner["host"];
  }
  if (holder !== null && holder !== processIdentity().host) return holder;
  return files.worktree !== root && existsSync(files.worktree) ? files.worktree : null;
}

/** The checkpoint that saved these files: a new limit, for example, makes another one of the same snapshot, on any machine. */
async function findSnapshot(store: Store, checkpoint: Checkpoint): Promise<Checkpoint> {
  const { run, sequence, planes } = checkpoint;
  const [before] = await store.listCheckpoints({ run, before: sequence, limit: 1 });
  if (before === undefined || before.quarantined || before.tree !== checkpoint.tree) return checkpoint;
  const earlier = await store.getCheckpoint({ run, sequence: before.sequence });
  return earlier.planes.files?.snapshot === planes.files?.snapshot ? await findSnapshot(store, earlier) : checkpoint;
}

/** Triggers of the checkpoint that a clean stop takes after every process of the run has ended. */
const STOPPED: ReadonlySet<Trigger> = new Set(["interrupt", "session_end"]);

/**
 * Whether a resume that accepted edits took this checkpoint, so that a step in flight begins from its files. The end of a parallel step takes
 * one with the same base, and its name tells them apart.
 */
function acceptedEdits({ sequence, trigger, name, planes }: Checkpoint): boolean {
  const steps = Object.values(planes.position.stageAttempt.running ?? {});
  return trigger === "automatic" && name === RESUMED && steps.some(({ files, base }) => files && base === sequence);
}

/** The steps in flight that begin again, and the checkpoint whose files they begin from. */
function stepsToRepeat(
  logs: Adapters["logs"],
  run: string,
  stageAttempt: StageAttempt,
): { readonly names: string; readonly base: number } {
  const steps = interruptedSteps(stageAttempt, (step) =>
    isAnswered(logs.result({ run, stageAttempt: stageAttempt.number, step })),
  );
  const names = steps.map(([name]) => name).join(", ");
  return { names, base: Math.max(0, ...steps.map(([, step]) => step.base)) };
}

/**
 * What a resume does with the files that an interrupted step left half-done; null: it leaves them. After a kill, no record distinguishes the step's
 * files from those that the user changed since, so all of them are saved and put back.
 */
export async function describeHalfDone(adapters: Adapters, run: RunSummary): Promise<string | null> {
  const { workspaces, store, logs } = adapters;
  const workspace = await findRunWorkspace(adapters, run);
  if (workspace === undefined || workspaces === null) return null;
  const { newest, state } = await loadRun(adapters, run.id);
  const setup = filesBeforeSetup(workspace, newest);
  const steps = stepsToRepeat(logs, run.id, state.position.stageAttempt);
  const { names, base } = steps.names === "" && setup !== null ? { names: "set-up", base: setup } : steps;
  if (names === "") return null;
  // A fork may name a checkpoint of its parent, which is not in this run.
  const [target] = await store.listCheckpoints({ run: run.id, before: base + 1, limit: 1 });
  if (target?.sequence !== base || target.tree === null) return null;
  const { tree } = await workspace.look(snapshotParams(adapters));
  const changed =
    tree === target.tree ? [] : (await workspaces.diff({ from: target.tree, to: tree, format: "names" })).files;
  if (changed.length === 0) return null;
  return `${names} was interrupted and begins again from ${target.id}. Files that differ from it are saved as a checkpoint, then put back: ${describeList(changed.map(({ path }) => path))}`;
}

/** A step that begins again starts from its own base, which does not contain the user's edits. */
function inConflict(run: string, finding: Finding, { names, base }: ReturnType<typeof stepsToRepeat>): Finding {
  if (names === "") return finding;
  const summary = `${finding.summary}. The run was stopped during ${names}: accepted, all files stay, half-done ones too; with files_changed=put_back they are saved and ${names} begins again from ${run}@${base}`;
  return { ...finding, summary, conflict: true };
}

function headMoved(params: {
  readonly files: FilesPlane;
  readonly tip: string | null;
  readonly since: SinceCheckpoint;
  readonly stepWrites: boolean;
}): readonly Finding[] {
  const { files, tip, since, stepWrites } = params;
  if (tip === files.head || tip === null || stepWrites || since.commits.has(tip)) return [];
  const summary = `${shortName(files.branch)} is at ${tip}, and the run left it at ${files.head ?? "no commit"}`;
  return [{ kind: "head_moved", summary, expected: files.head, actual: tip }];
}

function branchSwitched(files: FilesPlane, look: PreviewSnapshot): readonly Finding[] {
  if (files.branch === null || look.branch === files.branch) return [];
  const summary = `The worktree is on ${shortName(look.branch)} instead of ${shortName(files.branch)} (\`git -C ${look.worktree} switch ${shortName(files.branch)}\` brings it back)`;
  return [{ kind: "branch_switched", summary, expected: files.branch, actual: look.branch }];
}

interface Absence {
  /** A fork without a worktree has never had one. */
  readonly isNew: boolean;
  /** Where the run was executed before; null: here. What is missing was never here then. */
  readonly elsewhere: string | null;
}

/** A host, or the worktree of another clone on this one. */
function placeText(elsewhere: string): string {
  return isAbsolute(elsewhere) ? "in another clone, not in this one" : `on ${elsewhere}, not here`;
}

function branchMissing(files: FilesPlane, { isNew, elsewhere }: Absence): Finding {
  const name = shortName(files.branch);
  const gone = elsewhere === null ? `The branch ${name} is gone` : `The branch ${name} is ${placeText(elsewhere)}`;
  const summary = isNew ? "The run has no branch yet" : gone;
  return { kind: "branch_missing", summary, expected: { branch: files.branch, head: files.head }, actual: null };
}

function worktreeMissing(files: FilesPlane, { isNew, elsewhere }: Absence): Finding {
  const gone =
    elsewhere === null ? `The worktree ${files.worktree} is gone` : `The worktree is ${placeText(elsewhere)}`;
  const summary = isNew ? "The run has no worktree yet" : gone;
  return { kind: "worktree_missing", summary, expected: files.worktree, actual: null };
}

/** It may be the run's worktree with the user's edits, so it is not created again without an answer. */
function worktreeForeign(path: string): Finding {
  const summary = `${path} leads to another repository than this one. If it is the worktree of this run, link it with \`git worktree repair ${path}\`; otherwise move it away`;
  return { kind: "worktree_missing", summary, expected: path, actual: null, conflict: true };
}

function worktreeOutdated(elsewhere: string, root: string | null): Finding {
  const summary = `The run was continued on ${elsewhere} since; ${root === null ? "its branch" : "its worktree"} here is older`;
  return { kind: "worktree_outdated", summary, expected: elsewhere, actual: root };
}

function worktreeMoved(files: FilesPlane, root: string): Finding {
  const summary = `The worktree is at ${root} and was at ${files.worktree}`;
  return { kind: "worktree_moved", summary, expected: files.worktree, actual: root };
}

function treeMissing(checkpoint: Checkpoint, files: FilesPlane): Finding {
  const summary = `The git objects of checkpoint ${checkpoint.id} are not in this repository`;
  return { kind: "tree_missing", summary, expected: files.snapshot, actual: null };
}

async function filesChanged(
  workspaces: Workspaces,
  checkpoint: Checkpoint,
  files: FilesPlane,
  look: PreviewSnapshot,
): Promise<Finding> {
  const between = { from: files.tree, to: look.tree };
  const { files: changed } = await workspaces.diff({ ...between, format: "names" });
  // A patch that is too large to hold in memory must not block a resume.
  const patch = await workspaces.diff({ ...between, format: "patch" }).catch(() => null);
  const summary = `Files are not as checkpoint ${checkpoint.id} has them: ${describeList(changed.map(({ path }) => path))}`;
  const diff = patch === null ? {} : { diff: shortened(patch.text) };
  return { kind: "files_changed", summary, expected: files.tree, actual: look.tree, ...diff };
}

/** Shows the beginning of the user's changes; `holdfast diff` shows all of them. */
function shortened(patch: string): string {
  const lines = patch.trimEnd().split("\n");
  const left = lines.length - SHOWN;
  return left > 0 ? [...lines.slice(0, SHOWN), `… and ${left} more lines`].join("\n") : lines.join("\n");
}

const SHOWN = 60;

function shortName(branch: string | null): string {
  return branch === null ? "no branch" : branch.replace(/^refs\/heads\//, "");
}

/**
 * Verifies the run's journal. A resume reads only the newest checkpoint and the few entries after it, and an altered entry reads like any
 * other. Without this check the user would never see the damage.
 */
async function observeJournal(store: Store, run: string): Promise<readonly Finding[]> {
  const damage = await journalDamage(store, run);
  const [first, ...more] = damage;
  if (first === undefined) return [];
  const summary = `The journal of run ${run} is damaged: ${first}${more.length === 0 ? "" : ` (and ${more.length} more)`}`;
  return [{ kind: "journal_damaged", summary, expected: null, actual: damage.slice(0, MOST_NAMED) }];
}

/** The run keeps the findings that the user accepts, so their size is bounded. */
const MOST_NAMED = 20;
