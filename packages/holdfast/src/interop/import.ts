/** Imports checkpoints of other tools as runs: plans the import from decoded documents, then writes it. */
import { type CoreAdapters, WORKTREE, worktreeLabel } from "@holdfast/core/adapters";
import type { Planes } from "@holdfast/core/checkpoint";
import { acquireLease } from "@holdfast/core/hold-lease";
import type { NewEntry } from "@holdfast/core/journal";
import { type Json, type JsonObject, sha256 } from "@holdfast/core/json";
import { type Work, makeRunId } from "@holdfast/core/run";
import { canonicalJson, capture } from "@holdfast/core/values";
import {
  type ExternalCheckpoint,
  type FormatName,
  IMPORT_ENTRY,
  IMPORT_LABEL,
  type Remark,
  VERSIONS_BEFORE,
  attachSourceDocument,
  branchNamedIn,
  isWhole,
  parseBranchName,
  worktreesNamedIn,
} from "@holdfast/formats/format";
import { readSourceFiles } from "@holdfast/formats/source-files";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { realPath } from "@holdfast/platform/files";
import { layoutIn, loadPlugin, outcomeOnImport } from "@holdfast/workflows/built-in";
import type { WorkflowPlugin } from "@holdfast/workflows/plugin";
import { runIdOf } from "../context/tasks.ts";
import { type DecodedSources, decodeHistories, loopOf } from "./read-files.ts";

export interface ImportParams {
  readonly cwd: string;
  /** Files and directories as the user typed them. */
  readonly paths: readonly string[];
  readonly format?: FormatName;
  /** Id of the run; derived from the work and the content if absent. */
  readonly run?: string;
}

/** What an import would create. Nothing is created yet. */
export interface ImportPlan {
  readonly run: string;
  readonly format: FormatName;
  readonly workflow: string;
  readonly work: Work;
  readonly labels: JsonObject;
  /** The worktree of the run's files, if the document names one and it belongs to this repository. */
  readonly worktree: string | null;
  /** Oldest first; the first becomes sequence 1. */
  readonly checkpoints: readonly ImportedCheckpoint[];
  readonly remarks: readonly Remark[];
  readonly broken: readonly { readonly name: string; readonly error: HoldfastError }[];
  /**
   * "none": new. "part": an earlier import was interrupted and continues. "whole": imported before, nothing to do.
   * "own": a run of this store wrote the documents itself, so nothing is imported unless the user names another run.
   */
  readonly before: "none" | "part" | "whole" | "own";
}

export interface ImportedCheckpoint {
  readonly id: string | null;
  readonly createdAt: string | null;
  readonly planes: Planes;
}

/**
 * Reads, decodes and checks everything, so that no document can fail once writing has begun. Returns one plan per run:
 * a directory with several loops yields several plans.
 */
export async function planImport(adapters: CoreAdapters, params: ImportParams): Promise<readonly ImportPlan[]> {
  const histories = decodeHistories(
    params.paths.map((path) => readSourceFiles(path, params.cwd)),
    params.format,
  );
  if (histories.length > 1 && params.run !== undefined)
    throw usageError(
      `There are ${histories.length} loops, and each becomes one run; --run names only one`,
      "Leave it out, or import the directory of one loop.",
    );
  const plans: ImportPlan[] = [];
  for (const history of histories) plans.push(await planHistory(adapters, params, history));
  return plans;
}

