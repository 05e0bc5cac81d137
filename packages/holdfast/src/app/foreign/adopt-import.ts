import type { Checkpoint, ExecutionConfig, InputsPlane } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { StageEntered } from "../../core/journal/journal.ts";
import type { JsonObject } from "../../core/json.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Workflow } from "../../engine/definition.ts";
import { holdLease } from "../../engine/lease/hold-lease.ts";
import { lookParams } from "../../engine/parts.ts";
import { findRunWorkspace } from "../../engine/save/run-workspace.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { Workspace } from "../../ports/workspace.ts";
import { planPlace } from "../work/plan-start.ts";
import type { StartPlan } from "../work/plan-start.ts";
import { IMPORT_LABEL, importedOf, isWhole, namedWorktrees } from "./imported.ts";

export interface Adoption {
  readonly workflow: Workflow<JsonObject>;
  readonly config: ExecutionConfig;
  /** Branch that a new worktree starts from; null: the remote's default. */
  readonly base: string | null;
  /** The state that the workflow goes on with, and what the run works on, once the worktree is there. */
  prepare(
    checkpoint: Checkpoint,
    workspace: Workspace | undefined,
  ): Promise<{ readonly values: JsonObject; readonly inputs: Partial<InputsPlane> }>;
}

/** The checkpoint of a run that was imported and that nobody has carried on yet; null for every other run. */
export async function awaitsAdoption(parts: WorkParts, run: RunSummary): Promise<Checkpoint | null> {
  if (run.state.kind !== "open") return null;
  // Not read unless it is an import's: a damaged one must not keep a run from going on with the one before it.
  const [last] = await parts.store.listCheckpoints({ run: run.id, limit: 1 });
  // Killed before its first checkpoint, its label is all that tells of the import.
  if (last === undefined && run.labels[IMPORT_LABEL] !== undefined) throw unfinished(run);
  if (last?.trigger !== "import") return null;
  const newest = await parts.store.getCheckpoint(last);
  if (importedOf(newest.planes) === null) return null;
  if (await isWhole(parts, run.id)) return newest;
  throw unfinished(run);
}

function unfinished(run: RunSummary): HoldfastError {
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: `The import of run ${run.id} did not finish`,
    hint: "Run the same `holdfast import` again: it goes on where it stood.",
    retry: "ask",
    data: { run: run.id },
  });
}

/** USAGE when the workflow has no such stage: a run never goes on at a place that it did not stand at. */
export function checkStage(run: RunSummary, checkpoint: Checkpoint, workflow: Workflow<JsonObject>): void {
  const { stage } = checkpoint.planes.position;
  const { shape } = workflow;
  if (shape.stages.includes(stage)) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `Imported run ${run.id} stands at "${stage}", which workflow ${shape.name} does not have (${shape.stages.join(", ")})`,
    hint: "Give the workflow a stage of that name.",
    data: { run: run.id, stage },
  });
}

/**
 * Makes an imported run one that a workflow carries: the position and the values as they were imported, with a worktree, a definition and a
 * first stay in its stage. One transaction, after which it is a run like any other; killed before, it is still an import.
 */
export async function adoptImport(
  parts: WorkParts,
  run: RunSummary,
  checkpoint: Checkpoint,
  adoption: Adoption,
): Promise<void> {
  const { workflow, config } = adoption;
  checkStage(run, checkpoint, workflow);
  await using held = await holdLease(parts, run.id);
  const place = await planNewPlace(parts, run, adoption.base);
  const workspace = await placeOf(parts, run, place);
  const { values, inputs } = await adoption.prepare(checkpoint, workspace);
  const { planes } = checkpoint;
  const sequence = checkpoint.sequence + 1;
  const files =
    workspace === undefined
      ? null
      : await workspace.snapshot({ run: run.id, sequence, message: "taken up from an import", ...lookParams(parts) });
  const { stage, iteration } = planes.position;
  const entered: StageEntered = { visit: 1, stage, iteration };
  await parts.store.commit({
    lease: held.lease,
    entries: [
      ...(place === undefined || place === null
        ? []
        : [{ kind: "note", body: { text: newPlaceNote(checkpoint, place) } } as const]),
      { kind: "stage.entered", body: entered },
    ],
    checkpoint: {
      sequence,
      trigger: "stage",
      planes: {
        ...planes,
        position: {
          ...planes.position,
          workflow: workflow.shape.name,
          definition: workflow.definition,
          // Its graph is this stay's: begun anew, it would do again what is complete.
          visit: { number: 1, steps: {}, failures: {}, ...(planes.position.graph === null ? {} : { graph: true }) },
        },
        context: { ...planes.context, values: workflow.parseState(values) },
        files,
        inputs: { ...planes.inputs, ...inputs },
        config,
      },
    },
  });
}

/** The one that the document named, as far as the import found it here; else a new one on top of the base. */
async function placeOf(
  parts: WorkParts,
  run: RunSummary,
  place: StartPlan["place"] | undefined,
): Promise<Workspace | undefined> {
  const { workspaces } = parts;
  if (workspaces === null) return undefined;
  const there = await findRunWorkspace(parts, run);
  if (there !== undefined || place === undefined || place === null) return there;
  return await workspaces.create({
    run: run.id,
    path: place.worktree,
    ...(place.base === null ? {} : { base: place.base.commit }),
  });
}

/** Where a run that was imported will go on, when that is not where its files are; undefined when it is, or when there are no files. */
export async function planNewPlace(
  parts: WorkParts,
  run: RunSummary,
  base: string | null,
): Promise<StartPlan["place"] | undefined> {
  if (parts.workspaces === null || (await findRunWorkspace(parts, run)) !== undefined) return undefined;
  return await planPlace(parts, run.id, base);
}

/** What is in nobody's push is not in a new worktree, and whoever resumes must not find that out from the result. */
export function newPlaceNote(checkpoint: Checkpoint, place: NonNullable<StartPlan["place"]>): string {
  const named = namedWorktrees(checkpoint.planes.extensions)[0];
  const where =
    named === undefined
      ? "The imported document names no worktree"
      : `The worktree of the imported document, ${named}, is none of this repository`;
  const base = place.base?.branch ?? place.base?.commit ?? "HEAD";
  return `${where}. The run goes on in a new one, on top of ${base}: work that was never pushed is not in it.`;
}
