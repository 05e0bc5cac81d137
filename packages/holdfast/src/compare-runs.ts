/** Compares two or more runs: their facts, where they diverge, and the differences between their files. */
import { newBudget } from "@holdfast/core/budget";
import type { Checkpoint, CheckpointParent } from "@holdfast/core/checkpoint";
import { type JsonChange, diffJson } from "@holdfast/core/diff-json";
import { FactsReader } from "@holdfast/core/find-rollback";
import { reliedOn } from "@holdfast/core/findings";
import { type JsonObject, sha256 } from "@holdfast/core/json";
import { loadFrom } from "@holdfast/core/run-session";
import type { Position } from "@holdfast/core/position";
import type { RollbackFacts } from "@holdfast/core/rollback";
import type { RunHandle } from "@holdfast/core/run-handle";
import type { RunStatus } from "@holdfast/core/status";
import { type Store, journalDamage } from "@holdfast/core/store";
import type { Diff, DiffParams, Workspaces } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import {
  type Divergence,
  type History,
  HistoryReader,
  type HistoryStep,
  type LineagePoint,
  commonPoint,
  findDivergence,
} from "./compare-history.ts";
import {
  type Best,
  type CodeChange,
  type ComparedRun,
  checkTrails,
  countLines,
  findBest,
  readMeasures,
} from "./compare-measures.ts";
import { isRequestUndone } from "@holdfast/core/run-statuses";
import { openedRequest, pullRequestOf } from "./run-status.ts";

export interface CompareWork {
  readonly store: Store;
  readonly workspaces: Workspaces | null;
  /** `sequence`: compare the run as it was at this checkpoint; null: as it is now. */
  readonly sides: readonly ComparedAt[];
  /** Limits the comparison to these files; all files if absent. */
  readonly paths?: readonly string[];
  /** Also return the differences as text, in git's format. */
  readonly text?: "patch" | "stat";
}

/** Reads only; changes nothing. */
interface ComparedAt {
  readonly handle: RunHandle;
  /** null: the run as it is now. */
  readonly sequence: number | null;
  readonly status: RunStatus;
}

export async function compareRuns(work: CompareWork): Promise<Comparison> {
  const sides: Side[] = [];
  for (const side of work.sides) sides.push(await readSide(work.store, side));
  const bases = await findBases(work, sides);
  const runs: ComparedSide[] = [];
  for (const [at, { run }] of sides.entries()) {
    const base = bases[at] ?? null;
    runs.push({ ...run, base, code: await changeOf(work, base?.tree ?? null, run.tree) });
  }
  const pairs: ComparedPair[] = [];
  for (const [at, a] of sides.entries())
    for (const b of sides.slice(at + 1)) {
      const code = await changeOf(work, a.run.tree, b.run.tree);
      pairs.push({ a: a.run.id, b: b.run.id, code, values: changedValues(a, b), diverged: divergenceOf(a, b) });
    }
  return { runs, pairs, best: findBest(runs), diffs: await readDiffs(work, runs) };
}

function changedValues(a: Side, b: Side): ComparedPair["values"] {
  return a.values === null || b.values === null ? null : diffJson({ from: a.values, to: b.values }).changes;
}

function divergenceOf(a: Side, b: Side): ComparedPair["diverged"] {
  const side = ({ run, steps, baseCommit, beginning }: Side) => ({
    lineage: run.lineage,
    steps,
    began: {
      workflow: run.workflow,
      work: run.work,
      files: [baseCommit, beginning?.tree ?? null].filter((one) => one !== null),
    },
  });
  return findDivergence(side(a), side(b));
}

/** Prefers one common base for all sides: only then can their counts be compared with each other. */
async function findBases(work: CompareWork, sides: readonly Side[]): Promise<readonly (CodeBase | null)[]> {
  const point = commonPoint(sides.map(({ run }) => run.lineage));
  const tree = point === null ? null : await treeAt(work.store, point);
  if (point !== null && tree !== null) {
    const base: CodeBase = { kind: "fork_point", name: `${point.run}@${point.sequence}`, tree };
    return sides.map(() => base);
  }
  const [commit] = sides.map(({ baseCommit }) => baseCommit);
  if (commit !== undefined && commit !== null && sides.every(({ baseCommit }) => baseCommit === commit)) {
    return sides.map(() => ({ kind: "base_commit", name: commit, tree: commit }));
  }
  const begun = sides.map(({ beginning }) => beginning);
  const [first] = begun;
  if (first !== undefined && first !== null && begun.every((one) => one?.tree === first.tree))
    return sides.map(() => ({ kind: "same_beginning", name: first.id, tree: first.tree }));
  return sides.map(({ baseCommit, beginning }) => {
    if (baseCommit !== null) return { kind: "own_beginning", name: baseCommit, tree: baseCommit };
    return beginning === null ? null : { kind: "own_beginning", name: beginning.id, tree: beginning.tree };
  });
}

