// Compares the world with a run's checkpoint before a resume: worktree, branch, journal, remote, forge and settings. Each difference is a
// finding.

import { setTimeout as pause } from "node:timers/promises";
import { HoldfastError } from "@holdfast/platform/error";
import { type Adapters, findAnyWorktree, findRunWorkspace, runMark, snapshotParams } from "./adapters.ts";
import { isAnswered } from "./agent-log.ts";
import { type Checkpoint, type FilesPlane, RESUMED, type Trigger } from "./checkpoint.ts";
import { type Effect, isUndone } from "./effects.ts";
import { type Finding, type ReliedOn, type Setting, compareInputs, compareSettings, reliedOn } from "./findings.ts";
import { type Forge, type PullRequest, readIssueWithComments } from "./forge.ts";
import { type SinceCheckpoint, foldSince } from "./journal.ts";
import { isJsonObject } from "./json.ts";
import { type StageAttempt, interruptedSteps } from "./position.ts";
import { filesBeforeSetup } from "./prepare-worktree.ts";
import { loadRun } from "./run-session.ts";
import { isRequestUndone } from "./run-statuses.ts";
import type { RunSummary } from "./run.ts";
import { type Store, journalDamage } from "./store.ts";
import type { FolderProcess } from "@holdfast/platform/folder-processes";
import type { Asking } from "./branch.ts";
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
  const forge = await observeForge({ adapters, run, relied, effects, place });
  const journal = await observeJournal(adapters.store, run.id);
  const remote = await observeRemote({ adapters, run, effects, relied, place, merged: forge.merged, seen: since.seen });
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

