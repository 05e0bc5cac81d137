import { randomBytes } from "node:crypto";
import { join, resolve as resolvePath } from "node:path";
import type { CheckpointSummary, FilesPlane } from "./core/checkpoint.ts";
import { HoldfastError } from "./core/error.ts";
import type { Graph } from "./core/graph.ts";
import type { GraphPicture } from "./core/graph-picture.ts";
import type { Json, JsonObject } from "./core/json.ts";
import { checkOneOf, checkOptions } from "./core/options.ts";
import { DEFAULT_LOOPS } from "./core/loop-settings.ts";
import type { LoopSettings } from "./core/loop-settings.ts";
import { DEFAULT_LOOP_LAYOUT } from "./core/loop-layout.ts";
import type { LoopLayoutSettings } from "./core/loop-layout.ts";
import { defaultRetention } from "./core/retention.ts";
import { ALL_CHECKPOINTS } from "./core/checkpoint-switches.ts";
import type { CheckpointSwitches } from "./core/checkpoint-switches.ts";
import { defaultErrorPolicy } from "./core/error-policy/policy.ts";
import type { ErrorPolicy } from "./core/error-policy/policy.ts";
import type { AgentArgs } from "./core/agent-args.ts";
import type { PriceTable } from "./core/price.ts";
import type { RetentionPolicy } from "./core/retention.ts";
import { RUN_ID } from "./core/run.ts";
import { isHeld } from "./core/run-standing.ts";
import type { RunSummary, Work } from "./core/run.ts";
import { makeRunId } from "./core/run-id.ts";
import { diffJson } from "./core/values/index.ts";
import type { JsonChange } from "./core/values/index.ts";
import { parseAddress } from "./core/address.ts";
import { compareRuns } from "./app/compare/compare-runs.ts";
import type { CompareWork } from "./app/compare/compare-runs.ts";
import type { Comparison } from "./app/compare/comparison.ts";
import { listAgentLogs, readLogLines } from "./app/agent-logs.ts";
import type { AgentLogFile } from "./app/agent-logs.ts";
import type { ForgeChoice } from "./app/find-forge.ts";
import { ForeignDesk } from "./app/foreign/foreign-desk.ts";
import { openOwnStore } from "./app/open-own-store.ts";
import { readGraph } from "./app/run-graph.ts";
import { readStatus } from "./app/run-status.ts";
import type { WorkReport } from "./app/start-run.ts";
import { repositoryOrNull, storeDirectory } from "./app/store-directory.ts";
import { readLoops, standAll } from "./app/loops.ts";
import type { Loops, Stood } from "./app/loops.ts";
import { WorkDesk } from "./app/work-desk.ts";
import type { ResumeParams, StartParams } from "./app/work-desk.ts";
import type { RunStatus } from "./app/run-status.ts";
import { resolveCheckpoint, resolveRun, runsHere } from "./engine/addresses.ts";
import { applyGc, gcIsDue, planGc } from "./engine/collector.ts";
import type { GcPlan, GcReport } from "./engine/collector.ts";
import { examine, repair } from "./engine/examiner.ts";
import type { Repaired } from "./engine/examiner.ts";
import { lookParams } from "./engine/parts.ts";
import type { Parts } from "./engine/parts.ts";
import { RunHandle } from "./engine/run-handle.ts";
import { WORKTREE, labelOf } from "./engine/worktree-label.ts";
import type { WorkParts } from "./engine/work-parts.ts";
import type { RunQuery, Store, VerifyEvent } from "./ports/store.ts";
import type { CurrentFiles, Diff, DiffParams, Workspace, Workspaces } from "./ports/workspace.ts";
import { openMemoryStore } from "./stores/memory/memory-store.ts";
import { systemClock } from "./system/clock.ts";
import { isSuspended, livenessOf, processIdentity } from "./system/process-identity.ts";
import { createRequestFiles } from "./system/request-files.ts";
import { openGitWorkspaces } from "./workspaces/git-workspaces.ts";

