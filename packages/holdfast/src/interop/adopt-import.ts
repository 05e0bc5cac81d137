/**
 * Adopts an imported run on its first resume: chooses its workflow, gives it a worktree, and turns it into an ordinary
 * run.
 */
import { type Adapters, findRunWorkspace, snapshotParams } from "@holdfast/core/adapters";
import type { Checkpoint, ExecutionConfig, InputsPlane } from "@holdfast/core/checkpoint";
import { acquireLease } from "@holdfast/core/hold-lease";
import type { StageEntered } from "@holdfast/core/journal";
import type { JsonObject } from "@holdfast/core/json";
import type { RunSummary } from "@holdfast/core/run";
import type { Workflow } from "@holdfast/core/workflow";
import type { Workspace } from "@holdfast/core/workspace";
import { IMPORT_LABEL, isWhole, sourceDocumentOf, worktreesNamedIn } from "@holdfast/formats/format";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { loadPlugin } from "@holdfast/workflows/built-in";
import { type StartPlan, configOf, planWorktree } from "../plan-start.ts";

/** Agent and options for an imported run, because its document names neither. */
export interface AdoptParams {
  /** `provider:model`. */
  readonly agent: string | null;
  /** The workflow's own options. */
  readonly options: JsonObject;
}

/** Plans how an imported run continues. Without a workflow of its name, throws an error that lists what the user can do. */
export async function planAdoption(
  adapters: Adapters,
  run: RunSummary,
  checkpoint: Checkpoint,
  params: AdoptParams & { readonly workflow: Workflow | undefined },
): Promise<Adoption> {
  const { workflow, agent, options } = params;
  if (workflow !== undefined) {
    return {
      workflow,
      config: configOf({ agent, options }),
      base: null,
      prepare: async () => ({ values: checkpoint.planes.context.values, inputs: {} }),
    };
  }
  const plugin = await loadPlugin(run.workflow);
  if (plugin === null) throw noWorkflow(run, checkpoint);
  const adoption = plugin.adopt({ adapters: adapters, run, checkpoint, agent, options });
  const { mode } = checkpoint.planes.config;
  return {
    workflow: adoption.workflow,
    config: { ...configOf({ agent: adoption.agent, options: adoption.options }), mode },
    base: adoption.base,
    prepare(workspace) {
      if (workspace === undefined)
        throw new HoldfastError({
          code: "NOT_A_REPOSITORY",
          message: `Imported run ${run.id} has files, and this is not a git repository`,
          hint: "Resume it inside a clone of its repository.",
        });
      return adoption.prepare(workspace.root);
    },
  };
}

function noWorkflow(run: RunSummary, checkpoint: Checkpoint): HoldfastError {
  const { stage } = checkpoint.planes.position;
  const format = sourceDocumentOf(checkpoint.planes)?.format ?? "its format";
  return usageError(
    stage === "none"
      ? `Run ${run.id} was imported from ${format}, which has values but no workflow stage`
      : `Run ${run.id} was imported from ${format} and is at stage "${stage}", which no built-in workflow has`,
    [
      `With your own workflow that has a stage "${stage}": \`holdfast resume ${run.id} --workflow FILE\`.`,
      `Show it with \`holdfast show ${run.id}\`, export it with \`holdfast format export ${run.id} --to ${format}\`,`,
      `or keep saving checkpoints with \`holdfast checkpoint --run ${run.id}\`.`,
    ].join(" "),
    { run: run.id, format, stage },
  );
}

export interface Adoption {
  readonly workflow: Workflow;
  readonly config: ExecutionConfig;
  /** Branch that a new worktree starts from; null: the remote's default. */
  readonly base: string | null;
  /** Returns the workflow's state and the run's inputs, once the worktree exists. */
  prepare(
    workspace: Workspace | undefined,
  ): Promise<{ readonly values: JsonObject; readonly inputs: Partial<InputsPlane> }>;
}

/** The newest checkpoint of an imported run that was never resumed; null for every other run. */
export async function needsAdoption(adapters: Adapters, run: RunSummary): Promise<Checkpoint | null> {
  if (run.state.kind !== "active") return null;
  // Only the summary is read at first: a damaged checkpoint that is not an import must not prevent a resume from the
  // one before it.
  const [last] = await adapters.store.listCheckpoints({ run: run.id, limit: 1 });
  // If the import was killed before its first checkpoint, only the label identifies it.
  if (last === undefined && run.labels[IMPORT_LABEL] !== undefined) throw unfinished(run);
  if (last?.trigger !== "import") return null;
  const newest = await adapters.store.getCheckpoint(last);
  if (sourceDocumentOf(newest.planes) === null) return null;
  if (await isWhole(adapters, run.id)) return newest;
  throw unfinished(run);
}

