// Replays a recorded run in a scratch store and a scratch repository, and reports whether it comes out identical.

import { HoldfastError } from "@holdfast/platform/error";
import { type Adapters, type CoreAdapters, WORKTREE, snapshotParams } from "./adapters.ts";
import { NO_LOGS } from "./agent-log.ts";
import type { Checkpoint, FilesPlane } from "./checkpoint.ts";
import { executeRun } from "./execute.ts";
import type { NewEntry } from "./journal.ts";
import type { JsonObject } from "./json.ts";
import { type Divergence, type RecordedCheckpoint, type Recording, readRecording } from "./recording.ts";
import { type UnexpectedFiles, ReplayEnd } from "./replay-record.ts";
import { Replayer, isRecordedFailure, replayedWorkflow } from "./replayer.ts";
import { type RunState, type RunSummary, isEnded } from "./run.ts";
import type { Problem } from "./store.ts";
import { canonicalJson, capture } from "./values.ts";
import { verifyRun } from "./verify.ts";
import type { Workflow } from "./workflow.ts";
import type { Workspace, Workspaces } from "./workspace.ts";

interface ReplayParams {
  /** Adapters of the recorded run, used for reading only. */
  readonly adapters: CoreAdapters;
  readonly run: RunSummary;
  readonly to: number | null;
  readonly mask: (text: string) => string;
  /** Adapters of the replay: a store in memory, a repository of its own, and no connection to the outside world. */
  readonly scratch: (replayer: Replayer) => Adapters;
  readonly worktree: string;
  readonly workflow: (adapters: Adapters, options: JsonObject) => Workflow;
  readonly signal: AbortSignal;
}

/** Replays a recorded run from its first checkpoint in a scratch environment. It starts no process and changes nothing outside. */
export async function replayRun(params: ReplayParams): Promise<ReplayReport> {
  const { adapters, run, to, signal } = params;
  const problems = [];
  for await (const event of verifyRun(adapters, { run: run.id, signal }))
    if (event.kind === "problem" && event.problem.code !== "PIN_MISSING") problems.push(event.problem);
  const nothing = { run: run.id, divergence: null, from: 1, to: null, iteration: 0, steps: 0, agents: 0 };
  const none = { ...nothing, compared: 0, filled: 0, outcome: "active" } as const;
  if (problems.length > 0) return { ...none, verdict: "damaged", problems };

  const recording = readRecording(run.id, await Array.fromAsync(adapters.store.readJournal({ run: run.id })));
  const load = remembering((sequence) => adapters.store.getCheckpoint({ run: run.id, sequence }));
  const [first] = recording.checkpoints;
  if (first === undefined) throw notRecorded(run.id);
  const begin = await load(first.sequence);
  if (begin.planes.config.mode === "default") throw notRecorded(run.id);
  const play = await Play.begin(params, { recording, load, first, begin });
  const divergence = await play.toTheEnd(to, signal);
  const { replayer } = play;
  const reached = await play.store.latest(run.id);
  return {
    ...none,
    verdict: divergence === null ? "identical" : "diverged",
    divergence,
    problems: [],
    from: first.sequence,
    to: divergence === null ? (reached?.sequence ?? null) : replayer.checkpoints.lastSame,
    iteration: reached?.planes.position.iteration ?? 0,
    steps: replayer.steps.count,
    agents: replayer.agents,
    compared: replayer.checkpoints.compared,
    filled: replayer.checkpoints.filled,
    outcome: (await play.state()).kind,
  };
}

interface ReplayStart {
  readonly recording: Recording;
  readonly load: Load;
  readonly first: RecordedCheckpoint;
  /** `first` with its planes. */
  readonly begin: Checkpoint;
}

class Play {
  readonly replayer: Replayer;
  readonly #adapters: Adapters;
  readonly #params: ReplayParams;
  readonly #recording: Recording;
  readonly #load: Load;
  /** Built with the options of the checkpoint that the replay last began at: the user may have changed them. */
  #workflow: Workflow;
  #workspace: Workspace | undefined;
  /** The worktree's files, read once after each change that the replay made; null: not read since. */
  #now: FilesPlane | null = null;

  static async begin(params: ReplayParams, at: ReplayStart): Promise<Play> {
    const play = new Play(params, at, await findJumps(at.recording, at.load));
    const { run } = params;
    const { [WORKTREE]: _ofOriginal, ...labels } = run.labels;
    await play.store.createRun({ id: run.id, workflow: run.workflow, work: run.work, labels });
    const { files } = at.begin.planes;
    const { workspaces } = play.#adapters;
    if (files !== null && workspaces !== null)
      play.#workspace = await workspaces.create({
        run: run.id,
        path: params.worktree,
        ...(files.branch === null ? {} : { branch: files.branch.replace(/^refs\/heads\//, "") }),
        ...(files.head === null ? {} : { base: files.head }),
      });
    await play.#standAt(at.first);
    return play;
  }

  private constructor(params: ReplayParams, at: ReplayStart, jumps: ReadonlySet<number>) {
    this.#params = params;
    this.#recording = at.recording;
    this.#load = at.load;
    this.replayer = new Replayer({
      recording: at.recording,
      load: at.load,
      jumps,
      to: params.to,
      mask: params.mask,
      place: (files) => this.#place(files),
      patienceMs: PATIENCE_MS,
    });
    const scratch = params.scratch(this.replayer);
    const { workspaces } = scratch;
    this.#adapters = {
      ...scratch,
      workspaces: workspaces === null ? null : this.#readOnly(workspaces),
      logs: NO_LOGS,
    };
    this.#workflow = this.#workflowWith(at.begin.planes.config.inputs);
  }