export type { AgentLogFile } from "./app/agent-logs.ts";
export type { Question } from "./app/journal-picture.ts";
export type { Loops, Stood } from "./app/loops.ts";
export type { PlaceParams } from "./app/work-desk.ts";
export type { LoopSettings } from "./core/loop-settings.ts";
export type { Ordered } from "./engine/give-order.ts";
export type { RunStanding } from "./core/run-standing.ts";
export type { Condition } from "./app/run-condition.ts";
export type { RunStatus } from "./app/run-status.ts";
export { loadWorkflow } from "./app/load-workflow.ts";
export { schemaText } from "./app/foreign/published-schema.ts";
export type { ForeignDesk } from "./app/foreign/foreign-desk.ts";
export type { LoopCleanupPlan } from "./app/foreign/loop-cleanup.ts";
export type { Mirror, MirrorReport } from "./app/foreign/mirror.ts";
export type { ImportPlan } from "./app/foreign/plan-import.ts";
export type { Validated } from "./app/foreign/validate-files.ts";
export type { Encoded, ForeignCheckpoint, Loss, Remark } from "./formats/format.ts";
export type { StartPlan } from "./app/plan-start.ts";
export type { RerunReport } from "./app/rerun.ts";
export type { StartParams } from "./app/work-desk.ts";
export type { ReplayReport } from "./engine/replay/replay-report.ts";
export { loopPicture } from "./workflows/ralph/loop-picture.ts";
export type { LoopPicture } from "./workflows/ralph/loop-picture.ts";
export type { WorkParts, WorkReport };
export type { RunOutcome } from "./engine/outcome.ts";
export type { ProgressEvent } from "./engine/progress-event.ts";
export type { CheckLevel, DoctorReport } from "./engine/diagnosis.ts";
export type { SaveParams } from "./engine/planes.ts";
export type { RestoreStep } from "./core/restore-step.ts";
export type { Rejected, RollbackChoice } from "./core/rollback/choose-rollback.ts";
export { refuseBlocked } from "./engine/restorer.ts";
export type { GraftReport } from "./engine/apply-graft.ts";
export type { GraftPlan } from "./engine/plan-graft.ts";
export type { ComparedPair, ComparedSide, Comparison } from "./app/compare/comparison.ts";
export type { CheckpointPreview } from "./engine/preview-checkpoints.ts";
export type { RestoreReport, RunRestorePlan } from "./engine/restorer.ts";
export type { SavePlan } from "./engine/saver.ts";
export type { GcPlan, GcReport, Repaired, RunHandle };

export interface OpenParams {
  /** Default: the current directory. */
  readonly cwd?: string;
  /** A directory for the store; default HOLDFAST_STORE, else `<git common dir>/holdfast`. */
  readonly store?: string;
  /** When there is no store yet: make it (default), or STORE_ABSENT. */
  readonly create?: boolean;
  /** A store in memory instead of a real one: to look at what would be done. */
  readonly pretend?: boolean;
  readonly retention?: RetentionPolicy;
  readonly maxUntrackedBytes?: number;
  readonly includeIgnored?: boolean;
  /** How long a write waits for a run that another live process holds. Default 0: LEASE_HELD at once. */
  readonly leaseWaitMs?: number;
  /** Directory under which forks and runs get their worktrees. */
  readonly worktrees?: string;
  /** Where issues and pull requests are; default told from the remote. */
  readonly forge?: ForgeChoice;
  /** An agent that prints nothing for this long hangs and is ended; null: never. Default 30 minutes. */
  readonly agentIdleMs?: number | null;
  /** Also a checkpoint whenever a run has gone on for so long without one; null: only where stages take them. Default 10 minutes. */
  readonly checkpointEveryMs?: number | null;
  /** Which checkpoints runs take on top of those that they cannot do without. Default: all. */
  readonly checkpoints?: CheckpointSwitches;
  /** What is done about failed agent calls. Default: waits, then parks. */
  readonly errorPolicy?: ErrorPolicy;
  /** US dollars for a million tokens by `provider:model`, before those that are built in. */
  readonly prices?: PriceTable;
  /** Further arguments for the makers' programs, by agent, such as `{ codex: ["--sandbox", "read-only"] }`. */
  readonly agentArgs?: AgentArgs;
  /** What of loops is also written below `.aiwg`, for other tools, and how much of it stays. Default: all of it, as published. */
  readonly loopLayout?: LoopLayoutSettings;
  /** How many runs of which workflows may be at work at once. Default: 4 of ralph. */
  readonly loops?: LoopSettings;
  /** For your own agent, forge or clock: gets the parts that runs work with, and returns those to use. */
  readonly parts?: (parts: WorkParts) => WorkParts;
}