function unfinished(run: RunSummary): HoldfastError {
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: `The import of run ${run.id} did not finish`,
    hint: "Run the same `holdfast format import` again to complete it.",
    retry: "ask",
    data: { run: run.id },
  });
}

/** Throws USAGE if the workflow lacks the stage: a run must continue in the stage that it was in. */
export function checkStage(run: RunSummary, checkpoint: Checkpoint, workflow: Workflow): void {
  const { stage } = checkpoint.planes.position;
  const { shape } = workflow;
  if (shape.stages.includes(stage)) return;
  throw usageError(
    `Imported run ${run.id} is at stage "${stage}", which workflow ${shape.name} does not have (${shape.stages.join(", ")})`,
    "Give the workflow a stage of that name.",
    { run: run.id, stage },
  );
}

/**
 * Turns an imported run into one that a workflow executes: it keeps position and values, and gets a worktree, a
 * definition and a first stage attempt. This is one transaction. Before it the run is still an import; after it the run
 * is like any other.
 */
export async function adoptImport(
  adapters: Adapters,
  run: RunSummary,
  checkpoint: Checkpoint,
  adoption: Adoption,
): Promise<void> {
  const { workflow, config } = adoption;
  checkStage(run, checkpoint, workflow);
  await using held = await acquireLease(adapters, run.id);
  const place = await planNewWorktree(adapters, run, adoption.base);
  const workspace = await placeOf(adapters, run, place);
  const { values, inputs } = await adoption.prepare(workspace);
  const { planes } = checkpoint;
  const sequence = checkpoint.sequence + 1;
  const files =
    workspace === undefined
      ? null
      : await workspace.snapshot({
          run: run.id,
          sequence,
          message: "resumed from an import",
          ...snapshotParams(adapters),
        });
  const { stage, iteration } = planes.position;
  const entered: StageEntered = { stageAttempt: 1, stage, iteration };
  await adapters.store.commit({
    lease: held.lease,
    entries: [
      ...(place === undefined || place === null
        ? []
        : [{ kind: "note", body: { text: newWorktreeNote(checkpoint, place) } } as const]),
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
          // The imported graph belongs to this stage attempt. A new graph would repeat nodes that are complete.
          stageAttempt: {
            number: 1,
            steps: {},
            failures: {},
            ...(planes.position.graph === null ? {} : { graph: true }),
          },
        },
        context: { ...planes.context, values: workflow.parseState(values) },
        files,
        inputs: { ...planes.inputs, ...inputs },
        config,
      },
    },
  });
}

/** The worktree that the document names if the import found it here; else a new one on top of the base. */
async function placeOf(
  adapters: Adapters,
  run: RunSummary,
  place: StartPlan["place"] | undefined,
): Promise<Workspace | undefined> {
  const { workspaces } = adapters;
  if (workspaces === null) return undefined;
  const there = await findRunWorkspace(adapters, run);
  if (there !== undefined || place === undefined || place === null) return there;
  return await workspaces.create({
    run: run.id,
    path: place.worktree,
    ...(place.base === null ? {} : { base: place.base.commit }),
  });
}

/**
 * The new worktree in which an imported run will continue; undefined if its own worktree exists, or if there is no
 * repository.
 */
export async function planNewWorktree(
  adapters: Adapters,
  run: RunSummary,
  base: string | null,
): Promise<StartPlan["place"] | undefined> {
  if (adapters.workspaces === null || (await findRunWorkspace(adapters, run)) !== undefined) return undefined;
  return await planWorktree(adapters, run.id, base);
}

/** Unpushed work is not in a new worktree. The user must learn this before the resume, not from its result. */
export function newWorktreeNote(checkpoint: Checkpoint, place: NonNullable<StartPlan["place"]>): string {
  const named = worktreesNamedIn(checkpoint.planes.extensions)[0];
  const where =
    named === undefined
      ? "The imported document names no worktree"
      : `The worktree of the imported document, ${named}, does not belong to this repository`;
  const base = place.base?.branch ?? place.base?.commit ?? "HEAD";
  return `${where}. The run continues in a new one, based on ${base}: work that was never pushed is missing.`;
}
