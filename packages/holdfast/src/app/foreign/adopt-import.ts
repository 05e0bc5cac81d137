import type { Checkpoint, ExecutionConfig, InputsPlane } from "../../core/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { StageEntered } from "../../core/journal.ts";
import type { JsonObject } from "../../core/json.ts";
import type { RunSummary } from "../../core/run.ts";
import type { Workflow } from "../../engine/definition.ts";
import { holdLease } from "../../engine/hold-lease.ts";
import { lookParams } from "../../engine/parts.ts";
import { findRunWorkspace } from "../../engine/run-workspace.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { Workspace } from "../../ports/workspace.ts";
import { planPlace } from "../plan-start.ts";
import { importedOf, isWhole } from "./imported.ts";

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
  if (last?.trigger !== "import") return null;
  const newest = await parts.store.getCheckpoint(last);
  if (importedOf(newest.planes) === null) return null;
  if (await isWhole(parts, run.id)) return newest;
  throw new HoldfastError({
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
  const workspace = await placeOf(parts, run, adoption.base);
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
    entries: [{ kind: "stage.entered", body: entered }],
    checkpoint: {
      sequence,
      trigger: "stage",
      planes: {
        ...planes,
        position: {
          ...planes.position,
          workflow: workflow.shape.name,
          definition: workflow.definition,
          visit: { number: 1, steps: {}, failures: {} },
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
async function placeOf(parts: WorkParts, run: RunSummary, base: string | null): Promise<Workspace | undefined> {
  const { workspaces } = parts;
  if (workspaces === null) return undefined;
  const there = await findRunWorkspace(parts, run);
  if (there !== undefined) return there;
  const place = await planPlace(parts, run.id, base);
  if (place === null) return undefined;
  return await workspaces.create({
    run: run.id,
    path: place.worktree,
    ...(place.base === null ? {} : { base: place.base.commit }),
  });
}
