import { newBudget } from "@holdfast/core/budget";
import type { Checkpoint, CheckpointParent } from "@holdfast/core/checkpoint";
import { FactsReader } from "@holdfast/core/find-rollback";
import { reliedOn } from "@holdfast/core/findings";
import { sha256 } from "@holdfast/core/json";
import { loadFrom } from "@holdfast/core/load-run";
import type { Position } from "@holdfast/core/position";
import type { RollbackFacts } from "@holdfast/core/rollback";
import type { RunHandle } from "@holdfast/core/run-handle";
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
import { type Condition, conditionOf, pullRequestOf } from "./run-status.ts";

export interface CompareWork {
  readonly store: Store;
  readonly workspaces: Workspaces | null;
  /** `sequence`: as it stood at this checkpoint; null: as it stands. */
  readonly sides: readonly { readonly handle: RunHandle; readonly sequence: number | null }[];
  /** Only these files are compared; all when absent. */
  readonly paths?: readonly string[];
  /** Also the text, as git prints it. */
  readonly text?: "patch" | "stat";
}

/** Looks only. */
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
      pairs.push({ a: a.run.id, b: b.run.id, code, diverged: divergenceOf(a, b) });
    }
  return { runs, pairs, best: findBest(runs), diffs: await readDiffs(work, runs) };
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

/** One for all where there is one: only then can the counts be laid side by side. */
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

/** The journal keeps the tree also of a checkpoint that retention has dropped. */
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

/** Runs laid side by side. In the order in which they were named; what is told of each and of each pair does not depend on it. */
export interface Comparison {
  readonly runs: readonly ComparedSide[];
  /** Every two of them, once. */
  readonly pairs: readonly ComparedPair[];
  readonly best: readonly Best[];
  /** Patches or counts as git prints them, where asked for: of the two, or of each against its base when there are more. */
  readonly diffs: readonly DiffText[];
}

export interface ComparedSide extends ComparedRun {
  readonly base: CodeBase | null;
  /** Against the base. */
  readonly code: CodeChange | null;
}

/**
 * What a run's code is measured against: the checkpoint that all of them come from, else the commit that all began from, else the files
 * that all began with, else each its own beginning.
 */
interface CodeBase {
  readonly kind: "fork_point" | "base_commit" | "same_beginning" | "own_beginning";
  /** `RUN@n`, or a commit. */
  readonly name: string;
  /** Tree or commit. */
  readonly tree: string;
}

export interface ComparedPair {
  readonly a: string;
  readonly b: string;
  /** From the first to the second. */
  readonly code: CodeChange | null;
  readonly diverged: Divergence;
}

interface DiffText {
  readonly from: string;
  readonly to: string;
  readonly text: string;
}

interface Side {
  readonly run: ComparedRun;
  /** All that was done on the way, by the runs that it was forked from too. */
  readonly steps: readonly HistoryStep[];
  /** The commit that its work began from; null where it has none. */
  readonly baseCommit: string | null;
  /** The first checkpoint that holds files, of the run that it all comes from. */
  readonly beginning: Beginning | null;
}

/** Takes no lease and writes nothing, so the run may be at work meanwhile. */
async function readSide(
  store: Store,
  { handle, sequence: at }: { readonly handle: RunHandle; readonly sequence: number | null },
): Promise<Side> {
  const checkpoint = at === null ? (await handle.newestWhole()).checkpoint : await handle.get(at);
  const [summary, holder] = await Promise.all([handle.summary(), handle.holder()]);
  const own = await readJournal(store, { run: handle.id, to: at });
  const before = await readLineage(store, summary.forkedFrom);
  const position = await positionOf(store, checkpoint, at === null);
  const planes = checkpoint?.planes;
  const worked = (position?.visit.number ?? 0) > 0;
  const condition = conditionOf({ run: summary, holder, question: null, worked });
  const { scores, metrics } = readMeasures(planes?.context.values ?? {});
  const sequence = checkpoint?.sequence ?? null;
  return {
    run: {
      id: checkpoint?.id ?? handle.id,
      run: handle.id,
      sequence,
      workflow: summary.workflow,
      work: summary.work,
      condition: { kind: condition.kind, reason: reasonOf(condition) },
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
      pullRequest: pullRequestOf(planes?.context.values["pullRequest"]),
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
  };
}

/** Of all journals that were read for it, whether or not what is damaged was needed. */
async function damageOf(store: Store, runs: readonly string[]): Promise<readonly string[]> {
  const damage: string[] = [];
  for (const run of runs) {
    if ((await store.getRun(run)) === undefined) continue;
    for (const what of await journalDamage(store, run)) damage.push(`${run}: ${what}`);
  }
  return damage;
}

/** As it stands, with what the journal says since the checkpoint; as it stood, what the checkpoint says. */
async function positionOf(store: Store, checkpoint: Checkpoint | undefined, isNow: boolean): Promise<Position | null> {
  if (checkpoint === undefined) return null;
  const { position } = checkpoint.planes;
  return isNow && position.visit.number > 0 ? (await loadFrom(store, checkpoint)).position : position;
}

function reasonOf(condition: Condition): string | null {
  switch (condition.kind) {
    case "parked":
      return `${condition.on}: ${condition.reason}`;
    case "fatal":
      return condition.reason;
    case "running":
    case "held":
    case "crashed":
    case "stopped":
    case "manual":
    case "done":
      return null;
  }
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

/** One journal in one pass. `to`: the checkpoint that it is read up to, whether it is kept or not; null: all of it. */
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
  return { history: history.history(), facts: facts.facts({ run, state: { kind: "open" }, known: [] }), beginning };
}

/** What a fork comes from, nearest first, and what was done there up to the fork, oldest first. A parent that is not in this store is named all the same. */
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
