import { maskValue } from "../core/mask.ts";
import { createMasking } from "../system/own-secrets.ts";
import { join } from "node:path";
import { parseAddress } from "../core/checkpoint/address.ts";
import type { CheckpointSummary } from "../core/checkpoint/checkpoint.ts";
import type { Graph } from "../core/graph/graph.ts";
import type { GraphPicture } from "../core/graph/graph-picture.ts";
import type { JsonObject } from "../core/json.ts";
import type { RetentionPolicy } from "../core/retention/retention.ts";
import { isHeld } from "../core/run/run-standing.ts";
import type { RunSummary } from "../core/run/run.ts";
import { hasRoom } from "../engine/conduct/park-on-disk.ts";
import { resolveCheckpoint, resolveRun, runsHere } from "../engine/addresses.ts";
import { applyGc, gcIsDue, planGc } from "../engine/upkeep/collector.ts";
import type { GcPlan, GcReport } from "../engine/upkeep/collector.ts";
import { examine, repair } from "../engine/upkeep/examiner.ts";
import type { Repaired } from "../engine/upkeep/examiner.ts";
import { lookParams } from "../engine/parts.ts";
import type { Parts } from "../engine/parts.ts";
import { RunHandle } from "../engine/run-handle.ts";
import type { RunQuery, Store, VerifyEvent } from "../ports/store.ts";
import type { CurrentFiles, DiffParams, Workspaces } from "../ports/workspace.ts";
import { listAgentLogs, readLogLines } from "./look/agent-logs.ts";
import type { AgentLogFile } from "./look/agent-logs.ts";
import { compareRuns } from "./compare/compare-runs.ts";
import type { CompareWork } from "./compare/compare-runs.ts";
import type { Comparison } from "./compare/comparison.ts";
import { createRun } from "./create-run.ts";
import type { CreateRunParams } from "./create-run.ts";
import { diffCheckpoints } from "./diff-checkpoints.ts";
import type { HoldfastDiff } from "./diff-checkpoints.ts";
import type { ForeignDesk } from "./foreign/foreign-desk.ts";
import { runHere, worktreeHere } from "./here.ts";
import { readLoops, standAll } from "./look/loops.ts";
import type { Loops, Stood } from "./look/loops.ts";
import type { ResumeParams } from "./work/resume-params.ts";
import { readGraph } from "./look/run-graph.ts";
import { readStatus } from "./look/run-status.ts";
import type { RunStatus } from "./look/run-status.ts";
import type { StartParams } from "./work/start-params.ts";
import type { WorkReport } from "./work/start-run.ts";
import type { WorkDesk } from "./work/work-desk.ts";

/** What front ends and library users talk to. */
export class Holdfast implements AsyncDisposable {
  readonly store: Store;
  /** null outside a git repository. */
  readonly workspaces: Workspaces | null;
  /** Runs that a workflow carries: begin, take up, answer. */
  readonly work: WorkDesk;
  /** Checkpoints of other tools: import, export, mirror. */
  readonly foreign: ForeignDesk;
  readonly #cwd: string;
  readonly #parts: Parts;

  constructor(params: {
    readonly cwd: string;
    readonly parts: Parts;
    readonly foreign: ForeignDesk;
    readonly work: WorkDesk;
  }) {
    const { cwd, parts } = params;
    this.work = params.work;
    this.foreign = params.foreign;
    this.store = parts.store;
    this.workspaces = parts.workspaces;
    this.#cwd = cwd;
    this.#parts = parts;
  }

