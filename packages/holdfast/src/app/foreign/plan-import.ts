import { realpathSync } from "node:fs";
import type { Json, JsonObject } from "../../core/json.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Planes } from "../../core/checkpoint/checkpoint.ts";
import type { Work } from "../../core/run/run.ts";
import { makeRunId } from "../../core/run/run-id.ts";
import { canonicalJson, capture } from "../../core/values/index.ts";
import type { Parts } from "../../engine/parts.ts";
import { WORKTREE, labelOf } from "../../engine/save/worktree-label.ts";
import type { ForeignCheckpoint, FormatName, Remark } from "../../formats/format.ts";
import { sha256 } from "../../system/hash.ts";
import { decodeHistories, loopOf } from "./decode-sources.ts";
import type { DecodedSources } from "./decode-sources.ts";
import { ownLoop } from "./own-loop.ts";
import { ownWriter } from "./own-writer.ts";
import { IMPORT_LABEL, isWhole, namedWorktrees, withImported } from "./imported.ts";
import { readSource } from "./read-source.ts";

export interface ImportParams {
  readonly cwd: string;
  /** Files and directories, as typed. */
  readonly paths: readonly string[];
  readonly format?: FormatName;
  /** Id of the run; made from the work and the content when absent. */
  readonly run?: string;
}

/** All that an import would make; nothing is made yet. */
export interface ImportPlan {
  readonly run: string;
  readonly format: FormatName;
  readonly workflow: string;
  readonly work: Work;
  readonly labels: JsonObject;
  /** Where its files are, when the document says so and that is a worktree of this repository. */
  readonly worktree: string | null;
  /** Oldest first; the first becomes sequence 1. */
  readonly checkpoints: readonly ImportedCheckpoint[];
  readonly remarks: readonly Remark[];
  readonly broken: readonly { readonly name: string; readonly error: HoldfastError }[];
  /**
   * "none": new. "part": a process died in the middle; it goes on. "whole": imported before, nothing to do. "own": a run of this store wrote the
   * documents itself, and nothing is made of them unless somebody names another run for it.
   */
  readonly before: "none" | "part" | "whole" | "own";
}

export interface ImportedCheckpoint {
  readonly id: string | null;
  readonly createdAt: string | null;
  readonly planes: Planes;
}

/**
 * Everything is read, decoded and checked here, so that nothing can go wrong with a document once writing has begun. One plan a run: a
 * place where several loops lie makes as many.
 */
export async function planImport(parts: Parts, params: ImportParams): Promise<readonly ImportPlan[]> {
  const histories = decodeHistories(
    params.paths.map((path) => readSource(path, params.cwd)),
    params.format,
  );
  if (histories.length > 1 && params.run !== undefined)
    throw new HoldfastError({
      code: "USAGE",
      message: `There are ${histories.length} loops, each of which becomes a run, and --run names one`,
      hint: "Leave it out, or import the directory of one loop.",
    });
  const plans: ImportPlan[] = [];
  for (const history of histories) plans.push(await planHistory(parts, params, history));
  return plans;
}

async function planHistory(parts: Parts, params: ImportParams, decoded: DecodedSources): Promise<ImportPlan> {
  const { format } = decoded;
  const checkpoints = decoded.checkpoints.map((foreign) => {
    const planes: unknown = capture(withImported(foreign, format));
    // A capture has the shape of what it was taken from: it refuses all that it could not copy as it is.
    return { id: foreign.id, createdAt: foreign.createdAt, planes: planes as Planes };
  });
  const last = decoded.checkpoints.at(-1);
  const loop = last === undefined ? null : ownLoop(last);
  const { workflow, work } = loop ?? last ?? { workflow: "none", work: { kind: "none" } as const };
  const digest = digestOf(decoded.checkpoints, format);
  const found = await findImport(parts, digest, params.run);
  const own = found === undefined && params.run === undefined ? await ownWriter(parts, decoded.checkpoints) : null;
  const worktree = await worktreeOf(parts, checkpoints.at(-1)?.planes.extensions);
  const made = (): string => makeRunId({ work: nameable(decoded, work), random: digest.slice(0, 5) });
  const run = own ?? found?.id ?? params.run ?? made();
  return {
    run,
    format,
    workflow,
    work,
    labels: found?.labels ?? {
      [IMPORT_LABEL]: digest,
      ...(worktree === null ? {} : { [WORKTREE]: worktree.label }),
    },
    worktree: worktree?.path ?? null,
    checkpoints,
    remarks: decoded.remarks,
    broken: decoded.broken,
    before: own !== null ? "own" : found === undefined ? "none" : found.whole ? "whole" : "part",
  };
}

/** Loops are of no issue; their own id tells a person which one it is, better than the words of a task. */
function nameable({ checkpoints }: DecodedSources, work: Work): Work {
  const loop = loopOf(checkpoints[0])?.workflow;
  return work.kind !== "issue" && loop !== undefined ? { kind: "task", text: loop } : work;
}

/** By the documents alone: how they were packed, named and indexed makes no other run of them. */
function digestOf(checkpoints: readonly ForeignCheckpoint[], format: FormatName): string {
  const documents = checkpoints.map(({ id, original }): Json => [id, original?.document ?? null]);
  return sha256(canonicalJson([format, ...documents]));
}

/** The same documents again are the same run, under whatever id it was given. */
async function findImport(
  parts: Parts,
  digest: string,
  named: string | undefined,
): Promise<{ readonly id: string; readonly labels: JsonObject; readonly whole: boolean } | undefined> {
  const runs = await parts.store.listRuns();
  const same = runs.filter(({ labels }) => labels[IMPORT_LABEL] === digest);
  const found = same.find(({ id }) => id === named) ?? (named === undefined ? same[0] : undefined);
  if (found === undefined) {
    if (named !== undefined && runs.some(({ id }) => id === named)) throw taken(named);
    return undefined;
  }
  return { id: found.id, labels: found.labels, whole: await isWhole(parts, found.id) };
}

/** Only a worktree of this very repository counts. */
async function worktreeOf(
  parts: Parts,
  extensions: JsonObject | undefined,
): Promise<{ readonly path: string; readonly label: string } | null> {
  if (parts.workspaces === null || extensions === undefined) return null;
  const named = namedWorktrees(extensions);
  const trees = await parts.workspaces.list();
  for (const path of named) {
    const tree = trees.find((one) => one.exists && one.path === realPath(path));
    // One that was made for a run of ours belongs to that run.
    if (tree !== undefined && tree.run === null) return { path: tree.path, label: labelOf(tree.path, trees) };
  }
  return null;
}

function realPath(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}

function taken(run: string): HoldfastError {
  return new HoldfastError({
    code: "RUN_EXISTS",
    message: `There is a run ${run} already, and it is another one`,
    hint: "Choose another id with --run, or leave it out.",
    data: { run },
  });
}
