/** The service that starts, resumes, replays and signals runs of workflows. */
import { type Adapters, type CoreAdapters, currentPrograms, findRunWorkspace, runMark } from "@holdfast/core/adapters";
import { AGENT_VERSIONS } from "@holdfast/agents/agent-versions";
import type { Planes } from "@holdfast/core/checkpoint";
import {
  type FoundRun,
  type SignalParams,
  type SignalResult,
  answerDecision,
  findRunFor,
  raiseLimits,
  releaseDeadLease,
  sendSignal,
  unpauseRun,
} from "@holdfast/core/control-run";
import { acquireLease } from "@holdfast/core/hold-lease";
import type { JsonObject } from "@holdfast/core/json";
import { priorityKey } from "@holdfast/core/lease";
import { createMasking, maskValue } from "@holdfast/core/mask";
import { describeHalfDone } from "@holdfast/core/observe";
import { type SetupOutcome, isSetUp, setUpRestored } from "@holdfast/core/prepare-worktree";
import type { Budget } from "@holdfast/core/position";
import type { ProgressListener } from "@holdfast/core/progress";
import type { ReplayReport } from "@holdfast/core/replay";
import type { ResumeCheck } from "@holdfast/core/resume";
import { type Work, isEnded } from "@holdfast/core/run";
import { pendingSignal, withdrawSignal } from "@holdfast/core/signals";
import { knownRun, newestUsable } from "@holdfast/core/store";
import { compareToolchains, differencesText } from "@holdfast/core/toolchain";
import type { Workflow } from "@holdfast/core/workflow";
import { createGitBranches } from "@holdfast/git/branches";
import type { Clock } from "@holdfast/platform/clock";
import { LAYOUTS, type SlotSettings, loadPlugin, rolesOf } from "@holdfast/workflows/built-in";
import { type LayoutContext, LayoutPlaces } from "@holdfast/workflows/layout-place";
import type { LayoutSettings } from "@holdfast/workflows/plugin";
import {
  type AdapterOptions,
  adaptersOfRun,
  agentsOf,
  buildAdapters,
  checkAgents,
  checkPrices,
  checkTokens,
  checkVersions,
  lacksAgent,
  recordAdapters,
} from "./adapters.ts";
import { applyLimits, planLimits } from "./change-limits.ts";
import { type Announcement, type StartingProcess, announceStart, listStartingProcesses } from "./announce-start.ts";
import type { ForgeChoice } from "./find-forge.ts";
import { adoptImport, needsAdoption } from "./interop/adopt-import.ts";
import type { SharedFacts } from "./observe-start.ts";
import {
  type PlanOptions,
  type StartParams,
  type StartPlan,
  chooseWorkflow,
  chosenSeed,
  fileTask,
  findFiledTask,
  planStart,
  seedNotice,
  slotRequest,
  checkStart,
} from "./plan-start.ts";
import { noticeLines } from "./preflight.ts";
import {
  type ReplayRequest,
  type RerunReport,
  compareRerun,
  planRerun,
  rejectChangedRecording,
  replay,
} from "./replay.ts";
import {
  type ResumeParams,
  type ResumePreview,
  findPendingImport,
  planImported,
  resumeRequest,
  checkResumeParams,
} from "./resume-request.ts";
import {
  type ExecuteOptions,
  type RunReport,
  blockedReport,
  createRun,
  earlierReport,
  planResumeRun,
  reportUndone,
  resumeRun,
  startRun,
} from "./start-run.ts";

import { writeAttempt, writeSubmission } from "./worker/fleet-runs.ts";
import type { Submission } from "./worker/plan-fleet.ts";

/** Starts and resumes runs. It builds the adapters on first use. */
export class RunService {
  readonly #adapters: CoreAdapters;
  readonly #options: RunServiceOptions;
  #built: Promise<Adapters> | undefined;
  /** A plan's workflow was built with these adapters, so starting the plan must use the same ones. */
  readonly #planned = new WeakMap<StartPlan, { readonly adapters: Adapters }>();
  /** Gathered facts, also of plans of another service: the preflight of a first run has no store yet. */
  static readonly #facts = new WeakMap<StartPlan, SharedFacts | null>();

