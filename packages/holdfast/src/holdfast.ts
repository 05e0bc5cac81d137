/** The Holdfast class, the facade that the CLI and library users call, with its run creation and diff. */
import { dirname } from "node:path";
import {
  type CoreAdapters,
  type HalfRemovedRun,
  WORKTREE,
  rejectRolledBackStore,
  snapshotParams,
  worktreeLabel,
} from "@holdfast/core/adapters";
import type { AgentLogs } from "@holdfast/core/agent-log";
import type { Checkpoint, CheckpointSummary, FilesPlane } from "@holdfast/core/checkpoint";
import { hasDiskSpace } from "@holdfast/core/execute";
import {
  type RemovalScope,
  type RemovedWorktree,
  type WorktreeRemoval,
  applyWorktreeRemovals,
  planWorktreeRemovals,
} from "@holdfast/core/remove-worktrees";
import { type GcPlan, type GcReport, applyGc, gcIsDue, planGc } from "@holdfast/core/gc";
import type { Graph } from "@holdfast/core/graph";
import type { Json, JsonObject, JsonSafeObject } from "@holdfast/core/json";
import { createMasking, maskValue } from "@holdfast/core/mask";
import { checkArgument, checkOneOf, checkOptions } from "@holdfast/core/options";
import { type RunRemoval, applyRunRemoval, planRunRemoval } from "@holdfast/core/remove-run";
import type { RetentionPolicy } from "@holdfast/core/retention";
import { RUN_ID, type Run, type RunSummary, type Work, isEnded, makeRunId, parseAddress } from "@holdfast/core/run";
import { RunHandle, resolveCheckpoint, resolveRun, runById, runsHere } from "@holdfast/core/run-handle";
import { type RunWithStatus, readRunTombstone, readStatuses } from "@holdfast/core/run-statuses";
import { type StateSchema, checkSchema } from "@holdfast/core/state-schema";
import { isHeld } from "@holdfast/core/status";
import type { RunQuery, Store, VerifyEvent } from "@holdfast/core/store";
import { type SizeReport, reportSize } from "@holdfast/core/store-size";
import { diffJson, type JsonChange } from "@holdfast/core/diff-json";
import { type UndoPreview, type UndoReport, previewUndo, undoEffect } from "@holdfast/core/undo";
import { type Repaired, repair, verifyRun } from "@holdfast/core/verify";
import type { CurrentFiles, Diff, DiffParams, Workspace, Workspaces } from "@holdfast/core/workspace";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { DEFAULT_WORKFLOW, isFinishing } from "@holdfast/workflows/built-in";
import { type CompareWork, type Comparison, compareRuns } from "./compare-runs.ts";
import { type FindTarget, type FoundRuns, findRuns } from "./find-run.ts";
import type { GraphPicture } from "./graph-view.ts";
import type { ImportExport } from "./interop/import-export.ts";
import { type StartParams, checkStart } from "./plan-start.ts";
import { type ResumeParams, checkResumeParams } from "./resume-request.ts";
import type { RunFiles } from "./run-files.ts";
import type { RunService } from "./run-service.ts";
import { continuerOf } from "./continuation.ts";
import { type RunDetails, readGraph, readStatus } from "./run-status.ts";
import type { RunReport } from "./start-run.ts";

export interface RunOverview {
  /** When reading began. */
  readonly at: string;
  readonly runs: readonly RunWithStatus[];
  /** Slots of loops. `limit`: how many may run at once; null: no limit. */
  readonly slots: { readonly limit: number | null; readonly used: number };
}

function rank({ status }: RunWithStatus): number {
  if (status.kind === "running") return 0;
  return status.kind === "queued" ? (status.position ?? 1) : Number.MAX_SAFE_INTEGER;
}

/** The entry point for front ends and library users. */
export class Holdfast implements AsyncDisposable {
  readonly store: Store;
  /** null outside a git repository. */
  readonly workspaces: Workspaces | null;
  /** Runs that a workflow executes: start, resume, answer. */
  readonly work: RunService;
  /** Checkpoints of other tools: import, export, mirror. */
  readonly formats: ImportExport;
  /** The files of runs on a git remote; null: no remote is configured. */
  readonly files: RunFiles | null;
  readonly #cwd: string;
  readonly #adapters: CoreAdapters;

