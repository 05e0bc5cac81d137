import { HoldfastError } from "../../core/error.ts";
import type { CodeChange } from "../../core/compare/compared-run.ts";
import { countLines } from "../../core/compare/count-lines.ts";
import { findDivergence } from "../../core/compare/diverge.ts";
import { findBest } from "../../core/compare/find-best.ts";
import { commonPoint } from "../../core/compare/lineage.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import type { Store } from "../../ports/store.ts";
import type { Diff, DiffParams, Workspaces } from "../../ports/workspace.ts";
import type { CodeBase, ComparedPair, ComparedSide, Comparison, DiffText } from "./comparison.ts";
import { readSide } from "./read-side.ts";
import type { Side } from "./read-side.ts";

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
