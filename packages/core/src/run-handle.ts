// The handle of one run for library and CLI: save, read, restore, roll back, cherry-pick, fork. Also resolves addresses to runs and
// checkpoints.

import { HoldfastError, describeList, usageError } from "@holdfast/platform/error";
import { type CoreAdapters, NO_WORKTREE, WORKTREE, findRunWorkspace, lostWorktreePath } from "./adapters.ts";
import { type Checkpoint, type CheckpointId, type CheckpointSummary, TRIGGERS, summaryOf } from "./checkpoint.ts";
import { type CherryPickPlan, type CherryPickReport, applyCherryPick, planCherryPick } from "./cherry-pick.ts";
import { type CheckpointPreview, findRollback, previewCheckpoints } from "./find-rollback.ts";
import { fork } from "./fork.ts";
import { LeaseHolder } from "./hold-lease.ts";
import type { JournalEntry } from "./journal.ts";
import type { JsonObject } from "./json.ts";
import type { Lease, OwnerLiveness } from "./lease.ts";
import { type OptionKind, checkArgument, checkOptions, nearest } from "./options.ts";
import {
  RestoreLog,
  type RestoreReport,
  type RunRestorePlan,
  applyRestore,
  changedSince,
  planRestore,
} from "./restore.ts";
import { rebuildWorktree } from "./restore-files.ts";
import { refuseRemoved } from "./remove-run.ts";
import type { RollbackChoice } from "./rollback.ts";
import { type Run, type RunSummary, isEnded, parseAddress } from "./run.ts";
import { RESTORE_PLANES, type RestorePlane, type SaveParams, type SavePlan, Saver, checkSave } from "./save.ts";
import { type CheckpointAnswer, type CheckpointRequestParams, requestCheckpoint } from "./signals.ts";
import { type StateSchema, parseValues } from "./state-schema.ts";
import { type CheckpointQuery, type Tombstone, allCheckpoints, newestUsable } from "./store.ts";
import type { FilePatch, Workspace } from "./workspace.ts";

/**
 * One run, for reading and writing. Reading needs no lease; the first write acquires it, and `close` releases it. `V` is the type of its
 * values. With a schema, values that do not match it are neither returned nor saved (VALUES_INVALID).
 */
export class RunHandle<V extends object = JsonObject> implements AsyncDisposable {
  readonly id: string;
  readonly #adapters: CoreAdapters;
  readonly #run: Run;
  readonly #schema: StateSchema<V> | undefined;
  readonly #saver: Saver;
  readonly #keeper: LeaseHolder;
  #workspace: Promise<Workspace | undefined> | undefined;