export interface CreateRunParams {
  /** Made from the work ("issue-42-k3f9") when absent. */
  readonly id?: string;
  readonly workflow?: string;
  readonly work?: Work;
  readonly labels?: JsonObject;
  /** "here": checkpoints capture the worktree we are in; "new": a worktree of its own; "none" (default): values only. */
  readonly workspace?: "here" | "new" | "none";
}

export interface HoldfastDiff {
  /** null when one side holds no files. */
  readonly files: Diff | null;
  /** What each side was captured without; null for one that holds no files. */
  readonly leftOut: readonly (Pick<FilesPlane, "skipped" | "nested"> | null)[];
  /** Changed paths of position and context, as JSON pointers; empty when compared with the worktree. */
  readonly values: readonly JsonChange[];
}

const OPEN_OPTIONS: readonly (keyof OpenParams)[] = [
  "cwd",
  "store",
  "create",
  "pretend",
  "retention",
  "maxUntrackedBytes",
  "includeIgnored",
  "leaseWaitMs",
  "worktrees",
  "forge",
  "agentIdleMs",
  "checkpointEveryMs",
  "checkpoints",
  "errorPolicy",
  "prices",
  "agentArgs",
  "loopLayout",
  "loops",
  "parts",
];

const AGENT_IDLE_MS = 30 * 60_000;
const CHECKPOINT_EVERY_MS = 10 * 60_000;