  constructor(adapters: CoreAdapters, options: RunServiceOptions) {
    this.#adapters = adapters;
    this.#options = options;
  }

  async adapters(): Promise<Adapters> {
    return await (this.#built ??= this.#build());
  }

  /** Throws if the preflight finds an error: then nothing was created. */
  async plan(
    params: StartParams,
    options: Omit<PlanOptions, "known" | "isAnnounced" | "isForgeDeclined"> & { readonly like?: StartPlan } = {},
  ): Promise<StartPlan> {
    checkStart(params);
    const { mode = "default", seed } = chosenSeed(params);
    const adapters = recordAdapters(await this.adapters(), mode);
    const { work, agent = null, limit = {}, labels = {}, id, base = null, again = false } = params;
    const { workflow, options: workflowOptions } = await chooseWorkflow(adapters, params);
    await (await loadPlugin(workflow.shape.name))?.check?.(adapters);
    const files = (params.workspace ?? (adapters.workspaces === null ? "none" : "new")) === "new";
    const agents = await agentsOf(workflow.shape.name, { agent, options: workflowOptions });
    checkAgents(adapters, agents);
    checkPrices(adapters, agents, limit);
    const roles = await rolesOf(workflow.shape.name, { agent, options: workflowOptions });
    checkTokens(adapters, roles, limit);
    const isAgentUnnamed = await lacksAgent(workflow.shape.name, { agent, options: workflowOptions });
    const asked = { work, agent, limit, labels, id, base, files, again, mode, seed };
    const request = {
      ...asked,
      workflow,
      options: workflowOptions,
      cwd: this.#options.directory,
      agents,
      roles,
      isAgentUnnamed,
    };
    const { like, ...how } = options;
    const known = like === undefined ? undefined : (RunService.#facts.get(like) ?? undefined);
    const isAnnounced = (run: string): boolean =>
      listStartingProcesses(this.#options.announces, []).some(
        (other) => other.run === run && other.pid !== process.pid,
      );
    const { plan, facts } = await planStart(adapters, request, {
      ...how,
      known,
      isAnnounced,
      isForgeDeclined: this.#options.forge.kind === "none",
    });
    this.#planned.set(plan, { adapters });
    RunService.#facts.set(plan, facts);
    return plan;
  }

  /**
   * Announces that this process (or `pid`) prepares a run, until the announcement is passed to `start` or `resume` and
   * the run's lease is held. null if there is no space for it.
   */
  announce(
    params: Pick<StartingProcess, "workflow" | "work"> & { readonly run?: string; readonly pid?: number },
  ): Announcement | null {
    const { clock } = this.#adapters;
    const { run = null, work, ...about } = params;
    const masked = maskValue(work, createMasking().mask);
    return announceStart(this.#options.announces, { ...about, run, work: masked, now: clock.now() });
  }

  /** Processes on this host that prepare a run and do not hold its lease yet. Changes nothing. */
  async starting(): Promise<readonly StartingProcess[]> {
    return listStartingProcesses(this.#options.announces, await this.#adapters.store.listLeases());
  }

  async start(
    plan: StartPlan,
    watching: Pick<StartParams, "signal" | "listen" | "sessionMs" | "loopSlot" | "priority"> & Announced,
  ): Promise<RunReport> {
    const { adapters } = this.#planned.get(plan) ?? { adapters: await this.adapters() };
    const { workflow, id: run } = plan;
    if (plan.earlier !== null) return await reportUndone(adapters, await earlierReport(adapters, plan.earlier));
    watching.starting?.name(run);
    for (const text of plan.preflight.flatMap(noticeLines))
      emitNote({ clock: adapters.clock, run, listen: watching.listen }, text);
    const untaken = seedNotice(adapters, plan.config);
    if (untaken !== null) emitNote({ clock: adapters.clock, run, listen: watching.listen }, untaken);
    const given = plan.config.inputs["priority"];
    const priority = watching.priority ?? (typeof given === "number" && given !== 0 ? given : undefined);
    if (priority !== undefined) await this.setPriority(run, priority);
    const execution = { ...watching, run, workflow: workflow.shape.name };
    return await this.#execute(execution, (watched) => startRun(adapters, plan, watched));
  }

  /** Creates the planned run without executing it. `submission`: what the store says of it from before its first checkpoint. */
  async submit(
    plan: StartPlan,
    { submission, starting }: { readonly submission: Submission } & Announced,
  ): Promise<void> {
    const { adapters } = this.#planned.get(plan) ?? { adapters: await this.adapters() };
    starting?.name(plan.id);
    // After a kill before the run exists, nothing is left that a later run with the same id would inherit.
    await createRun(adapters, plan, async () => {
      await writeSubmission(adapters.store, plan.id, submission);
      await this.setPriority(plan.id, submission.priority);
    });
    starting?.remove();
  }

  /** Submits an unfinished run: it is no longer paused, and gets these limits. A process that executes it keeps it until it stops. */
  async resubmit(run: string, submission: Submission, limit: Partial<Budget["limit"]>): Promise<void> {
    const adapters = await this.adapters();
    await this.withdrawSignal(run, "pause");
    await unpauseRun({ adapters, run });
    await releaseDeadLease(adapters, run);
    if (Object.keys(limit).length > 0) await raiseLimits({ adapters, run, limit });
    await this.setPriority(run, submission.priority);
    await writeSubmission(adapters.store, run, submission);
    await writeAttempt(adapters.store, run, null);
  }

  /**
   * Reports what changed since the run stopped, and what a resume would do about it. `programs`: also name the programs
   * that differ from those of the checkpoint, which a resume reports when it begins.
   */
  async preflight(params: ResumeParams, { programs = false } = {}): Promise<ResumePreview> {
    checkResumeParams(params);
    const adapters = await adaptersOfRun(await this.adapters(), params.run);
    await this.#checkFiles(adapters, params.run);
    const pending = await findPendingImport(adapters, params);
    if (pending !== null) return await planImported(adapters, pending, params);
    const planned = await planResumeRun(adapters, await resumeRequest(adapters, params));
    const differences = programs ? await this.compareToolchain(planned.checkpoint.planes) : [];
    const { plan } = planned;
    const stays =
      (plan.kind === "resume" || plan.kind === "warn") && !plan.actions.some(({ kind }) => kind === "go_back");
    // Edits after a clean stop are in the findings, and accepted ones are not put back.
    const asked = planned.findings.some(({ conflict }) => conflict === true);
    const halfDone = stays && !asked ? await describeHalfDone(adapters, planned.run) : null;
    const notes = [halfDone, differences.length === 0 ? null : differencesText(differences)];
    return { ...planned, notes: notes.filter((note) => note !== null) };
  }

  async resume(params: ResumeParams & Announced, planned?: ResumeCheck): Promise<RunReport> {
    const adapters = await adaptersOfRun(await this.adapters(), params.run);
    await this.#checkFiles(adapters, params.run);
    const pending = await findPendingImport(adapters, params);
    if (pending !== null) {
      // Checked before the import is adopted: the user may still decline.
      const held = blockedReport(await planImported(adapters, pending, params));
      if (held !== null) return held;
      await adoptImport(adapters, pending.run, pending.checkpoint, pending.adoption, params.answers ?? {});
    }
    // The adoption has gone back to the chosen checkpoint and set the limits already.
    const { from: _chosen, limits: _set, ...adopted } = params;
    const request = await resumeRequest(adapters, pending === null ? params : adopted);
    const { run, workflow, priority, signal = new AbortController().signal } = params;
    const refuse = async (): Promise<void> => {
      if (request.config.mode === "strict") await rejectChangedRecording(adapters, { run, workflow, signal });
    };
    const again = async (): Promise<ResumeCheck> => {
      await refuse();
      return await planResumeRun(adapters, request);
    };
    await refuse();
    const known = pending === null ? planned : undefined;
    const plans = { planned: known ?? (await planResumeRun(adapters, request)), again };
    // A run that has ended calls no agent. One that needs an answer first calls none yet.
    const { kind } = plans.planned.plan;
    if (kind === "resume" || kind === "warn" || kind === "ask") {
      const { agent, model, inputs: options } = request.config;
      const own = agent === null || model === null ? agent : `${agent}:${model}`;
      const { name } = request.workflow.shape;
      const agents = await agentsOf(name, { agent: own, options });
      const limit = { ...plans.planned.checkpoint.planes.position.budget.limit, ...params.limit };
      checkPrices(adapters, agents, limit);
      checkTokens(adapters, await rolesOf(name, { agent: own, options }), limit);
      for (const text of kind === "ask" ? [] : await checkVersions(adapters, agents))
        emitNote({ clock: adapters.clock, run, listen: params.listen }, text);
    }
    if (priority !== undefined) await this.setPriority(run, priority);
    await this.withdrawSignal(run, params.force === true ? "any" : "pause");
    const execution = { ...params, signal, workflow: request.workflow.shape.name };
    return await this.#execute(execution, (watched) => resumeRun(adapters, request, plans, watched));
  }

  /** A run that has ended reads no file any more. */
  async #checkFiles(adapters: Adapters, id: string): Promise<void> {
    const run = await adapters.store.getRun(id);
    if (run !== undefined && !isEnded(run.state)) await (await loadPlugin(run.workflow))?.check?.(adapters);
  }

  /**
   * Sends the signal to the process that executes the run. If there is none, this process handles it. After a kill at
   * any point, the signal was handled once or is still pending.
   */
  async sendSignal(params: Omit<SignalParams, "adapters">): Promise<SignalResult> {
    return await sendSignal({ adapters: await this.adapters(), ...params });
  }

  /** Withdraws the pending signal: "any", or only a pause. Returns whether there was one. */
  async withdrawSignal(run: string, kind: "pause" | "any"): Promise<boolean> {
    const { store } = this.#adapters;
    const pending = await pendingSignal(store, run);
    if (pending === null || (kind === "pause" && pending.kind !== "pause")) return false;
    return await withdrawSignal(store, pending);
  }

  /** Allowed at any time, whether or not another process executes the run. */
  async setPriority(run: string, priority: number): Promise<void> {
    await this.#adapters.store.setMeta(priorityKey(run), String(priority));
  }

  get loops(): SlotSettings {
    return this.#options.loops;
  }

  /**
   * Replays a recorded run from its record alone, and compares. Throws NOT_RECORDED if there is no record. Changes
   * nothing.
   */
  async replay(params: ReplayRequest): Promise<ReplayReport> {
    const adapters = await this.adapters();
    const { workflow } = params;
    const run = await knownRun(adapters.store, params.run);
    return await replay(adapters, {
      run,
      to: params.to ?? null,
      workflow,
      signal: params.signal ?? new AbortController().signal,
    });
  }

  /** Plans the repeated execution of a run as a new run. Without `publish` it asks before its first external effect. */
  async planRerun(params: {
    readonly run: string;
    readonly id?: string;
    readonly workflow?: Workflow;
    readonly publish?: boolean;
  }): Promise<StartPlan> {
    const adapters = await this.adapters();
    const run = await knownRun(adapters.store, params.run);
    const { id, workflow, publish = false } = params;
    return await planRerun(adapters, run, (start) => this.plan(start, { isRepeated: true }), {
      publish,
      ...(id === undefined ? {} : { id }),
      ...(workflow === undefined ? {} : { workflow: workflow }),
    });
  }

  /** Executes the plan and reports the first divergence from the first run. */
  async rerun(
    params: { readonly of: string; readonly plan: StartPlan } & Pick<StartParams, "signal" | "listen" | "sessionMs">,
  ): Promise<RerunReport> {
    const { of, plan, ...watching } = params;
    const { run, outcome } = await this.start(plan, watching);
    return await compareRerun(await this.adapters(), { of, run, outcome });
  }

  async approve(params: {
    readonly run: string;
    readonly answer: string;
    readonly by: string;
    readonly note?: string;
  }): Promise<void> {
    await answerDecision({ adapters: await this.adapters(), ...params });
  }

  /**
   * Files an issue for a task in words. The same text yields the same issue; null without a forge. `check` runs before a
   * new issue is created: if it throws, nothing is filed.
   */
  async fileTask(
    text: string,
    labels: readonly string[] = [],
    check: () => Promise<unknown> = () => Promise.resolve(),
  ): Promise<Work | null> {
    return await fileTask(await this.adapters(), text, labels, check);
  }

  /** The issue that `fileTask` filed for this text; null: none, or there is no forge. Changes nothing. */
  async findFiledTask(text: string): Promise<Work | null> {
    return await findFiledTask(await this.adapters(), text);
  }

  /**
   * Changes limits of the run's workflow, by the names of their flags: `target` of crunch, `max` of ralph. A run that
   * stopped at one of them is unfinished again. `resume` takes the same limits, and sets them once nothing prevents it.
   */
  async changeLimits(params: Pick<ResumeParams, "run"> & { readonly limits: JsonObject }): Promise<void> {
    const adapters = await this.adapters();
    const { run } = params;
    const saved = (await newestUsable(adapters.store, run)).checkpoint;
    // A strict run that would refuse to continue must keep its limits too.
    if (saved?.planes.config.mode === "strict" && (await planLimits(adapters, params)) !== null)
      await rejectChangedRecording(adapters, { run, workflow: undefined, signal: new AbortController().signal });
    await applyLimits(adapters, params);
  }

  /** Whether the run was imported and no workflow has adopted it yet. */
  async isPendingImport(params: Pick<ResumeParams, "run" | "from" | "force" | "limits">): Promise<boolean> {
    const adapters = await this.adapters();
    return (await needsAdoption(adapters, await knownRun(adapters.store, params.run), params)) !== null;
  }

  /**
   * Names the programs that differ from those of the checkpoint. Only agents that Holdfast knows are asked for their
   * version. Changes nothing.
   */
  async compareToolchain({ toolchain: before }: Planes): Promise<readonly string[]> {
    if (before === undefined) return [];
    const adapters = await this.adapters();
    const agents = Object.keys(before.agents).filter((name) => Object.hasOwn(AGENT_VERSIONS, name));
    // An agent that cannot be asked is not compared.
    await Promise.allSettled(agents.map((name) => adapters.agent(name).probe()));
    return compareToolchains(before, currentPrograms(adapters, before));
  }

  /** Sets up the worktree of a run whose files were restored, under the run's lease. */
  async setUpRestored(
    id: string,
    { signal, listen }: Pick<Parameters<typeof setUpRestored>[0], "signal" | "listen">,
  ): Promise<SetupOutcome> {
    const adapters = await this.adapters();
    const run = await knownRun(adapters.store, id);
    const workspace = await findRunWorkspace(adapters, run);
    const saved = (await newestUsable(adapters.store, id)).checkpoint;
    if (workspace === undefined || saved === undefined || !isSetUp(workspace, saved.planes)) return null;
    await using held = await acquireLease(adapters, id);
    const lost = new AbortController();
    held.onLost((error) => lost.abort(error));
    const stop = AbortSignal.any([signal, lost.signal]);
    return await setUpRestored({ adapters, run, lease: held.lease, workspace, saved, signal: stop, listen });
  }

  /** Whether the worktree of a run was set up, or was when its newest checkpoint was taken. */
  async isSetUp(id: string): Promise<boolean> {
    const { store } = this.#adapters;
    const workspace = await findRunWorkspace(this.#adapters, await knownRun(store, id));
    const saved = (await newestUsable(store, id)).checkpoint;
    return workspace !== undefined && saved !== undefined && isSetUp(workspace, saved.planes);
  }

  /** Ends the remaining processes of a run on this host. Returns how many there were. */
  async endProcesses(run: string): Promise<number> {
    const adapters = await this.adapters();
    return (await adapters.commands.endMarked(runMark(adapters, run))).ended;
  }

  async findRunFor(issue: number): Promise<FoundRun> {
    return await findRunFor({ adapters: this.#adapters, issue });
  }

  async #build(): Promise<Adapters> {
    const { forge: choice, decorate, ...options } = this.#options;
    const { workspaces, clock } = this.#adapters;
    // Loaded on demand: most commands need no forge.
    const { findForge } = await import("./find-forge.ts");
    const forge = await findForge({ choice, workspaces, clock, branches: createGitBranches() });
    const adapters = await buildAdapters({ ...options, adapters: this.#adapters, forge });
    return decorate === undefined ? adapters : decorate(adapters);
  }

  /** Executes with a slot if the workflow needs one, and keeps the directories that other tools read up to date. */
  async #execute(params: ExecuteRequest, work: (watching: ExecuteOptions) => Promise<RunReport>): Promise<RunReport> {
    const { workflow, run, loopSlot, sessionMs, starting, signal = new AbortController().signal } = params;
    const { directory: cwd, loopLayout, loops } = this.#options;
    const context = { adapters: this.#adapters, cwd, settings: loopLayout, limit: loops.max };
    const mirrored = { context, workflow, run, listen: listening(params) };
    try {
      return await mirroredWork(mirrored, async (listen) => {
        const notify = (text: string): void => emitNote({ clock: this.#adapters.clock, run, listen }, text);
        const slot = slotRequest({ workflow, loops, loopSlot, signal, notify });
        return await work({ signal, listen, sessionMs, slot });
      });
    } finally {
      starting?.remove();
      const { flushMetrics } = await import("./telemetry.ts");
      await flushMetrics();
    }
  }
}

interface RunServiceOptions extends AdapterOptions {
  /** The directory of the store, in which starting processes are announced. It may not exist yet. */
  readonly announces: string;
  readonly forge: ForgeChoice;
  readonly loopLayout: LayoutSettings;
  readonly loops: SlotSettings;
  readonly decorate: ((adapters: Adapters) => Adapters) | undefined;
}

interface Announced {
  /** Removed when the run's lease is held, or when the call ends. */
  readonly starting?: Announcement | null;
}

/** Every event except a note is emitted while the lease is held, so the first such event removes the announcement. */
function listening({ listen, starting }: Pick<ExecuteRequest, "listen" | "starting">): ProgressListener | undefined {
  if (starting === undefined || starting === null) return listen;
  return (event) => {
    if (event.kind !== "note") starting.remove();
    listen?.(event);
  };
}

interface ExecuteRequest extends Pick<StartParams, "signal" | "listen" | "sessionMs" | "loopSlot">, Announced {
  readonly run: string;
  readonly workflow: string;
}

function emitNote(
  to: { readonly clock: Clock; readonly run: string; readonly listen: ProgressListener | undefined },
  text: string,
): void {
  to.listen?.({ run: to.run, at: new Date(to.clock.now()).toISOString(), kind: "note", text });
}

/** Keeps the files that other tools read up to date while the run works, if its workflow has such files. */
async function mirroredWork(
  params: {
    readonly context: LayoutContext;
    readonly workflow: string;
    readonly run: string;
    readonly listen: ProgressListener | undefined;
  },
  work: (listen: ProgressListener | undefined) => Promise<RunReport>,
): Promise<RunReport> {
  const { run, listen } = params;
  const entry = LAYOUTS.find(({ workflow }) => workflow === params.workflow);
  if (entry === undefined) return await work(listen);
  const layout = await entry.load();
  const mirror = layout.follow(await new LayoutPlaces(entry, params.context).settle(run), run, listen);
  if (mirror === null) return await work(listen);
  await using following = mirror;
  return await work(following.listen);
}