  constructor(adapters: CoreAdapters, run: Run, schema?: StateSchema<V>) {
    this.id = run.id;
    this.#adapters = adapters;
    this.#run = run;
    this.#schema = schema;
    this.#saver = new Saver(
      adapters,
      run,
      schema === undefined ? undefined : (values, stored) => void parseValues(schema, values, valuesOf(run.id, stored)),
    );
    this.#keeper = new LeaseHolder(adapters, run.id);
  }

  async summary(): Promise<RunSummary> {
    const summary = await this.#adapters.store.getRun(this.id);
    if (summary === undefined)
      throw new HoldfastError({ code: "RUN_NOT_FOUND", message: `There is no run ${this.id}` });
    return summary;
  }

  /** The checkpoint is durable when it resolves. Acquires the lease on first use and holds it until `close`. */
  async save(params: SaveParams<V> = {}): Promise<CheckpointSummary> {
    checkSave(params);
    const captured = this.#saver.capture(params);
    const lease = this.#keeper.held ?? (await this.#keeper.take(this.#saver));
    // Each await costs a turn of the event loop, and a save is fast enough that it matters.
    const filesless = params.files === false || this.#adapters.workspaces === null;
    return await this.#saver.save(captured, lease, filesless ? undefined : await this.#ownWorkspace());
  }

  /** Acquires the lease now and not with the first write, so that a second process fails before its work, not after it. */
  async hold(): Promise<void> {
    if (this.#keeper.held === undefined) await this.#keeper.take(this.#saver);
  }

  /** Requests a checkpoint from the process that holds the run. "free": no process does, and the caller should use `save`. */
  async ask(params: Omit<CheckpointRequestParams, "adapters" | "run">): Promise<CheckpointAnswer> {
    return await requestCheckpoint({ ...params, adapters: this.#adapters, run: this.id });
  }

  /** What `save` would capture, without saving. */
  async planSave(params: SaveParams<V> = {}): Promise<SavePlan> {
    checkSave(params);
    return await this.#saver.plan(params, await this.#ownWorkspace());
  }

  async get(sequence: number): Promise<Checkpoint<V>> {
    return this.#parsed(await this.#read(sequence));
  }

  async latest(): Promise<Checkpoint<V> | undefined> {
    const latest = await this.#adapters.store.latest(this.id);
    return latest === undefined ? undefined : this.#parsed(latest);
  }

  /** Like `latest`, but skips checkpoints that the store cannot read, and names them. */
  async newestWhole(): ReturnType<typeof newestUsable> {
    return await newestUsable(this.#adapters.store, this.id);
  }

  /** Newest first. */
  async list(query: Omit<CheckpointQuery, "run"> = {}): Promise<readonly CheckpointSummary[]> {
    checkOptions("list", query, LIST_OPTIONS);
    return await this.#adapters.store.listCheckpoints({ ...query, run: this.id });
  }

  /** All checkpoints, newest first, read in pages. */
  checkpoints(): AsyncGenerator<CheckpointSummary> {
    return allCheckpoints(this.#adapters.store, this.id);
  }

  log(query: { readonly after?: number; readonly limit?: number } = {}): AsyncIterable<JournalEntry> {
    checkOptions("log", query, { after: "count", limit: "count" });
    return this.#adapters.store.readJournal({ ...query, run: this.id });
  }

  watch(signal: AbortSignal): AsyncIterable<JournalEntry> {
    checkArgument("watch", "its signal", signal, "signal");
    return this.#adapters.store.watch({ run: this.id, signal });
  }

  /** `from`: other runs that lose the tag in the same transaction. */
  async tag(
    sequence: number,
    name: string,
    options: { readonly move?: boolean; readonly from?: readonly string[] } = {},
  ): Promise<void> {
    checkOptions("tag", options, { move: "flag", from: "texts" });
    const { move = false, from = [] } = options;
    await this.#adapters.store.tag({ run: this.id, sequence, name, move, from });
  }

  async untag(name: string): Promise<void> {
    checkArgument("untag", "the name of a tag", name, "text");
    await this.#adapters.store.untag({ run: this.id, name });
  }

  /** WORKSPACE_MISSING when the checkpoint has files and the run's worktree is gone. */
  async planRestore(params: {
    readonly sequence: number;
    readonly paths?: readonly string[];
    /** Restores only this plane; "files" may not be combined with `paths`. */
    readonly only?: RestorePlane;
  }): Promise<RunRestorePlan> {
    checkOptions("planRestore", params, { sequence: "any", paths: "texts", only: RESTORE_PLANES });
    const log = new RestoreLog();
    const target = await log.during("integrity", () => this.#read(params.sequence));
    return await log.during("files", async () => {
      const workspace = target.planes.files === null ? undefined : await this.#restoreWorkspace(params.only ?? null);
      const newest = params.only === "conversation" ? await this.#saver.newest() : undefined;
      return await planRestore({ ...params, adapters: this.#adapters, target, newest, workspace });
    });
  }

  /** The changes of a planned restore of files, in parts that a user can choose singly. */
  async patches(plan: RunRestorePlan): Promise<readonly FilePatch[]> {
    checkPlan("patches", plan, "target");
    const { workspaces } = this.#adapters;
    const { files } = plan;
    if (files === null || workspaces === null) return [];
    return await workspaces.patches({ from: files.fromTree, to: files.toTree });
  }

  /** Limits a planned restore of files to these parts. RESTORE_REFUSED when the files changed since the plan. */
  async choosePatches(plan: RunRestorePlan, patches: readonly FilePatch[]): Promise<RunRestorePlan> {
    checkPlan("choosePatches", plan, "target");
    checkArgument("choosePatches", "its patches", patches, "list");
    for (const patch of patches) checkArgument("choosePatches", "a patch", patch, "object");
    const { workspaces } = this.#adapters;
    const target = await this.#read(plan.target.sequence);
    const workspace = await this.#ownWorkspace();
    if (plan.files === null || workspaces === null || target.planes.files === null) return plan;
    const { fromTree: from, root } = plan.files;
    const to = await workspaces.withPatches({ from, to: target.planes.files, patches });
    const paths = patches.map(({ path }) => path);
    const chosen = await planRestore({ adapters: this.#adapters, target, workspace, paths, to });
    if (chosen.files?.fromTree !== from) throw changedSince(root, "restore");
    return chosen;
  }

  async applyRestore(plan: RunRestorePlan): Promise<RestoreReport> {
    checkPlan("applyRestore", plan, "target");
    const lease = this.#keeper.held ?? (await this.#keeper.take(this.#saver));
    try {
      return await applyRestore({
        adapters: this.#adapters,
        plan,
        saver: this.#saver,
        lease,
        workspace: plan.files === null && plan.only === null ? undefined : await this.#restoreWorkspace(plan.only),
      });
    } finally {
      this.#saver.forget();
    }
  }

  /** The checkpoint that a careful engineer would go back to, with the reasons for it and against the others. Reads only. */
  async planRollback(params: { readonly pastEffects?: boolean } = {}): Promise<RollbackChoice> {
    checkOptions("planRollback", params, { pastEffects: "flag" });
    return await findRollback(this.#adapters, { run: this.id, pastEffects: params.pastEffects ?? false });
  }

  /** The newest checkpoints for a user who chooses one, with later changes and effects. Reads only. */
  async preview(limit: number): Promise<readonly CheckpointPreview[]> {
    checkArgument("preview", "the limit", limit, "count");
    return await previewCheckpoints(this.#adapters, { run: this.id, limit, workspace: await this.workspace() });
  }

  /** Plans and applies a restore in one call. */
  async restore(params: Parameters<RunHandle["planRestore"]>[0]): Promise<RestoreReport> {
    return await this.applyRestore(await this.planRestore(params));
  }

  /**
   * Plans to cherry-pick these files of another run's checkpoint into this run's worktree. Reads only. Throws RESTORE_REFUSED if they could
   * not be kept there.
   */
  async planCherryPick(params: {
    readonly source: Checkpoint;
    readonly paths: readonly string[];
  }): Promise<CherryPickPlan> {
    checkOptions("planCherryPick", params, { source: "object", paths: "texts" });
    checkPlan("planCherryPick", params.source, "planes");
    const [run, newest, workspace] = await Promise.all([this.summary(), this.#saver.newest(), this.#ownWorkspace()]);
    return await planCherryPick({ ...params, adapters: this.#adapters, run, newest, workspace });
  }

  async applyCherryPick(plan: CherryPickPlan, options: { readonly force?: boolean } = {}): Promise<CherryPickReport> {
    checkPlan("applyCherryPick", plan, "source");
    const lease = this.#keeper.held ?? (await this.#keeper.take(this.#saver));
    const workspace = await this.#ownWorkspace();
    if (workspace === undefined) throw new TypeError("a cherry-pick was planned without a worktree");
    const force = options.force ?? false;
    try {
      return await applyCherryPick({ adapters: this.#adapters, plan, saver: this.#saver, lease, workspace, force });
    } finally {
      this.#saver.forget();
    }
  }

  /** Creates a new run whose first checkpoint is this one. In a repository it gets its own worktree, unless `worktree` is false. */
  async fork(params: {
    readonly sequence: number;
    readonly id?: string;
    readonly worktree?: boolean;
    readonly labels?: JsonObject;
  }): Promise<RunHandle<V>> {
    checkOptions("fork", params, { sequence: "any", id: "text", worktree: "flag", labels: "object" });
    const id = await fork({
      adapters: this.#adapters,
      source: await this.#read(params.sequence),
      sourceRun: this.#run,
      id: params.id,
      worktree: params.worktree ?? true,
      ...(params.labels === undefined ? {} : { labels: params.labels }),
    });
    const run = await this.#adapters.store.getRun(id);
    if (run === undefined)
      throw new HoldfastError({ code: "INTERNAL", message: `The forked run ${id} is not in the store` });
    return new RunHandle(this.#adapters, run, this.#schema);
  }

  /** The worktree made for this run, or the one it was started in; undefined when neither exists. */
  async workspace(): Promise<Workspace | undefined> {
    this.#workspace ??= findRunWorkspace(this.#adapters, this.#run);
    return await this.#workspace;
  }

  /**
   * The path of the run's own worktree if it is gone and `rebuildWorktree` can create it again; null otherwise. The path of an imported run
   * comes from another machine, so only a resume chooses a place for it.
   */
  async lostWorktree(): Promise<string | null> {
    const { store, workspaces } = this.#adapters;
    if (workspaces === null || WORKTREE in this.#run.labels || (await this.workspace()) !== undefined) return null;
    this.#workspace = undefined;
    const [imported] = await store.listCheckpoints({ run: this.id, trigger: "import", limit: 1 });
    const isImported = imported !== undefined || "import" in this.#run.labels;
    const hasFiles = !isImported && (await store.latest(this.id))?.planes.files != null;
    return hasFiles ? await lostWorktreePath(this.#adapters, this.id) : null;
  }

  /** Creates the worktree that `lostWorktree` names, with the files of the newest checkpoint. After a kill the same call completes it. */
  async rebuildWorktree(): Promise<Workspace> {
    const { store, workspaces } = this.#adapters;
    const checkpoint = await store.latest(this.id);
    if (workspaces === null || checkpoint === undefined || (await this.lostWorktree()) === null)
      throw usageError(`Run ${this.id} has no worktree that could be created again`);
    const lease = this.#keeper.held ?? (await this.#keeper.take(this.#saver));
    const run = await this.summary();
    this.#workspace = undefined;
    return await rebuildWorktree({ adapters: this.#adapters, workspaces, run, checkpoint, lease });
  }

  /** The process that may write the run, and whether it is alive. The next writer ignores a dead holder. */
  async holder(): Promise<{ readonly lease: Lease; readonly alive: OwnerLiveness } | undefined> {
    const lease = await this.#adapters.store.getLease(this.id);
    return lease === undefined ? undefined : { lease, alive: this.#adapters.liveness(lease.owner) };
  }

  async tombstones(): Promise<readonly Tombstone[]> {
    return await this.#adapters.store.listTombstones(this.id);
  }

  /** Releases the lease. */
  async close(): Promise<void> {
    await this.#keeper.release();
    this.#saver.forget();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #read(sequence: number): Promise<Checkpoint> {
    return await this.#adapters.store.getCheckpoint({ run: this.id, sequence });
  }

  #parsed(checkpoint: Checkpoint): Checkpoint<V> {
    const { planes } = checkpoint;
    const { values } = planes.context;
    // Without a schema, the caller's type argument is its own statement about what it saved.
    const parsed =
      this.#schema === undefined
        ? (values as object as V)
        : parseValues(this.#schema, values, valuesOf(this.id, checkpoint.id));
    return { ...checkpoint, planes: { ...planes, context: { ...planes.context, values: parsed } } };
  }

  /** Restores of state or conversation only save the files that are there, so a lost worktree does not matter to them. */
  async #restoreWorkspace(only: RestorePlane | null): Promise<Workspace | undefined> {
    return only === "state" || only === "conversation" ? await this.workspace() : await this.#ownWorkspace();
  }

  /** Like `workspace`, but a run that has files never continues silently without them. */
  async #ownWorkspace(): Promise<Workspace | undefined> {
    const found = await this.workspace();
    if (found !== undefined || this.#adapters.workspaces === null) return found;
    this.#workspace = undefined;
    const label = this.#run.labels[WORKTREE];
    const files = (await this.#adapters.store.latest(this.id))?.planes.files ?? null;
    if (label === NO_WORKTREE || (files === null && label === undefined)) return undefined;
    const isOwn = (await this.lostWorktree()) !== null;
    throw new HoldfastError({
      code: "WORKSPACE_MISSING",
      message: `The worktree of run ${this.id} is not there any more${files === null ? "" : `: ${files.worktree}`}`,
      hint:
        files === null
          ? "Start another run in the worktree you are in with `holdfast checkpoint --run NAME`."
          : isOwn
            ? `Its files are safe: \`holdfast restore ${this.id}@latest\` creates it again.`
            : `Its files are safe: \`holdfast fork ${this.id}@latest\` brings them back in a worktree of their own.`,
      data: { run: this.id },
    });
  }
}

/** Names values in the message of VALUES_INVALID. */
function valuesOf(run: string, stored: CheckpointId | null): Parameters<typeof parseValues>[2] {
  if (stored === null)
    return {
      what: `The values to save in run ${run}`,
      hint: "Correct the values and save them again; nothing was written.",
    };
  return {
    what: `The values of ${stored}`,
    hint: `Let the schema accept them, for example with defaults. Or read them without a schema (\`holdfast.run("${run}")\`), convert and save them.`,
  };
}

const LIST_OPTIONS = {
  before: "count",
  limit: "count",
  trigger: TRIGGERS,
  stage: "text",
} satisfies Readonly<Record<keyof Omit<CheckpointQuery, "run">, OptionKind>>;

/** Throws USAGE for what is no plan or checkpoint of this library: each of them has this member. */
function checkPlan(call: string, given: object, member: string): void {
  checkArgument(call, "its first argument", given, "object");
  checkArgument(call, `the ${member} of its argument`, Reflect.get(given, member), "object");
}

/** The run with exactly this id. */
export async function runById(adapters: CoreAdapters, id: string): Promise<RunSummary> {
  const { run: named } = parseAddress(id);
  const run = named === null ? undefined : await adapters.store.getRun(named);
  if (run === undefined) throw await noSuchRun(adapters, id);
  await refuseRemoved(adapters.store, run.id);
  return run;
}

/**
 * The run that the address names: by its id, by the number of its issue, or by a prefix of its id that no other run has.
 * Without an address, the run of this worktree, else the only or newest run.
 */
export async function resolveRun(
  adapters: CoreAdapters,
  address: string | undefined,
  here: string | undefined,
): Promise<RunSummary> {
  const named = address === undefined ? null : parseRunAddress(address).run;
  const exact = named === null || address?.startsWith("#") === true ? undefined : await adapters.store.getRun(named);
  if (exact !== undefined) await refuseRemoved(adapters.store, exact.id);
  if (named !== null) return exact ?? (await findByIssueOrPrefix(adapters, named));
  const runs = await adapters.store.listRuns();
  const own = here === undefined ? [] : runsHere(runs, here);
  const candidates = own.length > 0 ? own : runs;
  const [found, other] = candidates;
  // Without an address the newest run is meant. `@7` must not silently change its run from one day to the next.
  if (found !== undefined && other !== undefined && address !== undefined) throw ambiguous(address, candidates);
  if (found !== undefined) return found;
  throw new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: "There are no runs yet",
    hint: "Start one with `holdfast run`, or save a checkpoint of your own work with `holdfast checkpoint`.",
  });
}

/** As `parseAddress`; `#42` is issue 42, even if a run has the id 42. */
function parseRunAddress(address: string): ReturnType<typeof parseAddress> {
  return parseAddress(typeof address === "string" ? address.replace(/^#(?=[1-9])/, "") : address);
}

/** Issue 4 never means issue 42, so a number is not a prefix. Of several runs of an issue, the unfinished one is meant. */
async function findByIssueOrPrefix(adapters: CoreAdapters, named: string): Promise<RunSummary> {
  const runs = await adapters.store.listRuns();
  if (/^[1-9]\d{0,14}$/.test(named)) {
    const own = runs.filter(({ work }) => work.kind === "issue" && work.number === Number(named));
    const found = own.find(({ state }) => !isEnded(state)) ?? own[0];
    if (found !== undefined) return found;
    throw new HoldfastError({
      code: "RUN_NOT_FOUND",
      message: `There is no run for issue ${named}`,
      hint: `Start one with \`holdfast run ${named}\`.`,
    });
  }
  const [found, ...others] = runs.filter(({ id }) => id.startsWith(named));
  if (found === undefined) throw await noSuchRun(adapters, named);
  if (others.length === 0) return found;
  const candidates = [found, ...others].map(({ id }) => id);
  throw usageError(
    `"${named}" is the beginning of ${candidates.length} run ids`,
    `Name one of them: ${describeList(candidates, 10)}.`,
    { candidates },
  );
}

/** `here`: the run that the worktree was made for, or the label of the worktree. Newest first. */
export function runsHere(runs: readonly RunSummary[], here: string): readonly RunSummary[] {
  return runs.filter((run) => run.id === here || run.labels[WORKTREE] === here);
}

function ambiguous(address: string, runs: readonly RunSummary[]): HoldfastError {
  const ids = runs.slice(0, 3).map((run) => `${run.id}${address}`);
  return usageError(
    `${address} could mean ${runs.length} runs`,
    `Name the run: ${ids.join(", ")}${runs.length > 3 ? ", …" : ""}.`,
  );
}

export async function resolveCheckpoint(
  adapters: CoreAdapters,
  address: string,
  here: string | undefined,
): Promise<CheckpointSummary> {
  const run = await resolveRun(adapters, address, here);
  const { at } = parseRunAddress(address);
  switch (at.kind) {
    case "none":
    case "latest": {
      const latest = await adapters.store.latest(run.id);
      if (latest === undefined) throw nothingSaved(run.id);
      return summaryOf(latest);
    }
    case "sequence":
      return await bySequence(adapters, run.id, at.sequence);
    case "tag":
      return await byTag(adapters, run.id, at.name);
  }
}

async function bySequence(adapters: CoreAdapters, run: string, sequence: number): Promise<CheckpointSummary> {
  const [found] = await adapters.store.listCheckpoints({ run, before: sequence + 1, limit: 1 });
  if (found?.sequence === sequence) return found;
  const tombstone = (await adapters.store.listTombstones(run)).find((dead) => dead.sequence === sequence);
  if (tombstone !== undefined) {
    throw new HoldfastError({
      code: "CHECKPOINT_DROPPED",
      message: `Checkpoint ${run}@${sequence} was dropped at ${tombstone.droppedAt}: ${tombstone.why}`,
      hint: found === undefined ? "See `holdfast list` for what is kept." : `The nearest one before it is ${found.id}.`,
    });
  }
  throw new HoldfastError({
    code: "CHECKPOINT_NOT_FOUND",
    message: `Run ${run} has no checkpoint ${sequence}`,
    hint: `See \`holdfast list ${run}\` for what there is.`,
  });
}

async function byTag(adapters: CoreAdapters, run: string, tag: string): Promise<CheckpointSummary> {
  const tags = new Set<string>();
  for await (const checkpoint of allCheckpoints(adapters.store, run)) {
    if (checkpoint.tags.includes(tag)) return checkpoint;
    for (const name of checkpoint.tags) tags.add(name);
  }
  const [guess] = nearest(tag, tags);
  const known =
    tags.size === 0
      ? `Run ${run} has no tags; see \`holdfast list ${run}\`.`
      : `Its tags: ${describeList([...tags], 8)}.`;
  throw new HoldfastError({
    code: "CHECKPOINT_NOT_FOUND",
    message: `Run ${run} has no tag "${tag}"`,
    hint: guess === undefined ? known : `Did you mean ${run}@${guess}?`,
  });
}

async function noSuchRun(adapters: CoreAdapters, id: string): Promise<HoldfastError> {
  const [guess] = nearest(
    id,
    (await adapters.store.listRuns()).map((run) => run.id),
  );
  return new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: `There is no run "${id}"`,
    hint: guess === undefined ? "See `holdfast list` for the runs there are." : `Did you mean ${guess}?`,
  });
}

function nothingSaved(run: string): HoldfastError {
  return new HoldfastError({
    code: "NOTHING_TO_RESUME",
    message: `Run ${run} has no checkpoint`,
    hint: `Save one with \`holdfast checkpoint --run ${run}\`.`,
  });
}