/** Opens the store of this repository (or the one given) and the repository's workspaces, if there is one. */
export async function openHoldfast(params: OpenParams = {}): Promise<Holdfast> {
  checkOptions("open", params, OPEN_OPTIONS);
  const cwd = resolvePath(params.cwd ?? ".");
  const workspaces = await repositoryOrNull(openGitWorkspaces(cwd));
  try {
    const directory = storeDirectory(params, workspaces);
    const owns = workspaces !== null && directory === join(workspaces.commonDir, "holdfast");
    const store =
      params.pretend === true
        ? openMemoryStore({ clock: systemClock })
        : await openOwnStore(directory, params.create ?? true, owns ? workspaces : null);
    const root = params.worktrees;
    const parts: Parts = {
      store,
      workspaces,
      clock: systemClock,
      random: randomName,
      retention: params.retention ?? defaultRetention,
      maxUntrackedBytes: params.maxUntrackedBytes,
      includeIgnored: params.includeIgnored ?? false,
      ownsRefs: owns,
      liveness: (owner) => livenessOf(owner, processIdentity()),
      suspended: isSuspended,
      leaseWaitMs: params.leaseWaitMs ?? 0,
      requests: params.pretend === true ? null : createRequestFiles(store.location),
      worktreePath: root === undefined ? undefined : (run) => join(root, run),
      sessionsOf: async (agent) => {
        // Only a restore of a conversation asks, and all agents come with it.
        const { createAgentRegistry } = await import("./agents/registry.ts");
        try {
          return createAgentRegistry({ clock: systemClock, directory: cwd }).agent(agent);
        } catch {
          return null;
        }
      },
    };
    const { forge = { kind: "auto", path: null }, prices = {}, agentArgs = {}, loops = DEFAULT_LOOPS } = params;
    const { agentIdleMs = AGENT_IDLE_MS, checkpointEveryMs = CHECKPOINT_EVERY_MS } = params;
    const { checkpoints = ALL_CHECKPOINTS, errorPolicy = defaultErrorPolicy } = params;
    const { loopLayout = DEFAULT_LOOP_LAYOUT, parts: decorate } = params;
    const foreign = new ForeignDesk(parts, { cwd, loopLayout, maxLoops: loops.max });
    const kept = { checkpoints, errorPolicy, agentIdleMs, checkpointEveryMs, prices, agentArgs, loops, loopLayout };
    const work = new WorkDesk(parts, { directory: cwd, forge, decorate, ...kept });
    return new Holdfast({ cwd, parts, foreign, work });
  } catch (error) {
    await workspaces?.close();
    throw error;
  }
}

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
    checkOptions("createRun", params, ["id", "workflow", "work", "labels", "workspace"]);
    checkOneOf("createRun", "workspace", params.workspace, ["here", "new", "none"]);
    const work = params.work ?? { kind: "none" };
    const id = params.id ?? makeRunId({ work, random: randomName() });
    if (!RUN_ID.test(id)) {
      throw new HoldfastError({
        code: "USAGE",
        message: `"${id}" cannot be a run id`,
        hint: "Use up to 63 lower-case letters, digits and hyphens, such as issue-42.",
      });
    }
    const here = params.workspace === "here" ? await this.#labelHere() : undefined;
    const path = this.#parts.worktreePath?.(id);
    const own =
      params.workspace === "new" && this.workspaces !== null
        ? { run: id, ...(path === undefined ? {} : { path }) }
        : undefined;
    // Before the run is made: one that can have no worktree is not left behind empty.
    if (own !== undefined && (await this.store.getRun(id)) === undefined) await this.workspaces?.check(own);
    const run = await this.store.createRun({
      id,
      workflow: params.workflow ?? "manual",
      work,
      labels: { ...params.labels, ...(here === undefined ? {} : { [WORKTREE]: here }) },
    });
    if (own !== undefined) await this.workspaces?.create(own);
    return new RunHandle(this.#parts, run);
  }

  async run(id: string): Promise<RunHandle> {
    return new RunHandle(this.#parts, await resolveRun(this.#parts, id, undefined));
  }

  /**
   * Begins a run and carries it on until it is done, given up, parked or interrupted. The same issue is the same run:
   * somebody else at it is LEASE_HELD.
   */
  async start<S extends JsonObject>(params: StartParams<S>): Promise<WorkReport> {
    return await this.work.start(await this.work.plan(params), params);
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
    const here = await this.#worktreeHere();
    return (await here?.currentFiles(lookParams(this.#parts))) ?? null;
  }

  /** Between two checkpoints, or (`to` absent) between one and its run's worktree as it is now. */
  async diff(
    params: { readonly from: string; readonly to?: string } & Pick<DiffParams, "paths" | "format" | "color">,
  ): Promise<HoldfastDiff> {
    const from = await this.resolve(params.from);
    const before = await this.store.getCheckpoint(from);
    const after = params.to === undefined ? undefined : await this.store.getCheckpoint(await this.resolve(params.to));
    const to = after === undefined ? await this.#currentFiles(from.run) : after.planes.files;
    const { paths, format, color } = params;
    const files =
      this.workspaces === null || before.planes.files === null || to === null
        ? null
        : await this.workspaces.diff({
            from: before.planes.files.tree,
            to: to.tree,
            format,
            ...(paths === undefined ? {} : { paths }),
            ...(color === undefined ? {} : { color }),
          });
    return {
      files,
      leftOut: [before.planes.files, to].map((side) => side && { skipped: side.skipped, nested: side.nested }),
      values:
        after === undefined ? [] : diffJson({ from: valuesOf(before.planes), to: valuesOf(after.planes) }).changes,
    };
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

  /** The run that the worktree we are in was made for, or the label of the worktree. */
  async #runHere(): Promise<string | undefined> {
    const here = (await this.#worktreeHere())?.root;
    const trees = here === undefined ? [] : ((await this.workspaces?.list()) ?? []);
    return here === undefined ? undefined : (trees.find((tree) => tree.path === here)?.run ?? labelOf(here, trees));
  }

  async #labelHere(): Promise<string | undefined> {
    const here = (await this.#worktreeHere())?.root;
    return here === undefined ? undefined : labelOf(here, (await this.workspaces?.list()) ?? []);
  }

  async #worktreeHere(): Promise<Workspace | undefined> {
    try {
      return await this.workspaces?.open(this.#cwd);
    } catch (error) {
      if (error instanceof HoldfastError && error.code === "WORKSPACE_MISSING") return undefined;
      throw error;
    }
  }
}

function valuesOf(planes: { readonly position: unknown; readonly context: unknown }): Json {
  return { position: planes.position as Json, context: planes.context as Json };
}

function randomName(): string {
  const alphabet = "abcdefghijkmnpqrstuvwxyz23456789";
  return [...randomBytes(5)].map((byte) => alphabet[byte % alphabet.length]).join("");
}
