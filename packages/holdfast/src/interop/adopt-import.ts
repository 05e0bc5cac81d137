/**
 * Adopts an imported run on its first resume: chooses its workflow, gives it a worktree, and turns it into an ordinary
 * run.
 */
import { type Adapters, snapshotParams } from "@holdfast/core/adapters";
import type { Checkpoint, ExecutionConfig, InputsPlane, Planes } from "@holdfast/core/checkpoint";
import { acquireLease } from "@holdfast/core/hold-lease";
import type { StageEntered } from "@holdfast/core/journal";
import type { JsonObject } from "@holdfast/core/json";
import { nextAttempt } from "@holdfast/core/position";
import type { Answers } from "@holdfast/core/resume-plan";
import { type RunSummary, isEnded } from "@holdfast/core/run";
import { loadRun } from "@holdfast/core/run-session";
import { captureState } from "@holdfast/core/values";
import type { Workflow } from "@holdfast/core/workflow";
import type { Workspace } from "@holdfast/core/workspace";
import { IMPORT_LABEL, isWhole, sourceDocumentOf } from "@holdfast/formats/format";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { isBuiltIn, loadPlugin } from "@holdfast/workflows/built-in";
import type { ChangeLimit, StageEntry, WorkflowPlugin } from "@holdfast/workflows/plugin";
import { configOf } from "../plan-start.ts";
import { createPlace, placeNote, planPlace } from "./adoption-place.ts";

/** Agent and options for an imported run, because its document names neither. */
export interface AdoptParams {
  /** `provider:model`. */
  readonly agent: string | null;
  /** The workflow's own options. */
  readonly options: JsonObject;
  /** Limits typed with this resume, by the name of their flag. */
  readonly limits?: JsonObject;
}