  constructor(params: {
    readonly cwd: string;
    readonly adapters: CoreAdapters;
    readonly formats: ImportExport;
    readonly work: RunService;
    readonly files: RunFiles | null;
  }) {
    const { cwd, adapters } = params;
    this.work = params.work;
    this.formats = params.formats;
    this.files = params.files;
    this.store = adapters.store;
    this.workspaces = adapters.workspaces;
    this.#cwd = cwd;
    this.#adapters = adapters;
  }

  /** `V` is the type of the values that the run saves: inferred from a schema in `values`, or given (`createRun<State>()`). */
  async createRun<V extends JsonSafeObject<V> = JsonObject>(params: CreateRunParams<V> = {}): Promise<RunHandle<V>> {
    const run = await createRun(this.#adapters, this.#cwd, params);
    return new RunHandle<V>(this.#adapters, run, params.values);
  }

  async run<V extends JsonSafeObject<V> = JsonObject>(
    id: string,
    options: Pick<CreateRunParams<V>, "values"> = {},
  ): Promise<RunHandle<V>> {
    checkOptions("run", options, { values: "any" });
    checkSchema("run", "values", options.values);
    return new RunHandle<V>(this.#adapters, await runById(this.#adapters, id), options.values);
  }

  /**
   * Starts a run and executes it until it is done, failed, waiting or interrupted. A run is identified by its workflow
   * and id, or else by its workflow and issue or task text. If that run is unfinished, it continues, or throws
   * LEASE_HELD while another process works on it. If it has ended, its outcome is returned with `earlier: true` and
   * nothing is done, unless `again` begins a new run.
   */
  async start(params: StartParams): Promise<RunReport> {
    checkStart(params);
    // Mask a task as the store does: runs are matched by the stored text.
    const work = params.work.kind === "task" ? maskValue(params.work, createMasking().mask) : params.work;
    const { workflow = DEFAULT_WORKFLOW, id } = params;
    const name = typeof workflow === "string" ? workflow : workflow.shape.name;
    using starting = this.#isPreparedAtOnce(params)
      ? null
      : this.work.announce({ workflow: name, work, ...(id === undefined ? {} : { run: id }) });
    return await this.work.start(await this.work.plan({ ...params, work }), { ...params, starting });
  }

  /** Planning then only reads the store: it asks no forge, fetches nothing and probes no agent. */
  #isPreparedAtOnce({ workflow, work, workspace, agent }: StartParams): boolean {
    const isFileless = workspace === "none" || this.#adapters.workspaces === null;
    return isFileless && typeof workflow === "object" && work.kind !== "issue" && (agent ?? null) === null;
  }

  /** Checks what changed in the meantime, then continues the run. If a change needs a decision, the outcome is "ask". */
  async resume(params: ResumeParams): Promise<RunReport> {
    checkResumeParams(params);
    return await this.work.resume(params);
  }

  /** The status of the run, computed from its journal and its lease. */
  async status(address?: string): Promise<RunDetails> {
    const { id } = await this.resolveRun(address);
    const handle = await this.run(id);
    const found = await this.runWithStatus(id);
    if (this.work.loops.workflows.includes(found.run.workflow) && !isHeld(found.status))
      await this.formats.repairLayouts(id);
    const unpushed = (await this.files?.unpushed(id)) ?? null;
    const root = this.workspaces === null ? null : dirname(this.workspaces.commonDir);
    const continues = continuerOf({ store: this.store.location, root, env: process.env }, found);
    return { ...(await readStatus(this.store, handle, found, this.#adapters.clock.now())), unpushed, continues };
  }

  /** A run with its status; cheaper than `status`, which reads the journal. */
  async runWithStatus(id: string): Promise<RunWithStatus> {
    const [found] = await readStatuses(this.#adapters, async () => [await (await this.run(id)).summary()], isFinishing);
    if (found === undefined) throw new TypeError("one run has one status");
    return found;
  }

  /** The task graph of a run as it is now, and the view of it that `status` shows; null if the run has none. */
  async graph(address?: string): Promise<{ readonly graph: Graph; readonly picture: GraphPicture } | null> {
    const { id } = await this.resolveRun(address);
    const handle = await this.run(id);
    const { status } = await this.runWithStatus(id);
    return await readGraph(handle, { now: this.#adapters.clock.now(), status });
  }

  /** What the agents of runs printed, one log per call. */
  get logs(): AgentLogs {
    return this.#adapters.logs;
  }

  /** Newest first. */
  async listRuns(query: RunQuery = {}): Promise<readonly RunSummary[]> {
    checkOptions("listRuns", query, { limit: "count", workflow: "text" });
    return await this.store.listRuns(query);
  }

  /** Runs with their status, newest first. */
  async statuses(query: RunQuery = {}): Promise<readonly RunWithStatus[]> {
    return await readStatuses(this.#adapters, () => this.listRuns(query), isFinishing);
  }

  /** Runs that have not ended: running ones, then queued ones in their order, then the others; newest first. */
  async overview(): Promise<RunOverview> {
    const at = new Date(this.#adapters.clock.now()).toISOString();
    const runs = await this.unfinished();
    await this.formats.repairLayouts(null);
    const { max: limit, workflows } = this.work.loops;
    const used = runs.filter(({ run, status }) => workflows.includes(run.workflow) && status.kind === "running").length;
    return { at, runs: runs.toSorted((a, b) => rank(a) - rank(b)), slots: { limit, used } };
  }

  /** Runs that have not ended, newest first. */
  async unfinished(): Promise<readonly RunWithStatus[]> {
    const read = async (): Promise<readonly RunSummary[]> =>
      (await this.store.listRuns()).filter(({ state }) => !isEnded(state));
    return await readStatuses(this.#adapters, read, isFinishing);
  }

  /** `RUN`, `RUN@7`, `RUN@latest`, `RUN@tag`; `@7` and `@tag` mean the run of this worktree, else the newest run. */
  async resolve(address: string): Promise<CheckpointSummary> {
    return await resolveCheckpoint(this.#adapters, address, await this.#runHere());
  }

  async resolveRun(address?: string): Promise<RunSummary> {
    return await resolveRun(this.#adapters, address, await this.#runHere());
  }

  /** The run that captures the current worktree; undefined if there is none yet. */
  async runHere(): Promise<RunHandle | undefined> {
    const here = await this.#runHere();
    const run = here === undefined ? undefined : runsHere(await this.store.listRuns(), here)[0];
    return run === undefined ? undefined : new RunHandle(this.#adapters, run);
  }

  /** What the first checkpoint of a run would capture here; null outside a worktree. */
  async filesHere(): Promise<CurrentFiles | null> {
    const here = await worktreeHere(this.workspaces, this.#cwd);
    return (await here?.currentFiles(snapshotParams(this.#adapters))) ?? null;
  }

  /** The runs that made a commit or a pull request. RUN_NOT_FOUND when the repository has no such commit. */
  async find(target: FindTarget): Promise<FoundRuns> {
    checkArgument("find", "its target", target, "object");
    checkOneOf("find", "the kind of its target", target.kind, ["commit", "pull_request"]);
    return await findRuns(this.#adapters, target);
  }

  /**
   * The effects of a run, oldest first, and whether each can be undone now. Asks forge and remote, and changes nothing.
   * `after`: only effects after this checkpoint, newest first, each as if those before it in the list were undone.
   */
  async effects(
    address?: string,
    options: { readonly after?: CheckpointSummary } = {},
  ): Promise<readonly UndoPreview[]> {
    const { id } = await this.resolveRun(address);
    return await previewUndo(await this.work.adapters(), {
      run: id,
      ...(options.after === undefined ? {} : { after: options.after.entry }),
    });
  }

  /**
   * Undoes one effect of a run: closes its pull request, deletes its pushed branch, removes its label or comment. The
   * effect is named by its key. UNDO_REFUSED: it cannot be undone, and nothing was changed. LEASE_HELD: a process
   * executes the run. After a kill, the same call completes the undo.
   */
  async undo(address: string, effect: string): Promise<UndoReport> {
    checkArgument("undo", "the key of the effect", effect, "text");
    const { id } = await this.resolveRun(address);
    return await undoEffect(await this.work.adapters(), { run: id, key: effect });
  }

  /** Compares two checkpoints, or (`to` absent) a checkpoint with its run's worktree as it is now. */
  async diff(
    params: { readonly from: string; readonly to?: string } & Pick<DiffParams, "paths" | "format" | "color">,
  ): Promise<HoldfastDiff> {
    checkOptions("diff", params, {
      from: "any",
      to: "any",
      paths: "texts",
      format: ["patch", "stat", "names", "counts"],
      color: "any",
    });
    const { from, to, ...shown } = params;
    const before = await this.store.getCheckpoint(await this.resolve(from));
    const other =
      to === undefined
        ? ({ kind: "files", files: await this.currentFiles(before.run) } as const)
        : ({ kind: "checkpoint", checkpoint: await this.store.getCheckpoint(await this.resolve(to)) } as const);
    return await diffCheckpoints({ workspaces: this.workspaces, from: before, to: other, shown });
  }

  /** Compares two or more runs as they are now, or as they were at the named checkpoints. Acquires no lease. */
  async compare(addresses: readonly string[], options: Pick<CompareWork, "paths" | "text"> = {}): Promise<Comparison> {
    checkArgument("compare", "its addresses", addresses, "texts");
    checkOptions("compare", options, { paths: "texts", text: ["patch", "stat"] });
    const sides: CompareWork["sides"][number][] = [];
    for (const address of addresses) {
      // A run without any checkpoint can still be compared.
      if (parseAddress(address).at.kind === "none") {
        const { id } = await this.resolveRun(address);
        const { status } = await this.runWithStatus(id);
        sides.push({ handle: await this.run(id), sequence: null, status });
      } else {
        const { run, sequence } = await this.resolve(address);
        const { status } = await this.runWithStatus(run);
        sides.push({ handle: await this.run(run), sequence, status });
      }
    }
    return await compareRuns({ ...options, store: this.store, workspaces: this.workspaces, sides });
  }

  async planGc(params: { readonly policy?: RetentionPolicy; readonly run?: string } = {}): Promise<GcPlan> {
    checkOptions("planGc", params, { policy: "object", run: "text" });
    if (params.policy !== undefined) checkArgument("planGc", "policy.defaultKeep", params.policy.defaultKeep, "object");
    return await planGc(this.#adapters, params);
  }

  async applyGc(plan: GcPlan): Promise<GcReport> {
    checkArgument("applyGc", "its plan", plan, "object");
    checkArgument("applyGc", "the plans of its plan", plan.plans, "list");
    return await applyGc(this.#adapters, plan);
  }

  /** Runs whose removal was interrupted. No other method lists them. `planRemoval` and `removeRun` complete the removal. */
  async halfRemovedRuns(): Promise<readonly HalfRemovedRun[]> {
    return (await this.#adapters.halfRemoved?.()) ?? [];
  }

  /** The worktrees of runs that have ended, and why some of them stay. `gc` removes the others. Changes nothing. */
  async planWorktreeRemovals(scope: RemovalScope): Promise<readonly WorktreeRemoval[]> {
    checkOptions("planWorktreeRemovals", scope, { run: "text", force: "flag", here: "text" });
    return await planWorktreeRemovals(this.#adapters, scope);
  }

  /** Saves the files of these worktrees as checkpoints, where none has them, and removes the worktrees. */
  async removeWorktrees(plan: readonly WorktreeRemoval[], scope: RemovalScope): Promise<readonly RemovedWorktree[]> {
    checkArgument("removeWorktrees", "its plan", plan, "list");
    checkOptions("removeWorktrees", scope, { run: "text", force: "flag", here: "text" });
    return await applyWorktreeRemovals(this.#adapters, plan, scope);
  }

  /**
   * What `removeRun` would remove, and why it would refuse. Also for a run whose removal was interrupted. Changes
   * nothing.
   */
  async planRemoval(address: string): Promise<RunRemoval> {
    checkArgument("planRemoval", "its address", address, "text");
    const removed = RUN_ID.test(address) ? await readRunTombstone(this.store, address) : undefined;
    const begun = removed === undefined ? undefined : await this.store.getRun(address);
    const run = begun ?? (await this.resolveRun(address));
    const { forge } = await this.work.adapters();
    return await planRunRemoval(this.#adapters, { run, forge });
  }

  /**
   * Removes a run with its worktrees, branch, refs, checkpoints, logs and files for other tools. NEEDS_DECISION if work would be lost,
   * unless forced, or if another run was forked from it. CONFLICT if it has work that the plan does not name. Its files are also removed
   * from the remote of `filesRemote`; `filesStay` says why they are not.
   */
  async removeRun(
    removal: RunRemoval,
    options: { readonly by: string; readonly force?: boolean },
  ): Promise<{ readonly freedBytes: number; readonly filesStay: string | null }> {
    checkArgument("removeRun", "its plan", removal, "object");
    checkOptions("removeRun", options, { by: "text", force: "flag" });
    checkArgument("removeRun", "the reasons of its plan", removal.reasons, "list");
    const { forge } = await this.work.adapters();
    const { freedBytes } = await applyRunRemoval(this.#adapters, removal, {
      by: options.by,
      force: options.force === true,
      forge,
      removeFiles: (run) => this.formats.removeLayoutFiles(run),
    });
    return { freedBytes, filesStay: (await this.files?.remove(removal.run)) ?? null };
  }

  /** Runs at most once a day, according to the store's own record; null if it was not due. */
  async autoGc(): Promise<GcReport | null> {
    return (await gcIsDue(this.#adapters)) ? await this.applyGc(await this.planGc()) : null;
  }

  /** Whether there is enough space to continue this run, which waits for space. */
  async hasRoom(run: string): Promise<boolean> {
    return await hasDiskSpace(this.#adapters, run);
  }

  /** The size of the store and its largest runs; null below 80 % of `maxStoreBytes`, or without a limit. */
  async sizeReport(): Promise<SizeReport | null> {
    return await reportSize(this.#adapters);
  }

  /** Checks the store and every tree that a checkpoint names. Changes nothing. */
  verify(params: { readonly run?: string; readonly signal?: AbortSignal } = {}): AsyncIterable<VerifyEvent> {
    checkOptions("verify", params, { run: "text", signal: "signal" });
    return verifyRun(this.#adapters, params);
  }

  /** Quarantines damaged checkpoints so that no resume uses them, and pins checkpoints whose git ref is gone. */
  async repair(events: readonly VerifyEvent[]): Promise<readonly Repaired[]> {
    checkArgument("repair", "its events", events, "list");
    return await repair(this.#adapters, events);
  }

  async close(): Promise<void> {
    await this.store.close();
    await this.workspaces?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The files of the run's worktree as they are now; null: it has no worktree. */
  async currentFiles(run: string): Promise<CurrentFiles | null> {
    const workspace = await (await this.run(run)).workspace();
    return workspace === undefined ? null : await workspace.currentFiles(snapshotParams(this.#adapters));
  }

  async #runHere(): Promise<string | undefined> {
    return await runHere(this.workspaces, this.#cwd);
  }
}

/** Creates a run that its caller saves by hand, without a workflow. */
async function createRun(adapters: CoreAdapters, cwd: string, params: CreateRunParams<object>): Promise<Run> {
  const { store, workspaces } = adapters;
  checkOptions("createRun", params, {
    id: "text",
    workflow: "text",
    work: "object",
    labels: "object",
    workspace: ["here", "new", "none"],
    values: "any",
  });
  checkSchema("createRun", "values", params.values);
  const work = params.work ?? { kind: "none" };
  const id = params.id ?? makeRunId({ work, random: adapters.random() });
  if (!RUN_ID.test(id)) {
    throw usageError(
      `"${id}" cannot be a run id`,
      "Use up to 63 lower-case letters, digits and hyphens, such as issue-42.",
    );
  }
  const here = params.workspace === "here" ? await labelHere(workspaces, cwd) : undefined;
  const path = adapters.worktreePath?.(id);
  const own =
    params.workspace === "new" && workspaces !== null
      ? { run: id, ...(path === undefined ? {} : { path }) }
      : undefined;
  // Check before the run is created, so that a run that cannot have a worktree is not left behind empty.
  if (own !== undefined && (await store.getRun(id)) === undefined) await workspaces?.check(own);
  await rejectRolledBackStore(adapters, id);
  const run = await store.createRun({
    id,
    workflow: params.workflow ?? "manual",
    work,
    labels: { ...params.labels, ...(here === undefined ? {} : { [WORKTREE]: here }) },
  });
  if (own !== undefined) await workspaces?.create(own);
  return run;
}

export interface CreateRunParams<V extends object = JsonObject> {
  /** Derived from the work ("issue-42-k3f9") if absent. */
  readonly id?: string;
  readonly workflow?: string;
  readonly work?: Work;
  readonly labels?: JsonObject;
  /**
   * "here": checkpoints capture the current worktree. "new": the run gets its own worktree. "none" (default): values
   * only.
   */
  readonly workspace?: "here" | "new" | "none";
  /** A Standard Schema (zod, valibot, arktype). Values that do not match it are neither saved nor returned: VALUES_INVALID. */
  readonly values?: StateSchema<V>;
}

/** `to`: another checkpoint, or the files as they are now. */
async function diffCheckpoints(params: {
  readonly workspaces: Workspaces | null;
  readonly from: Checkpoint;
  readonly to:
    | { readonly kind: "checkpoint"; readonly checkpoint: Checkpoint }
    | { readonly kind: "files"; readonly files: CurrentFiles | null };
  readonly shown: Pick<DiffParams, "paths" | "format" | "color">;
}): Promise<HoldfastDiff> {
  const { workspaces } = params;
  const before = params.from.planes;
  const after = params.to.kind === "files" ? null : params.to.checkpoint.planes;
  const to = params.to.kind === "files" ? params.to.files : params.to.checkpoint.planes.files;
  const { paths, format, color } = params.shown;
  const files =
    workspaces === null || before.files === null || to === null
      ? null
      : await workspaces.diff({
          from: before.files.tree,
          to: to.tree,
          format,
          ...(paths === undefined ? {} : { paths }),
          ...(color === undefined ? {} : { color }),
        });
  return {
    files,
    leftOut: [before.files, to].map((side) => side && { skipped: side.skipped, nested: side.nested }),
    values: after === null ? [] : diffJson({ from: valuesOf(before), to: valuesOf(after) }).changes,
  };
}

export interface HoldfastDiff {
  /** null if one side holds no files. */
  readonly files: Diff | null;
  /** What each capture left out; null for a side that holds no files. */
  readonly leftOut: readonly (Pick<FilesPlane, "skipped" | "nested"> | null)[];
  /** Changed paths of position and context, as JSON pointers; empty when compared with the worktree. */
  readonly values: readonly JsonChange[];
}

function valuesOf(planes: { readonly position: unknown; readonly context: unknown }): Json {
  return { position: planes.position as Json, context: planes.context as Json };
}

/** The current worktree; undefined outside one. */
async function worktreeHere(workspaces: Workspaces | null, cwd: string): Promise<Workspace | undefined> {
  try {
    return await workspaces?.open(cwd);
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "WORKSPACE_MISSING") return undefined;
    throw error;
  }
}

/** The run that the current worktree was made for, else the label of the worktree. */
async function runHere(workspaces: Workspaces | null, cwd: string): Promise<string | undefined> {
  const here = (await worktreeHere(workspaces, cwd))?.root;
  const trees = here === undefined ? [] : ((await workspaces?.list()) ?? []);
  return here === undefined ? undefined : (trees.find((tree) => tree.path === here)?.run ?? worktreeLabel(here, trees));
}

/** The label of runs that capture the current worktree. */
async function labelHere(workspaces: Workspaces | null, cwd: string): Promise<string | undefined> {
  const here = (await worktreeHere(workspaces, cwd))?.root;
  return here === undefined ? undefined : worktreeLabel(here, (await workspaces?.list()) ?? []);
}