  get store(): Adapters["store"] {
    return this.#adapters.store;
  }

  async state(): Promise<RunState> {
    return (await this.store.getRun(this.#params.run.id))?.state ?? { kind: "active" };
  }

  async toTheEnd(to: number | null, signal: AbortSignal): Promise<Divergence | null> {
    const { replayer } = this;
    if (to === this.#recording.checkpoints[0]?.sequence) return null;
    for (let before = -1; replayer.progress > before;) {
      before = replayer.progress;
      signal.throwIfAborted();
      const outcome = await this.#execute(signal);
      const { divergence, stop } = replayer.ending;
      if (divergence !== null) return divergence;
      if (stop?.kind === "end") return null;
      // A question that was never answered has nothing behind it: the run continued at the next jump.
      if (stop === null && outcome === "stopped" && replayer.hasMoreBeforeJump()) {
        replayer.passTime();
        continue;
      }
      const next =
        stop === null
          ? replayer.checkpoints.nextJump()
          : this.#recording.checkpoints.find(({ sequence }) => sequence === stop.sequence);
      if (next === null || next === undefined || (to !== null && next.sequence > to))
        return outcome === "ended" ? await this.#sameEnd(to) : null;
      await this.#standAt(next);
      if (next.sequence === to) return null;
    }
    return null;
  }

  async #execute(signal: AbortSignal): Promise<"ended" | "stopped"> {
    const { replayer: driver } = this;
    const params = { adapters: this.#adapters, run: this.#params.run.id, workflow: this.#workflow, driver, signal };
    try {
      const outcome = await executeRun({ ...params, allowChanged: true });
      return isEnded(outcome) ? "ended" : "stopped";
    } catch (error) {
      if (error instanceof ReplayEnd || isRecordedFailure(error)) return "stopped";
      if (error instanceof HoldfastError && error.code === "RUN_FAILED") return "ended";
      throw error;
    }
  }

  async #sameEnd(to: number | null): Promise<Divergence | null> {
    const { replayer } = this;
    const [then, now] = [this.#params.run.state.kind, (await this.state()).kind];
    const left = replayer.checkpoints.firstLeft();
    if (to !== null || (then === now && left === null)) return null;
    const latest = await this.store.latest(this.#params.run.id);
    const { stage, iteration, stageAttempt } = latest?.planes.position ?? {
      stage: "",
      iteration: 0,
      stageAttempt: { number: 0 },
    };
    const where = {
      stage,
      iteration,
      stageAttempt: stageAttempt.number,
      step: null,
      checkpoint: latest?.sequence ?? null,
      entry: null,
    };
    if (left === null) return { where, what: "end", field: "state", expected: then, actual: now };
    return { where, what: "end", field: "checkpoint", expected: left.sequence, actual: null };
  }

  /** Continues the run from this checkpoint as it was recorded, whatever came before it. */
  async #standAt(at: RecordedCheckpoint): Promise<void> {
    const { store } = this;
    const { id } = this.#params.run;
    const { planes, trigger, name } = await this.#load(at.sequence);
    this.#workflow = this.#workflowWith(planes.config.inputs);
    const { running: _underWay, ...stageAttempt } = planes.position.stageAttempt;
    const lease = await store.takeLease({ run: id, label: "replay" });
    try {
      const top = (await store.latest(id))?.sequence ?? 0;
      // Checkpoints that the replay will not make again are copied, so that the others keep their numbers.
      for (const { sequence } of this.#recording.checkpoints.filter(
        (one) => one.sequence > top && one.sequence < at.sequence,
      )) {
        const between = await this.#load(sequence);
        await store.commit({ lease, checkpoint: { sequence, trigger: between.trigger, planes: between.planes } });
      }
      if (planes.files !== null) await this.#place(planes.files);
      const files = this.#workspace === undefined ? null : await this.#look(this.#workspace);
      await store.commit({
        lease,
        entries: reopening(await this.state()),
        checkpoint: {
          sequence: at.sequence,
          trigger,
          ...(name === null ? {} : { name }),
          planes: { ...planes, files, position: { ...planes.position, stageAttempt } },
        },
      });
    } finally {
      await store.releaseLease(lease);
    }
    this.replayer.begin(at);
  }

  #workflowWith(options: JsonObject): Workflow {
    return replayedWorkflow(this.#params.workflow(this.#adapters, options), this.replayer);
  }

  /** The scratch repository without snapshots and side worktrees: the record has their contents. */
  #readOnly(workspaces: Workspaces): Workspaces {
    const reading = (workspace: Workspace): Workspace => ({
      ...workspace,
      snapshot: async ({ base = null }) => ({ ...(await this.#look(workspace)), base }),
    });
    const { sideWorktrees } = workspaces;
    return {
      ...workspaces,
      open: async (path) => reading(await workspaces.open(path)),
      create: async (params) => reading(await workspaces.create(params)),
      find: async (run) => {
        const found = await workspaces.find(run);
        return found === undefined ? undefined : reading(found);
      },
      sideWorktrees: {
        ...sideWorktrees,
        find: () => Promise.resolve(undefined),
        place: async (params) => ({
          ...(await workspaces.open(this.#params.worktree)),
          root: sideWorktrees.rootOf(params),
        }),
        list: () => Promise.resolve([]),
        remove: () => Promise.resolve(),
      },
    };
  }

  /** Without a placement the worktree does not change: stages change files in steps, and a replay executes none. */
  async #look(workspace: Workspace): Promise<FilesPlane> {
    this.#now ??= { ...(await workspace.look(snapshotParams(this.#adapters))), ref: "refs/holdfast/replay" };
    return this.#now;
  }

  async #place(files: FilesPlane): Promise<UnexpectedFiles | null> {
    const workspace = this.#workspace;
    if (workspace === undefined) return null;
    const from = await this.#look(workspace);
    const { branch, head } = files;
    const stands = from.head === head && from.branch === branch;
    if (stands && from.tree === files.tree) return null;
    if (!stands && branch !== null && head !== null) await workspace.switchTo({ branch, head, commits: "drop" });
    try {
      if (from.tree !== files.tree) await workspace.applyRestore(await workspace.planRestore({ from, to: files }));
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "RESTORE_REFUSED") throw error;
      return { expected: from.tree, actual: (await workspace.look(snapshotParams(this.#adapters))).tree };
    }
    this.#now = null;
    return null;
  }
}

/** Longer than any pause of a busy machine between two steps of one stage, so that a slow replay is not taken for a divergence. */
const PATIENCE_MS = 10_000;

type Load = (sequence: number) => Promise<Checkpoint>;

/** Caches the last few checkpoints: each is requested several times in a row. */
function remembering(load: Load): Load {
  const known = new Map<number, Promise<Checkpoint>>();
  return (sequence) => {
    const found = known.get(sequence) ?? load(sequence);
    known.delete(sequence);
    known.set(sequence, found);
    for (const oldest of known.keys()) if (known.size > 4) known.delete(oldest);
    return found;
  };
}

function reopening(state: RunState): readonly NewEntry[] {
  switch (state.kind) {
    case "active":
      return [];
    case "waiting":
    case "paused":
      return [{ kind: "run.continued", body: {} }];
    case "done":
    case "failed":
    case "aborted":
      return [{ kind: "run.reopened", body: { reason: "as recorded" } }];
  }
}

function notRecorded(run: string): HoldfastError {
  return new HoldfastError({
    code: "NOT_RECORDED",
    message: `Run ${run} was not recorded, so there is nothing to replay it from`,
    hint: "Start one with `holdfast run … --mode logged`; `holdfast rerun` executes this one again.",
    data: { run },
  });
}

export interface ReplayReport {
  readonly run: string;
  /** "damaged": the recorded bytes were altered, so nothing was replayed. */
  readonly verdict: "identical" | "diverged" | "damaged";
  readonly divergence: Divergence | null;
  readonly problems: readonly Problem[];
  /** First checkpoint of the record. */
  readonly from: number;
  /** Last checkpoint that was equal to its original; null: none. */
  readonly to: number | null;
  readonly iteration: number;
  readonly steps: number;
  /** Agent calls that the record answered. No agent was started. */
  readonly agents: number;
  /** Checkpoints that were made again and are equal. */
  readonly compared: number;
  /** Checkpoints that the user requested or that an interruption left; they are copied from the record. */
  readonly filled: number;
  /** State of the run at the end of the replay. */
  readonly outcome: RunState["kind"];
}

/**
 * Checkpoints at which the run continues with other options, or in a stage attempt without a transition to it. The user restored an older
 * checkpoint, for example, or reopened the run. A workflow cannot get there by itself.
 */
async function findJumps(recording: Recording, load: Load): Promise<ReadonlySet<number>> {
  const jumps = new Set<number>();
  const entered = [...recording.entered];
  let stageAttempt = 0;
  let config: string | null = null;
  for (const { sequence, entry, isOwn, isReopening } of recording.checkpoints) {
    while (entered[0] !== undefined && entered[0].entry < entry)
      stageAttempt = entered.shift()?.stageAttempt ?? stageAttempt;
    if (isOwn && config !== null) continue;
    const { planes } = await load(sequence);
    const { number } = planes.position.stageAttempt;
    const now = canonicalJson(capture(planes.config));
    if (isReopening || number !== stageAttempt || (config !== null && now !== config)) jumps.add(sequence);
    stageAttempt = number;
    config = now;
  }
  return jumps;
}