/** Plans how an imported run continues. Without a workflow of its name, throws an error that lists what the user can do. */
export async function planAdoption(
  adapters: Adapters,
  run: RunSummary,
  checkpoint: Checkpoint,
  params: AdoptParams & { readonly workflow: Workflow | undefined },
): Promise<Adoption> {
  const { workflow, agent, options, limits = {} } = params;
  if (workflow !== undefined) {
    return {
      workflow,
      config: configOf({ agent, options }),
      base: null,
      branch: null,
      enters: checkpoint.planes.position,
      reopens: false,
      dropsGraph: false,
      refusal: null,
      check: async () => undefined,
      prepare: async () => ({ values: checkpoint.planes.context.values, inputs: {} }),
    };
  }
  const plugin = await loadPlugin(run.workflow);
  if (plugin === null) throw noWorkflow(run, checkpoint);
  for (const limit of Object.keys(limits)) limitOf(plugin, run, limit);
  const adoption = plugin.adopt({ adapters, run, checkpoint, agent, options, limits });
  const { mode } = checkpoint.planes.config;
  return {
    workflow: adoption.workflow,
    config: { ...configOf({ agent: adoption.agent, options: adoption.options }), mode },
    base: adoption.base,
    branch: adoption.branch ?? null,
    enters: adoption.enters ?? checkpoint.planes.position,
    reopens: adoption.reopens ?? adoption.enters !== undefined,
    dropsGraph: adoption.dropsGraph ?? false,
    refusal: adoption.refusal ?? null,
    check: async () => adoption.check?.(),
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
  /** Branch that the document names, as it says it; null: none. */
  readonly branch: string | null;
  readonly enters: StageEntry;
  /** Whether the run continues although its document has ended. */
  readonly reopens: boolean;
  /** Whether the stage plans a new graph, because the document does not say what the unfinished nodes are. */
  readonly dropsGraph: boolean;
  /** Why the document says that it cannot be resumed; null: it does not say so. */
  readonly refusal: string | null;
  /** Throws if the run cannot continue here. */
  check(): Promise<void>;
  /** Returns the workflow's state and the run's inputs, once the worktree exists. */
  prepare(
    workspace: Workspace | undefined,
  ): Promise<{ readonly values: JsonObject; readonly inputs: Partial<InputsPlane> }>;
}

/** Returns the change of a limit; throws USAGE if the workflow of the run has no such limit. */
export function limitOf(plugin: Pick<WorkflowPlugin, "limits"> | null, run: RunSummary, limit: string): ChangeLimit {
  const limits = plugin?.limits ?? {};
  const change = Object.hasOwn(limits, limit) ? limits[limit] : undefined;
  if (change !== undefined) return change;
  throw usageError(
    `Run ${run.id} follows the workflow ${run.workflow}, which has no --${limit}`,
    `Leave --${limit} out.`,
  );
}

/** What the user chose for this resume. */
interface AdoptionChoice {
  readonly from?: number;
  readonly force?: boolean;
  readonly limits?: JsonObject;
}

/**
 * The checkpoint from which an imported run is adopted: the one of sequence `from`, else the newest. null: no workflow
 * needs to adopt it. No stage was attempted at such a checkpoint, whatever it was made for: an import, a fork of it, or
 * a checkpoint that the user saved later.
 */
export async function needsAdoption(
  adapters: Adapters,
  run: RunSummary,
  { from, force = false, limits = {} }: AdoptionChoice,
): Promise<Checkpoint | null> {
  if (run.labels[IMPORT_LABEL] === undefined) return null;
  // A raised limit may reopen a run that ended at it.
  const reopens = (force && from !== undefined) || Object.keys(limits).length > 0;
  if (isEnded(run.state) && !reopens) return null;
  // If the import was killed before its first checkpoint, only the label identifies it.
  if (run.latest === null) throw unfinished(run);
  const checkpoint = await readable(adapters, { run: run.id, sequence: from ?? run.latest.sequence });
  if (checkpoint === null || !isUnadopted(checkpoint.planes)) return null;
  if (run.forkedFrom === null && !(await isWhole(adapters, run.id))) throw unfinished(run);
  return checkpoint;
}

function isUnadopted(planes: Planes): boolean {
  return planes.position.stageAttempt.number === 0 && sourceDocumentOf(planes) !== null;
}

/** null: damaged or dropped. The check before the resume reports it and finds the checkpoint before it. */
async function readable(
  { store }: Adapters,
  params: { readonly run: string; readonly sequence: number },
): Promise<Checkpoint | null> {
  try {
    return await store.getCheckpoint(params);
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
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

/** Throws NEEDS_DECISION if the document says that it cannot be resumed. */
export function checkRefusal(run: RunSummary, checkpoint: Checkpoint, { refusal }: Adoption): void {
  if (refusal === null) return;
  const id = sourceDocumentOf(checkpoint.planes)?.id ?? `${run.id}@${checkpoint.sequence}`;
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `Checkpoint ${id} says that it cannot be resumed: ${refusal}`,
    hint: `Continue despite this with \`holdfast resume ${run.id} --force\`, or from an earlier checkpoint of \`holdfast list ${run.id}\`.`,
    retry: "ask",
    data: { run: run.id, checkpoint: id },
  });
}

/** Throws USAGE if the workflow lacks the stage in which the run continues. */
export function checkStage(run: RunSummary, { enters: { stage }, workflow: { shape } }: Adoption): void {
  if (shape.stages.includes(stage)) return;
  throw usageError(
    `Imported run ${run.id} is at stage "${stage}", which workflow ${shape.name} does not have (${shape.stages.join(", ")})`,
    isBuiltIn(shape.name)
      ? "Write one of these stages into the document, and import it again."
      : "Give the workflow a stage of that name.",
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
  answers: Answers,
): Promise<void> {
  const { workflow, config } = adoption;
  checkStage(run, adoption);
  await using held = await acquireLease(adapters, run.id);
  const { newest, top, position: current } = await loadRun(adapters, run.id);
  const place = await planPlace(adapters, { run, checkpoint, answers, ...adoption });
  await adoption.check();
  const workspace = await createPlace(adapters, run, place);
  const note = placeNote(checkpoint, place);
  const { values, inputs } = await adoption.prepare(workspace);
  const { planes } = checkpoint;
  const sequence = top + 1;
  const files =
    workspace === undefined
      ? null
      : await workspace.snapshot({
          run: run.id,
          sequence,
          message: "resumed from an import",
          ...snapshotParams(adapters),
        });
  const { stage, iteration } = adoption.enters;
  const { number } = nextAttempt(current.stageAttempt);
  const entered: StageEntered = { stageAttempt: number, stage, iteration };
  // A graph of another stage is not continued.
  const graph = stage === planes.position.stage && !adoption.dropsGraph ? planes.position.graph : null;
  await adapters.store.commit({
    lease: held.lease,
    entries: [
      ...(note === null ? [] : [{ kind: "note", body: { text: note } } as const]),
      ...(isEnded(run.state) ? [{ kind: "run.reopened", body: { reason: REOPENED } } as const] : []),
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
          stage,
          iteration,
          graph,
          // The imported graph belongs to this stage attempt. A new graph would repeat nodes that are complete.
          stageAttempt: { number, steps: {}, failures: {}, ...(graph === null ? {} : { graph: true }) },
        },
        effects: newest.planes.effects,
        context: { ...planes.context, values: captureState(workflow.parseState(values)) },
        files,
        inputs: { ...planes.inputs, ...inputs },
        config,
      },
    },
  });
}

const REOPENED = "Resumed from its imported checkpoint";