/** The journal also keeps the tree of a checkpoint that retention has dropped. */
async function treeAt(
  store: Store,
  { run, sequence }: { readonly run: string; readonly sequence: number },
): Promise<string | null> {
  for await (const { kind, body } of store.readJournal({ run }))
    if (kind === "checkpoint" && body["sequence"] === sequence)
      return typeof body["tree"] === "string" ? body["tree"] : null;
  return null;
}

async function changeOf(work: CompareWork, from: string | null, to: string | null): Promise<CodeChange | null> {
  const diff = await diffOf(work, { from, to, format: "counts" });
  return diff === null ? null : countLines(diff.files, diff.text);
}

async function readDiffs(work: CompareWork, runs: readonly ComparedSide[]): Promise<readonly DiffText[]> {
  const { text } = work;
  if (text === undefined) return [];
  const [first, second, third] = runs;
  const wanted =
    first !== undefined && second !== undefined && third === undefined
      ? [{ from: { name: first.id, tree: first.tree }, to: second }]
      : runs.flatMap((to) => (to.base === null ? [] : [{ from: to.base, to }]));
  const texts: DiffText[] = [];
  for (const { from, to } of wanted) {
    const diff = await diffOf(work, { from: from.tree, to: to.tree, format: text });
    if (diff !== null) texts.push({ from: from.name, to: to.id, text: diff.text });
  }
  return texts;
}

/** null: one side has no files, or they are not in this repository. */
async function diffOf(
  { workspaces, paths }: CompareWork,
  params: { readonly from: string | null; readonly to: string | null; readonly format: DiffParams["format"] },
): Promise<Diff | null> {
  const { from, to, format } = params;
  if (workspaces === null || from === null || to === null) return null;
  try {
    return await workspaces.diff({ from, to, format, ...(paths === undefined ? {} : { paths }) });
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "TREE_MISSING") return null;
    throw error;
  }
}

/**
 * The result of a comparison. Runs are in the order in which the caller named them; the facts about each run and pair
 * do not depend on that order.
 */
export interface Comparison {
  readonly runs: readonly ComparedSide[];
  /** Each pair of runs once. */
  readonly pairs: readonly ComparedPair[];
  readonly best: readonly Best[];
  /**
   * Patches or counts in git's format, if requested: between two runs, or of each run against its base if there are
   * more.
   */
  readonly diffs: readonly DiffText[];
}

export interface ComparedSide extends ComparedRun {
  readonly base: CodeBase | null;
  /** The changes against the base. */
  readonly code: CodeChange | null;
}

/**
 * The base that the code of a run is compared with. In order of preference: the checkpoint that all sides share, the
 * commit that all began from, the files that all began with, or each side's own beginning.
 */
interface CodeBase {
  readonly kind: "fork_point" | "base_commit" | "same_beginning" | "own_beginning";
  /** `RUN@n`, or a commit. */
  readonly name: string;
  /** Id of a tree or a commit. */
  readonly tree: string;
}

export interface ComparedPair {
  readonly a: string;
  readonly b: string;
  /** The changes from the first to the second. */
  readonly code: CodeChange | null;
  /** The values that differ, if both runs were saved by hand; null if a workflow executed one of them. */
  readonly values: readonly JsonChange[] | null;
  readonly diverged: Divergence;
}

interface DiffText {
  readonly from: string;
  readonly to: string;
  readonly text: string;
}

interface Side {
  readonly run: ComparedRun;
  /** Every step on the way, including those of the runs that this one was forked from. */
  readonly steps: readonly HistoryStep[];
  /** The commit that the run's work started from; null if it has none. */
  readonly baseCommit: string | null;
  /** The first checkpoint with files, of the root run of the lineage. */
  readonly beginning: Beginning | null;
  /** null if a workflow executed the run: its values are the workflow's state. */
  readonly values: JsonObject | null;
}