async function planHistory(adapters: CoreAdapters, params: ImportParams, decoded: DecodedSources): Promise<ImportPlan> {
  const { format } = decoded;
  const last = decoded.checkpoints.at(-1);
  const plugin = await loadPlugin(layoutIn(format)?.workflow ?? "");
  const recognized = decoded.checkpoints.map((one) => plugin?.recognize?.(one, one === last) ?? null);
  const newest = recognized.at(-1) ?? null;
  const checkpoints = decoded.checkpoints.map((external, at) => {
    const planes = (newest === null ? null : recognized[at])?.planes ?? external.planes;
    const captured: unknown = capture(attachSourceDocument({ ...external, planes }, format, at + 1));
    // `capture` rejects what it cannot copy exactly, so the result has the type of its input.
    return { id: external.id, createdAt: external.createdAt, planes: captured as Planes };
  });
  const { workflow, work } =
    plugin !== null && newest !== null
      ? { workflow: plugin.name, work: newest.work }
      : (last ?? { workflow: "none", work: { kind: "none" } as const });
  const beside = newest?.planes === last?.planes ? null : (last?.beside ?? null);
  const digest = digestOf(decoded.checkpoints, format, beside);
  const found = await findImport(adapters, digest, params.run);
  const own =
    found === undefined && params.run === undefined ? await findWriterRun(adapters, plugin, decoded.checkpoints) : null;
  const worktree = await worktreeOf(adapters, checkpoints.at(-1)?.planes.extensions);
  const task = format === "context-store" ? taskOf(work, decoded.checkpoints) : null;
  const isFree = task !== null && (await adapters.store.getRun(task.run)) === undefined;
  const made = (): string =>
    isFree ? task.run : makeRunId({ work: nameable(decoded, work), random: digest.slice(0, 5) });
  const run = own ?? found?.id ?? params.run ?? made();
  return {
    run,
    format,
    workflow,
    work,
    labels: found?.labels ?? {
      [IMPORT_LABEL]: digest,
      ...(task === null || task.before === 0 ? {} : { [VERSIONS_BEFORE]: task.before }),
      ...(worktree === null ? {} : { [WORKTREE]: worktree.label }),
    },
    worktree: worktree?.path ?? null,
    checkpoints,
    remarks: decoded.remarks,
    broken: decoded.broken,
    before: own !== null ? "own" : found === undefined ? "none" : found.whole ? "whole" : "part",
  };
}

/**
 * The run in which `holdfast/context` finds the imported task, and the number of versions before the first. The library
 * counts versions without gaps: null if one is missing.
 */
function taskOf(
  work: Work,
  checkpoints: readonly ExternalCheckpoint[],
): { readonly run: string; readonly before: number } | null {
  const before = Number(checkpoints[0]?.id) - 1;
  const whole = checkpoints.every(({ id }, at) => Number(id) === before + 1 + at);
  return work.kind === "task" && whole ? { run: runIdOf(work.text), before } : null;
}

/** Loops have no issue. The loop's own id is a better name for the run than the words of its task. */
function nameable({ checkpoints }: DecodedSources, work: Work): Work {
  const loop = loopOf(checkpoints[0])?.workflow;
  return work.kind !== "issue" && loop !== undefined ? { kind: "task", text: loop } : work;
}

/** Depends on the documents alone: packing, file names and indexes do not change the run. */
function digestOf(checkpoints: readonly ExternalCheckpoint[], format: FormatName, beside: JsonObject | null): string {
  const documents = checkpoints.map(({ id, original }): Json => [id, original?.document ?? null]);
  return sha256(canonicalJson([format, ...documents, ...(beside === null ? [] : [beside])]));
}

/** The same documents belong to the same run, whatever id it was given. */
async function findImport(
  adapters: CoreAdapters,
  digest: string,
  named: string | undefined,
): Promise<{ readonly id: string; readonly labels: JsonObject; readonly whole: boolean } | undefined> {
  const runs = await adapters.store.listRuns();
  // A fork keeps the label, and documents are never added to it.
  const same = runs.filter(({ labels, forkedFrom }) => labels[IMPORT_LABEL] === digest && forkedFrom === null);
  const found = same.find(({ id }) => id === named) ?? (named === undefined ? same[0] : undefined);
  if (found === undefined) {
    if (named !== undefined && runs.some(({ id }) => id === named))
      throw new HoldfastError({
        code: "RUN_EXISTS",
        message: `A different run ${named} exists already`,
        hint: "Choose another id with --run, or leave it out.",
        data: { run: named },
      });
    return undefined;
  }
  return { id: found.id, labels: found.labels, whole: await isWhole(adapters, found.id) };
}