  async createRun(params: CreateRunParams = {}): Promise<RunHandle> {
    return new RunHandle(this.#parts, await createRun(this.#parts, this.#cwd, params));
  }

  async run(id: string): Promise<RunHandle> {
    return new RunHandle(this.#parts, await resolveRun(this.#parts, id, undefined));
  }

  /**
   * Starts a run and executes it until it is done, failed, waiting or interrupted. The same workflow and id, or else the same workflow and issue
   * or task text, is the same run. Unfinished: it continues, or LEASE_HELD while another process works on it. Ended: its outcome is returned with
   * `earlier: true` and nothing is done, unless `again` begins a new run.
   */
  async start<S extends JsonObject>(params: StartParams<S>): Promise<WorkReport> {
    // As it is stored: the same task is the same run.
    const work = maskValue(params.work, createMasking().mask);
    const { workflow = "impl", id } = params;
    using starting = this.work.announce({
      workflow: typeof workflow === "string" ? workflow : workflow.shape.name,
      work,
      ...(id === undefined ? {} : { run: id }),
    });
    return await this.work.start(await this.work.plan({ ...params, work }), { ...params, starting });
  }

  /** Looks at what changed meanwhile, then carries the run on. What needs a decision is the outcome "ask". */
  async resume<S extends JsonObject>(params: ResumeParams<S>): Promise<WorkReport> {
    return await this.work.resume(params);
  }

  /** Where the run stands, told from its journal and its lease. */
  async status(address?: string): Promise<RunStatus> {
    const { id } = await this.resolveRun(address);
    const handle = await this.run(id);
    const [stood] = await standAll(this.#parts, async () => [await handle.summary()]);
    if (stood === undefined) throw new TypeError("one run has one standing");
    if (stood.run.workflow === "ralph" && !isHeld(stood.standing)) await this.foreign.tellGone(id);
    return await readStatus(handle, { now: this.#parts.clock.now(), standing: stood.standing });
  }

  /** The task graph of a run as it stands now, and the picture that `status` gives of it; null when it has none. */
  async graph(address?: string): Promise<{ readonly graph: Graph; readonly picture: GraphPicture } | null> {
    const { id } = await this.resolveRun(address);
    return await readGraph(await this.run(id), this.#parts.clock.now());
  }

  /** What the agents of a run said, one file a call. */
  async agentLogs(run: string): Promise<readonly AgentLogFile[]> {
    return await listAgentLogs(join(this.store.location, "logs", run));
  }

  /** Whole lines of one of these files from a byte on, and where to go on. */
  async readLog(path: string, start: number): Promise<{ readonly lines: readonly string[]; readonly next: number }> {
    return await readLogLines(path, start);
  }

  /** Newest first. */
  async listRuns(query: RunQuery = {}): Promise<readonly RunSummary[]> {
    return await this.store.listRuns(query);
  }

  /** Runs as a person sees them, newest first. */
  async standings(query: RunQuery = {}): Promise<readonly Stood[]> {
    return await standAll(this.#parts, () => this.store.listRuns(query));
  }

  /** Those whose number is limited: at work, in the queue, and the others; those that have ended only where asked for. */
  async loops(params: { readonly ended?: boolean } = {}): Promise<Loops> {
    const { max, workflows } = this.work.loops;
    const runs = async (): Promise<readonly RunSummary[]> =>
      (await this.store.listRuns()).filter(
        ({ workflow, state }) =>
          workflows.includes(workflow) && (params.ended === true || state.kind === "open" || state.kind === "parked"),
      );
    const found = await readLoops(this.#parts, { runs, limit: max });
    await this.foreign.tellGone(null);
    return found;
  }

  /** `RUN`, `RUN@7`, `RUN@latest`, `RUN@tag`; `@7` and `@tag` mean the run of this worktree, else the newest. */
  async resolve(address: string): Promise<CheckpointSummary> {
    return await resolveCheckpoint(this.#parts, address, await this.#runHere());
  }

  async resolveRun(address?: string): Promise<RunSummary> {
    return await resolveRun(this.#parts, address, await this.#runHere());
  }

  /** The run that captures the worktree we are in; undefined when there is none yet. */
  async runHere(): Promise<RunHandle | undefined> {
    const here = await this.#runHere();
    const run = here === undefined ? undefined : runsHere(await this.store.listRuns(), here)[0];
    return run === undefined ? undefined : new RunHandle(this.#parts, run);
  }

  /** What the first checkpoint of a run would capture here; null where there is no worktree. */
  async filesHere(): Promise<CurrentFiles | null> {
    const here = await worktreeHere(this.workspaces, this.#cwd);
    return (await here?.currentFiles(lookParams(this.#parts))) ?? null;
  }

  /** Between two checkpoints, or (`to` absent) between one and its run's worktree as it is now. */
  async diff(
    params: { readonly from: string; readonly to?: string } & Pick<DiffParams, "paths" | "format" | "color">,
  ): Promise<HoldfastDiff> {
    const { from, to, ...shown } = params;
    const before = await this.store.getCheckpoint(await this.resolve(from));
    const other =
      to === undefined
        ? ({ kind: "files", files: await this.#currentFiles(before.run) } as const)
        : ({ kind: "checkpoint", checkpoint: await this.store.getCheckpoint(await this.resolve(to)) } as const);
    return await diffCheckpoints({ workspaces: this.workspaces, from: before, to: other, shown });
  }

  /** Two runs or more side by side, as they stand, or as they stood at the checkpoints that are named. Takes no lease. */
  async compare(addresses: readonly string[], options: Pick<CompareWork, "paths" | "text"> = {}): Promise<Comparison> {
    const sides: CompareWork["sides"][number][] = [];
    for (const address of addresses) {
      // A run without any checkpoint can still be looked at.
      if (parseAddress(address).at.kind === "none") {
        const { id } = await this.resolveRun(address);
        sides.push({ handle: await this.run(id), sequence: null });
      } else {
        const { run, sequence } = await this.resolve(address);
        sides.push({ handle: await this.run(run), sequence });
      }
    }
    return await compareRuns({ ...options, store: this.store, workspaces: this.workspaces, sides });
  }

  async planGc(params: { readonly policy?: RetentionPolicy; readonly run?: string } = {}): Promise<GcPlan> {
    return await planGc(this.#parts, params);
  }

  async applyGc(plan: GcPlan): Promise<GcReport> {
    return await applyGc(this.#parts, plan);
  }

  /** At most once a day by the store's own record; null when it was not due. */
  async autoGc(): Promise<GcReport | null> {
    return (await gcIsDue(this.#parts)) ? await this.applyGc(await this.planGc()) : null;
  }

  /** Is there enough space to continue this run, which waits for it? */
  async hasRoom(run: string): Promise<boolean> {
    return await hasRoom(this.#parts, run);
  }

  /** The store and every tree that a checkpoint names. Changes nothing. */
  verify(params: { readonly run?: string; readonly signal?: AbortSignal } = {}): AsyncIterable<VerifyEvent> {
    return examine(this.#parts, params);
  }

  /** Marks damaged checkpoints so that nothing resumes from them, and pins those whose git ref is gone. */
  async repair(events: readonly VerifyEvent[]): Promise<readonly Repaired[]> {
    return await repair(this.#parts, events);
  }

  async close(): Promise<void> {
    await this.store.close();
    await this.workspaces?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #currentFiles(run: string): Promise<CurrentFiles | null> {
    const workspace = await (await this.run(run)).workspace();
    return workspace === undefined ? null : await workspace.currentFiles(lookParams(this.#parts));
  }

  async #runHere(): Promise<string | undefined> {
    return await runHere(this.workspaces, this.#cwd);
  }
}