/** Acquires no lease and writes nothing, so another process may work on the run meanwhile. */
async function readSide(store: Store, { handle, sequence: at, status }: ComparedAt): Promise<Side> {
  const checkpoint = at === null ? (await handle.newestWhole()).checkpoint : await handle.get(at);
  const summary = await handle.summary();
  const own = await readJournal(store, { run: handle.id, to: at });
  const before = await readLineage(store, summary.forkedFrom);
  const position = await positionOf(store, checkpoint, at === null);
  const planes = checkpoint?.planes;
  const { scores, metrics } = readMeasures(planes?.context.values ?? {});
  const sequence = checkpoint?.sequence ?? null;
  // A run that was restored has a pull request which its values do not mention. A named checkpoint has only what it mentions.
  const saved = pullRequestOf(planes?.context.values["pullRequest"]);
  const pull = saved ?? (at === null ? await openedRequest(store, handle.id) : null);
  const isUndone = pull !== null && (await isRequestUndone(store, handle.id, pull));
  return {
    run: {
      id: checkpoint?.id ?? handle.id,
      run: handle.id,
      sequence,
      workflow: summary.workflow,
      work: summary.work,
      status,
      stage: position === null || position.stage === "none" ? null : position.stage,
      iteration: position?.iteration ?? 0,
      attempts: position?.attempts ?? {},
      calls: own.history.calls,
      failures: own.history.failures,
      checks: checkTrails(own.facts.checks),
      score: position?.score ?? null,
      scoreTrail: own.facts.scores.map(({ score }) => score),
      scores,
      metrics,
      spent: (position?.budget ?? newBudget()).spent,
      ownSpent: summary.forkedFrom === null ? null : own.history.spent,
      time: { work: position?.budget.spent.milliseconds || own.history.work, wall: own.history.wall },
      effects: own.history.effects,
      pullRequest: isUndone ? null : pull,
      lineage: [...(sequence === null ? [] : [{ run: handle.id, sequence }]), ...before.points],
      branch: planes?.files?.branch?.replace(/^refs\/heads\//, "") ?? null,
      worktree: (await handle.workspace())?.root ?? null,
      tree: planes?.files?.tree ?? null,
      uncommitted: planes?.files?.artifactCount ?? 0,
      tags: checkpoint?.tags ?? [],
      damage: await damageOf(store, [handle.id, ...before.points.map(({ run }) => run)]),
    },
    steps: [...before.steps, ...own.history.steps],
    baseCommit: planes === undefined ? null : (reliedOn(planes).base?.commit ?? planes.files?.base ?? null),
    beginning: before.beginning ?? own.beginning,
    values: planes === undefined || planes.position.stageAttempt.number > 0 ? null : planes.context.values,
  };
}

/** Damage in all journals that were read, even if the comparison did not need the damaged part. */
async function damageOf(store: Store, runs: readonly string[]): Promise<readonly string[]> {
  const damage: string[] = [];
  for (const run of runs) {
    if ((await store.getRun(run)) === undefined) continue;
    for (const what of await journalDamage(store, run)) damage.push(`${run}: ${what}`);
  }
  return damage;
}

/**
 * Now: the position of the newest checkpoint with the later journal entries applied. At a checkpoint: the position that
 * it holds.
 */
async function positionOf(store: Store, checkpoint: Checkpoint | undefined, isNow: boolean): Promise<Position | null> {
  if (checkpoint === undefined) return null;
  const { position } = checkpoint.planes;
  return isNow && position.stageAttempt.number > 0 ? (await loadFrom(store, checkpoint)).position : position;
}

interface ReadJournal {
  readonly history: History;
  readonly facts: Pick<RollbackFacts, "checks" | "scores">;
  readonly beginning: Beginning | null;
}

interface Beginning {
  /** `RUN@n`. */
  readonly id: string;
  readonly tree: string;
}

/**
 * Reads one journal in one pass. `to`: the last checkpoint to read, even if retention dropped it; null: the whole
 * journal.
 */
async function readJournal(
  store: Store,
  { run, to }: { readonly run: string; readonly to: number | null },
): Promise<ReadJournal> {
  const history = new HistoryReader(sha256);
  const facts = new FactsReader();
  let beginning: Beginning | null = null;
  for await (const entry of store.readJournal({ run })) {
    history.read(entry);
    facts.read(entry);
    if (entry.kind !== "checkpoint") continue;
    const { sequence, tree } = entry.body;
    if (beginning === null && typeof sequence === "number" && typeof tree === "string")
      beginning = { id: `${run}@${sequence}`, tree };
    if (to !== null && sequence === to) break;
  }
  return { history: history.history(), facts: facts.facts({ run, state: { kind: "active" }, known: [] }), beginning };
}

/**
 * Returns the ancestors of a fork, nearest first, and their steps up to the fork, oldest first. A parent that is not in
 * this store is still named.
 */
async function readLineage(
  store: Store,
  forkedFrom: CheckpointParent | null,
): Promise<{
  readonly points: readonly LineagePoint[];
  readonly steps: readonly HistoryStep[];
  readonly beginning: Beginning | null;
}> {
  const points: LineagePoint[] = [];
  let beginning: Beginning | null = null;
  let steps: readonly HistoryStep[] = [];
  for (let parent = forkedFrom; parent !== null;) {
    const point = pointOf(parent);
    if (points.some(({ run }) => run === point.run)) break;
    points.push(point);
    const summary = await store.getRun(point.run);
    if (summary === undefined) break;
    const read = await readJournal(store, { run: point.run, to: point.sequence });
    steps = [...read.history.steps, ...steps];
    beginning = read.beginning ?? beginning;
    parent = summary.forkedFrom;
  }
  return { points, steps, beginning };
}

function pointOf({ id }: CheckpointParent): LineagePoint {
  const sign = id.lastIndexOf("@");
  return { run: id.slice(0, sign), sequence: Number(id.slice(sign + 1)) };
}