/** The worktree that the document names, or that has its branch checked out. Only one of this repository counts. */
async function worktreeOf(
  adapters: CoreAdapters,
  extensions: JsonObject | undefined,
): Promise<{ readonly path: string; readonly label: string } | null> {
  if (adapters.workspaces === null || extensions === undefined) return null;
  const named = worktreesNamedIn(extensions);
  const trees = await adapters.workspaces.list();
  for (const path of named) {
    const tree = trees.find((one) => one.exists && one.path === realPath(path));
    // A worktree that Holdfast made for another run belongs to that run.
    if (tree !== undefined && tree.run === null) return { path: tree.path, label: worktreeLabel(tree.path, trees) };
  }
  const branch = parseBranchName(branchNamedIn(extensions) ?? "");
  // The default branch is not a run's own. Which one it is, is known at the adoption, which checks it again.
  if (branch === null || branch === "main" || branch === "master") return null;
  const tree = trees.find((one) => one.exists && one.run === null && one.branch === `refs/heads/${branch}`);
  return tree === undefined ? null : { path: tree.path, label: worktreeLabel(tree.path, trees) };
}

export interface ImportReport {
  readonly run: string;
  readonly checkpoints: number;
  /** false: everything existed already. */
  readonly changed: boolean;
}

/** Idempotent. After a kill at any point, another call with the same documents continues the import. */
export async function applyImport(adapters: CoreAdapters, plan: ImportPlan): Promise<ImportReport> {
  const { run, workflow, work, labels, checkpoints } = plan;
  const unchanged = { run, checkpoints: checkpoints.length, changed: false };
  if (plan.before === "whole" || plan.before === "own") return unchanged;
  const { store } = adapters;
  await store.createRun({ id: run, workflow, work, labels });
  await using held = await acquireLease(adapters, run);
  const written = (await store.getRun(run))?.latest?.sequence ?? 0;
  // Another process finished the import while this one waited for the lease.
  if (written >= checkpoints.length) return unchanged;
  for (const [at, { planes, id }] of checkpoints.entries()) {
    if (at < written) continue;
    const last = at === checkpoints.length - 1;
    await store.commit({
      lease: held.lease,
      entries: last ? lastEntries(plan, planes) : [],
      checkpoint: { sequence: at + 1, trigger: "import", planes, ...nameOf(id) },
    });
  }
  return { ...unchanged, changed: true };
}

/** Written in one transaction with the last checkpoint: a run whose document has ended is ended here too. */
function lastEntries(plan: ImportPlan, { position }: Planes): readonly NewEntry[] {
  const { format, checkpoints } = plan;
  const imported: NewEntry = { kind: IMPORT_ENTRY, body: { format, checkpoints: checkpoints.length } };
  const outcome = outcomeOnImport(plan.workflow, position.stage);
  if (outcome === null) return [imported];
  const reason = position.reason ?? "It had failed before it was imported";
  const body = outcome === "done" ? { outcome } : { outcome, reason };
  return [imported, { kind: "run.ended", body }];
}

/** Used as a label only. The document keeps an id that the store would reject. */
function nameOf(id: string | null): { readonly name?: string } {
  return id !== null && id.length <= 200 && id.isWellFormed() ? { name: id } : {};
}

/**
 * The run of this store whose mirror wrote the newest document, if it has all of the documents: mirrors of this store
 * wrote them, or the run was imported from them. null: the store does not have the run, or there is something to import.
 */
async function findWriterRun(
  adapters: CoreAdapters,
  plugin: WorkflowPlugin | null,
  checkpoints: readonly ExternalCheckpoint[],
): Promise<string | null> {
  const runs = checkpoints.map((checkpoint) => plugin?.writtenBy?.(checkpoint, adapters.store.id) ?? null);
  const newest = runs.at(-1) ?? null;
  if (newest === null || (await adapters.store.getRun(newest)) === undefined) return null;
  const imported = await adapters.store.listCheckpoints({ run: newest, trigger: "import", limit: checkpoints.length });
  const known = new Set(imported.map(({ name }) => name));
  return checkpoints.every(({ id }, at) => runs[at] !== null || (id !== null && known.has(id))) ? newest : null;
}