interface Place {
  readonly findings: readonly Finding[];
  /** Tip of the run's branch now, or the checkpoint's head when the branch is gone. Null without files or commits. */
  readonly head: string | null;
  /** Full ref name of the run's branch. */
  readonly branch: string | null;
  /** The run's worktree; null when it is gone. */
  readonly root: string | null;
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
  if (branchGone) findings.push(branchMissing(files));
  const place = { head: tip ?? files.head, branch: files.branch, root: workspace?.root ?? null };
  if (workspace === undefined) {
    if (!branchGone) findings.push(...headMoved({ files, tip, since, stepWrites: since.changesFiles }));
    const content = await workspaces.inspectWorktree(run.id);
    const missing = content?.isForeign === true ? worktreeForeign(content.path) : worktreeMissing(files);
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
  return `${names} was interrupted and begins again from ${target.id}. Files that differ from it are saved as a checkpoint, then put back: ${named(changed)}`;
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

function branchMissing(files: FilesPlane): Finding {
  const summary = `The branch ${shortName(files.branch)} is gone`;
  return { kind: "branch_missing", summary, expected: { branch: files.branch, head: files.head }, actual: null };
}

function worktreeMissing(files: FilesPlane): Finding {
  const summary = `The worktree ${files.worktree} is gone`;
  return { kind: "worktree_missing", summary, expected: files.worktree, actual: null };
}

/** It may be the run's worktree with the user's edits, so it is not created again without an answer. */
function worktreeForeign(path: string): Finding {
  const summary = `${path} leads to another repository than this one. If it is the worktree of this run, link it with \`git worktree repair ${path}\`; otherwise move it away`;
  return { kind: "worktree_missing", summary, expected: path, actual: null, conflict: true };
}

function worktreeMoved(files: FilesPlane, root: string): Finding {
  const summary = `The worktree is at ${root} and was at ${files.worktree}`;
  return { kind: "worktree_moved", summary, expected: files.worktree, actual: root };
}

function treeMissing(checkpoint: Checkpoint, files: FilesPlane): Finding {
  const summary = `The git objects of checkpoint ${checkpoint.id} are not in this repository`;
  return { kind: "tree_missing", summary, expected: files.snapshot, actual: null };
}

const NAMED = 5;

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
  const summary = `Files are not as checkpoint ${checkpoint.id} has them: ${named(changed)}`;
  const diff = patch === null ? {} : { diff: shortened(patch.text) };
  return { kind: "files_changed", summary, expected: files.tree, actual: look.tree, ...diff };
}

function named(changed: readonly { readonly path: string }[]): string {
  const more = changed.length > NAMED ? ` and ${changed.length - NAMED} more` : "";
  return `${changed
    .slice(0, NAMED)
    .map(({ path }) => path)
    .join(", ")}${more}`;
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

/** Observes the run's own branch and its base branch on the remote. */
async function observeRemote(params: {
  readonly adapters: Adapters;
  readonly run: RunSummary;
  readonly effects: readonly Effect[];
  readonly relied: ReliedOn;
  readonly place: Place;
  /** The pull request was merged. Then a missing remote branch is expected. */
  readonly merged: boolean;
  /** Commits that the stage has already seen. The stage asks about them itself, and the user is asked only once. */
  readonly seen: ReadonlySet<string>;
}): Promise<readonly Finding[]> {
  const { relied, place } = params;
  if (place.branch === null) return [];
  const branch = await openAskingBranch(params.adapters, place);
  if (branch === null) return [remoteUnreachable("there is no worktree to ask from")];
  if ((await branch.remote()) === null)
    return relied.base === null ? [] : await observeLocalBase(params.adapters.workspaces, branch, relied.base);
  const own = place.branch.replace(/^refs\/heads\//, "");
  const findings = place.head === null ? [] : await observeOwn({ ...params, branch, own, head: place.head });
  const base = relied.base === null ? [] : await observeBase(branch, relied.base);
  return [...findings, ...base].filter(
    (one, at, all) => one.kind !== "remote_unreachable" || all.findIndex(({ kind }) => kind === one.kind) === at,
  );
}

async function observeOwn(params: {
  readonly run: RunSummary;
  readonly effects: readonly Effect[];
  readonly branch: Asking;
  readonly own: string;
  readonly head: string;
  readonly relied: ReliedOn;
  readonly merged: boolean;
  readonly seen: ReadonlySet<string>;
}): Promise<readonly Finding[]> {
  const { branch, own, head, relied } = params;
  const there = await branch.lookUpRemote(own);
  if (there.kind === "unknown") return [remoteUnreachable(there.reason)];
  const { commit } = there;
  if (commit === null) {
    if (relied.pushed === null || params.merged || !isPushExpected(params)) return [];
    const summary = `${own} was pushed and is missing on the remote`;
    return [{ kind: "remote_branch_missing", summary, expected: relied.pushed, actual: null }];
  }
  if (commit === relied.pushed || commit === head || params.seen.has(commit)) return [];
  await branch.fetch();
  if (await reaches(branch, commit, head)) return [];
  const added = relied.pushed !== null && (await reaches(branch, relied.pushed, commit));
  const what = added ? "has commits on top of ours" : "was replaced, or never was ours";
  const summary = `${own} on the remote ${what}: it is at ${commit}`;
  return [{ kind: "branch_diverged", summary, expected: { head, pushed: relied.pushed }, actual: { commit } }];
}

/** A fork holds the state of its parent, which pushed another branch. After an undo the branch is missing on purpose. */
function isPushExpected(params: {
  readonly run: RunSummary;
  readonly effects: readonly Effect[];
  readonly own: string;
}): boolean {
  const push = params.effects.findLast(({ kind, target }) => kind === "push" && target.endsWith(` ${params.own}`));
  return push === undefined ? params.run.forkedFrom === null : !isUndone(push);
}

async function observeBase(branch: Asking, base: NonNullable<ReliedOn["base"]>): Promise<readonly Finding[]> {
  const name = base.branch ?? (await branch.defaultBranch());
  if (name === null || !OBJECT_ID.test(base.commit)) return [];
  const there = await branch.lookUpRemote(name);
  if (there.kind === "unknown") return [remoteUnreachable(there.reason)];
  if (there.commit === null || there.commit === base.commit) return [];
  const summary = `${name} has moved from ${base.commit} to ${there.commit}`;
  return [{ kind: "base_moved", summary, expected: base.commit, actual: there.commit }];
}

/** Without a remote, the base is a branch of this repository. The run's own branch may have begun with commits on top of it. */
async function observeLocalBase(
  workspaces: Workspaces | null,
  branch: Asking,
  { branch: name, commit }: NonNullable<ReliedOn["base"]>,
): Promise<readonly Finding[]> {
  if (workspaces === null || name === null || name === "HEAD" || !OBJECT_ID.test(commit)) return [];
  const tip = await workspaces.branchTip(`refs/heads/${name}`);
  if (tip === commit || (tip !== null && (await reaches(branch, tip, commit)))) return [];
  const summary =
    tip === null ? `The branch ${name} is gone; it was at ${commit}` : `${name} has moved from ${commit} to ${tip}`;
  return [{ kind: "base_moved", summary, expected: commit, actual: tip }];
}

const OBJECT_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

function remoteUnreachable(reason: string): Finding {
  const summary = `The remote does not report where the branch is: ${reason}`;
  return { kind: "remote_unreachable", summary, expected: null, actual: reason };
}

/** Observes the issue and the pull request. A forge that does not answer is a finding: unknown does not mean unchanged. */
async function observeForge(params: {
  readonly adapters: Adapters;
  readonly run: RunSummary;
  readonly relied: ReliedOn;
  readonly effects: readonly Effect[];
  readonly place: Place;
}): Promise<{ readonly findings: readonly Finding[]; readonly merged: boolean }> {
  const { adapters, run, relied } = params;
  const mismatch = issueMismatch(run, relied);
  if (mismatch !== null) return { findings: [mismatch], merged: false };
  if (adapters.forge === null) {
    const findings =
      relied.issue === null ? [] : [forgeUnreachable("There is no forge configured that could be asked")];
    return { findings, merged: false };
  }
  try {
    const issue = await observeIssue(adapters.forge, relied);
    const request = await findOwnRequest(adapters.forge, params);
    const findings = request === null ? [] : await observeRequest({ ...params, request });
    return { findings: [...issue, ...findings], merged: request?.state === "merged" };
  } catch (error) {
    if (!(error instanceof HoldfastError) || !SILENT.has(error.code)) throw error;
    // The remote alone named this forge. A run that never used it loses nothing when the user is not logged in.
    if (error.code === "FORGE_DENIED" && !reliesOnForge(relied, params.effects)) return { findings: [], merged: false };
    return { findings: [forgeUnreachable(error.message, waitOf(error))], merged: false };
  }
}

/** When to ask a forge again that may recover without help. Null: it will not; `until` null: it names no time. */
function waitOf({ retry, data }: HoldfastError): { readonly until: string | null } | null {
  if (retry !== "later") return null;
  return { until: typeof data["until"] === "string" ? data["until"] : null };
}

const SILENT: ReadonlySet<string> = new Set(["FORGE_FAILED", "FORGE_DENIED"]);

/** A checkpoint of another issue must not continue under this run's name: issue 4 is not issue 42. */
function issueMismatch(run: RunSummary, { issue }: ReliedOn): Finding | null {
  if (run.work.kind !== "issue" || issue === null || issue.number === run.work.number) return null;
  const summary = `Run ${run.id} is for issue ${run.work.number}, and its checkpoint is for issue ${issue.number}`;
  return { kind: "issue_mismatch", summary, expected: run.work.number, actual: issue.number };
}

async function observeIssue(forge: Forge, { issue }: ReliedOn): Promise<readonly Finding[]> {
  if (issue === null) return [];
  const rest = { task: null, base: null, plan: null };
  return compareInputs({
    saved: { issue, ...rest },
    current: { issue: await readIssueWithComments(forge, issue.number), ...rest },
  });
}

/**
 * Finds the pull request by its number when the run recorded one. Otherwise takes the newest of the branch if it contains the key of one of
 * this run's effects. An earlier run may have used the same branch name.
 */
async function findOwnRequest(
  forge: Forge,
  params: { readonly relied: ReliedOn; readonly effects: readonly Effect[]; readonly place: Place },
): Promise<PullRequest | null> {
  const number = params.relied.pullRequest ?? numberOf(params.effects);
  if (number !== null) return await forge.getPullRequest(number);
  const { branch } = params.place;
  if (branch === null || params.effects.length === 0) return null;
  const found = await forge.findPullRequest(branch.replace(/^refs\/heads\//, ""));
  const ours = found !== null && params.effects.some(({ key }) => mentionsKey(found.body, key));
  return ours ? found : null;
}

function numberOf(effects: readonly Effect[]): number | null {
  for (const { kind, state } of effects.toReversed()) {
    if (!/pull.?request/.test(kind) || state.kind !== "done" || !isJsonObject(state.receipt)) continue;
    const number = state.receipt["number"];
    if (typeof number === "number") return number;
  }
  return null;
}

/** Matches the whole key: `r/pr/open` is not in a text that has only `r/pr/open.2`. */
export function mentionsKey(text: string, key: string): boolean {
  const places = text.split(key);
  return places.some((before, at) => {
    const after = places[at + 1];
    return after !== undefined && !/[a-z0-9._/-]$/i.test(before) && !/^[a-z0-9._/-]/i.test(after);
  });
}

async function observeRequest(params: {
  readonly adapters: Adapters;
  readonly run: RunSummary;
  readonly request: PullRequest;
  readonly effects: readonly Effect[];
  readonly place: Place;
}): Promise<readonly Finding[]> {
  const { number, url, state, headCommit } = params.request;
  const name = `Pull request ${number}`;
  switch (state) {
    case "open":
      return [];
    case "closed": {
      const isOwn = await isRequestUndone(params.adapters.store, params.run.id, { url });
      const summary = isOwn ? `${name} is closed: you undid it` : `${name} was closed without being merged`;
      return [{ kind: "pull_request_closed", summary, expected: "open", actual: { number, url } }];
    }
    case "merged": {
      const own = mergesItself(params.effects);
      const merged: Finding = {
        kind: "pull_request_merged",
        summary: own ? `${name} was merged by this run` : `${name} was merged`,
        expected: "open",
        actual: { number, url, head: headCommit, ...(own ? { own } : {}) },
      };
      const { head } = params.place;
      if (head === null || (await isIn(params.adapters, params.place, head, headCommit))) return [merged];
      const summary = `${name} was merged at ${headCommit}, and the branch here has commits that are not in it`;
      const actual = { number, merged: headCommit };
      return [merged, { kind: "work_not_merged", summary, expected: { head }, actual }];
    }
  }
}

/** A workflow that merges its own pull request is still in the middle of its work and has more to do. */
function mergesItself(effects: readonly Effect[]): boolean {
  return effects.some((effect) => /merge/.test(effect.kind) && effect.state.kind !== "failed" && !isUndone(effect));
}

/** Whether the merge contains `head`. In doubt it does not: then the user is asked, and no commit is lost. */
async function isIn(adapters: Adapters, place: Place, head: string, merged: string): Promise<boolean> {
  if (head === merged) return true;
  const branch = await openAskingBranch(adapters, place);
  if (branch === null) return false;
  await branch.fetch();
  return await reaches(branch, head, merged);
}

function reliesOnForge(relied: ReliedOn, effects: readonly Effect[]): boolean {
  return relied.issue !== null || (relied.pullRequest ?? numberOf(effects)) !== null;
}

function forgeUnreachable(reason: string, wait: { readonly until: string | null } | null = null): Finding {
  const summary = `It is not known whether the issue or the pull request changed: ${reason}`;
  return { kind: "forge_unreachable", summary, expected: null, actual: wait === null ? reason : { reason, ...wait } };
}

/** Opens the repository to query the remote and the history. Uses any worktree when the run's own is gone; null when there is none. */
async function openAskingBranch(adapters: Adapters, place: Place): Promise<Asking | null> {
  const { workspaces, branches } = adapters;
  const folder = workspaces === null ? null : await findAnyWorktree(workspaces, place.root);
  return folder === null ? null : await branches.asking(folder);
}

/** A commit that is missing locally (it could not be fetched) is neither an ancestor nor a descendant. */
async function reaches(branch: Asking, ancestor: string, of: string): Promise<boolean> {
  try {
    return await branch.isAncestor({ ancestor, of });
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "GIT_FAILED") return false;
    throw error;
  }
}
