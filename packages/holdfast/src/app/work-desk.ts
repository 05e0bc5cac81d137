import type { Checkpoint, ExecutionConfig } from "../core/checkpoint.ts";
import { defaultFindingPolicy } from "../core/finding.ts";
import type { AgentArgs } from "../core/agent-args.ts";
import type { CheckpointSwitches } from "../core/checkpoint-switches.ts";
import type { ErrorPolicy } from "../core/error-policy/policy.ts";
import type { LoopLayoutSettings } from "../core/loop-layout.ts";
import type { LoopSettings } from "../core/loop-settings.ts";
import type { PriceTable } from "../core/price.ts";
import { isJsonObject } from "../core/json.ts";
import type { JsonObject } from "../core/json.ts";
import type { Budget } from "../core/position.ts";
import type { Answers } from "../core/resume.ts";
import { priorityKey } from "../core/priority.ts";
import { notBegun } from "../core/refusals.ts";
import type { RunSummary, Work } from "../core/run.ts";
import { answerDecision } from "../engine/answer.ts";
import type { Workflow } from "../engine/definition.ts";
import { giveOrder } from "../engine/give-order.ts";
import { knownRun } from "../engine/known-run.ts";
import type { OrderParams, Ordered } from "../engine/give-order.ts";
import type { SlotRequest } from "../engine/hold-slot.ts";
import { findRunFor } from "../engine/find-run.ts";
import type { FoundRun } from "../engine/find-run.ts";
import { newestWhole } from "../engine/newest-whole.ts";
import type { Parts } from "../engine/parts.ts";
import type { ProgressListener } from "../engine/progress-event.ts";
import { planTakeUp } from "../engine/resume-run.ts";
import type { TakeUpPlan } from "../engine/resume-run.ts";
import { runMark } from "../engine/run-mark.ts";
import type { WorkParts } from "../engine/work-parts.ts";
import type { ReplayReport } from "../engine/replay/replay-report.ts";
import { sha256 } from "../system/hash.ts";
import { randomSeed } from "../system/ids.ts";
import { createGitBranches } from "../workspaces/branch/git-branches.ts";
import type { Adoption } from "./foreign/adopt-import.ts";
import { adoptImport, awaitsAdoption, checkStage, newPlaceNote, planNewPlace } from "./foreign/adopt-import.ts";
import { planAdoption } from "./foreign/plan-adoption.ts";
import type { AdoptParams } from "./foreign/plan-adoption.ts";
import { buildParts } from "./build-parts.ts";
import { anyWorkflow, chooseWorkflow, ownWorkflow } from "./choose-workflow.ts";
import type { OwnWorkflow } from "./choose-workflow.ts";
import { findForge } from "./find-forge.ts";
import type { ForgeChoice } from "./find-forge.ts";
import { planStart } from "./plan-start.ts";
import { recordedParts } from "./recorded-parts.ts";
import { refuseChanged } from "./refuse-changed.ts";
import { replay } from "./replay-run.ts";
import { compareRerun, planRerun } from "./rerun.ts";
import type { RerunReport } from "./rerun.ts";
import { raiseIterations } from "./raise-iterations.ts";
import { raiseTarget } from "./raise-target.ts";
import type { StartPlan } from "./plan-start.ts";
import { planResumeRun, resumeRun, stopOf } from "./resume-run.ts";
import type { ResumeRequest } from "./resume-run.ts";
import { startRun } from "./start-run.ts";
import type { WorkReport } from "./start-run.ts";

export interface StartParams<S extends JsonObject = JsonObject> {
  /** "impl" (default): from an issue to a pull request. "crunch": phase by phase, with a team. "ralph": round and round until a command says that it is done. */
  readonly workflow?: OwnWorkflow | Workflow<S>;
  readonly work: Work;
  /** The workflow's own; kept with the run. */
  readonly options?: JsonObject;
  /** Who works, as `provider:model`. */
  readonly agent?: string | null;
  readonly limit?: Partial<Budget["limit"]>;
  readonly labels?: JsonObject;
  readonly id?: string;
  /** Of a task in words: another run of it, although one is under way. */
  readonly again?: boolean;
  /** Branch to start from; default the remote's own. */
  readonly base?: string | null;
  /** "new": a worktree of its own (default inside a repository). "none": values only. */
  readonly workspace?: "new" | "none";
  readonly signal?: AbortSignal;
  readonly listen?: ProgressListener;
  /** How long to work on it at most, in milliseconds: then it is saved and parked on "session". A new session has a new time. */
  readonly sessionMs?: number;
  /** Of a loop: whether it waits for a place when as many are at work as may be. */
  readonly place?: PlaceParams;
  /** Of a loop: who comes first when several wait. Kept; it can be changed at any time. */
  readonly priority?: number;
  /** What is recorded of it, and whether it may part from that; docs/reproducibility.md. Default "default": nothing beyond its journal. */
  readonly mode?: ExecutionConfig["mode"];
  /** Of a run in mode "seeded"; made up when absent. */
  readonly seed?: number;
}

export interface PlaceParams {
  /** "refuse" (default): LOOP_LIMIT. "wait": until there is one. "force": over the limit, said aloud. */
  readonly whenFull?: "refuse" | "wait" | "force";
  /** Another limit than the configured one. */
  readonly limit?: number | null;
}

export interface ResumeParams<S extends JsonObject = JsonObject> {
  readonly run: string;
  /** Needed for runs of a workflow of your own. */
  readonly workflow?: Workflow<S>;
  /** What is said to findings that need a decision. */
  readonly answers?: Answers;
  /** Sequence of a checkpoint to go back to. */
  readonly from?: number;
  /** Take up a run that has ended; needs `from`. */
  readonly force?: boolean;
  readonly limit?: Partial<Budget["limit"]>;
  /** Another agent than the one it had, as `provider:model`. */
  readonly agent?: string;
  /** Only wake it, if it is still parked until this time: LEASE_HELD when somebody else did. */
  readonly wakes?: string;
  /** For a run that was imported and is carried on for the first time; of no account for any other. */
  readonly adopt?: AdoptParams;
  readonly signal?: AbortSignal;
  readonly listen?: ProgressListener;
  /** How long to work on it at most, in milliseconds: then it is saved and parked on "session". A new session has a new time. */
  readonly sessionMs?: number;
  readonly place?: PlaceParams;
  readonly priority?: number;
}

export interface Preflight extends TakeUpPlan {
  /** What else whoever resumes must know: it hinders nothing. */
  readonly notes: readonly string[];
}

/** Where runs are begun and taken up. The parts that work needs are built when it is first asked for. */
export class WorkDesk {
  readonly #parts: Parts;
  readonly #options: {
    readonly directory: string;
    readonly forge: ForgeChoice;
    readonly agentIdleMs: number | null;
    readonly checkpointEveryMs: number | null;
    readonly checkpoints: CheckpointSwitches;
    readonly errorPolicy: ErrorPolicy;
    readonly prices: PriceTable;
    readonly agentArgs: AgentArgs;
    readonly loopLayout: LoopLayoutSettings;
    readonly loops: LoopSettings;
    readonly decorate: ((parts: WorkParts) => WorkParts) | undefined;
  };
  #built: Promise<WorkParts> | undefined;
  /** A plan's workflow was made with these parts: whoever starts it works with the same. */
  readonly #planned = new WeakMap<StartPlan, WorkParts>();

  constructor(
    parts: Parts,
    options: {
      readonly directory: string;
      readonly forge: ForgeChoice;
      readonly agentIdleMs: number | null;
      readonly checkpointEveryMs: number | null;
      readonly checkpoints: CheckpointSwitches;
      readonly errorPolicy: ErrorPolicy;
      readonly prices: PriceTable;
      readonly agentArgs: AgentArgs;
      readonly loopLayout: LoopLayoutSettings;
      readonly loops: LoopSettings;
      readonly decorate: ((parts: WorkParts) => WorkParts) | undefined;
    },
  ) {
    this.#parts = parts;
    this.#options = options;
  }

  async parts(): Promise<WorkParts> {
    return await (this.#built ??= this.#build());
  }

  async plan<S extends JsonObject>(params: StartParams<S>): Promise<StartPlan> {
    const { mode = "default", seed } = seeded(params);
    const parts = recordedParts(await this.parts(), mode);
    const { work, agent = null, limit = {}, labels = {}, id, base = null, again = false } = params;
    const chosen = chooseWorkflow(parts, params);
    const files = (params.workspace ?? (parts.workspaces === null ? "none" : "new")) === "new";
    checkAgents(parts, agent, chosen.options);
    const recording = { mode, seed };
    const plan = await planStart(parts, {
      ...chosen,
      work,
      agent,
      limit,
      labels,
      id,
      base,
      files,
      again,
      ...recording,
    });
    this.#planned.set(plan, parts);
    return plan;
  }

  async start(
    plan: StartPlan,
    watching: Pick<StartParams, "signal" | "listen" | "sessionMs" | "place" | "priority">,
  ): Promise<WorkReport> {
    const parts = this.#planned.get(plan) ?? (await this.parts());
    const { workflow, id: run } = plan;
    const { name } = workflow.shape;
    const untaken = seedNotice(parts, plan.config);
    if (untaken !== null)
      watching.listen?.({ run, at: new Date(parts.clock.now()).toISOString(), kind: "note", text: untaken });
    const { signal = new AbortController().signal, sessionMs } = watching;
    const given = plan.config.inputs["priority"];
    const priority = watching.priority ?? (typeof given === "number" && given !== 0 ? given : undefined);
    if (priority !== undefined) await this.setPriority(run, priority);
    return await this.#mirrored({ workflow: name, run, listen: watching.listen }, (listen) =>
      startRun(parts, plan, {
        signal,
        listen,
        sessionMs,
        slot: this.#slot({ ...watching, name, run, signal, listen }),
      }),
    );
  }

  /** What changed while nobody worked, and what a resume would do about it. */
  async preflight<S extends JsonObject>(params: ResumeParams<S>): Promise<Preflight> {
    const parts = await this.#partsOf(params.run);
    const pending = await this.#pending(parts, params);
    if (pending !== null) return await planImported(parts, pending, params);
    return { ...(await planResumeRun(parts, await this.#resumeRequest(parts, params))), notes: [] };
  }

  async resume<S extends JsonObject>(params: ResumeParams<S>, planned?: TakeUpPlan): Promise<WorkReport> {
    const parts = await this.#partsOf(params.run);
    const pending = await this.#pending(parts, params);
    if (pending !== null) {
      // Looked at before anything is taken over: whoever is asked may still say no.
      const held = stopOf(await planImported(parts, pending, params));
      if (held !== null) return held;
      await adoptImport(parts, pending.run, pending.checkpoint, pending.adoption);
    }
    const request = await this.#resumeRequest(parts, params);
    const signal = params.signal ?? new AbortController().signal;
    const workflow = params.workflow && anyWorkflow(params.workflow);
    const refuse = async (): Promise<void> => {
      if (request.config.mode === "strict") await refuseChanged(parts, { run: params.run, workflow, signal });
    };
    const again = async (): Promise<TakeUpPlan> => {
      await refuse();
      return await planResumeRun(parts, request);
    };
    await refuse();
    const known = pending === null ? planned : undefined;
    const plans = { planned: known ?? (await planResumeRun(parts, request)), again };
    const { run, listen: told, sessionMs, priority } = params;
    const { name } = request.workflow.shape;
    if (priority !== undefined) await this.setPriority(run, priority);
    await this.takeOrderBack(run, params.force === true ? "any" : "pause");
    return await this.#mirrored({ workflow: name, run, listen: told }, (listen) =>
      resumeRun(parts, request, plans, {
        signal,
        listen,
        sessionMs,
        slot: this.#slot({ ...params, name, run, signal, listen }),
      }),
    );
  }

  /** Ordered of whoever carries it; done by us where nobody does. Killed at any point, it is done once or stands. */
  async order(params: Omit<OrderParams, "parts">): Promise<Ordered> {
    return await giveOrder({ parts: await this.parts(), ...params });
  }

  /** What was ordered and not done: "any", or a pause alone. Was there one? */
  async takeOrderBack(run: string, kind: "pause" | "any"): Promise<boolean> {
    const { requests } = this.#parts;
    const order = (await requests?.orderFor(run)) ?? null;
    if (requests === null || order === null || (kind === "pause" && order.kind !== "pause")) return false;
    await requests.settle(order);
    return true;
  }

  /** At any time, whoever carries it. */
  async setPriority(run: string, priority: number): Promise<void> {
    await this.#parts.store.setMeta(priorityKey(run), String(priority));
  }

  get loops(): LoopSettings {
    return this.#options.loops;
  }

  /** Works a recorded run through once more, from its record alone, and compares. NOT_RECORDED when there is none. Changes nothing. */
  async replay<S extends JsonObject>(params: ReplayRequest<S>): Promise<ReplayReport> {
    const parts = await this.parts();
    const { workflow } = params;
    const run = await knownRun(parts.store, params.run);
    return await replay(parts, {
      run,
      to: params.to ?? null,
      workflow: workflow === undefined ? undefined : anyWorkflow(workflow),
      signal: params.signal ?? new AbortController().signal,
    });
  }

  /** What executing a run again would be: a run of its own. */
  async planRerun<S extends JsonObject>(params: {
    readonly run: string;
    readonly id?: string;
    readonly workflow?: Workflow<S>;
  }): Promise<StartPlan> {
    const parts = await this.parts();
    const run = await knownRun(parts.store, params.run);
    const { id, workflow } = params;
    return await planRerun(parts, run, (start) => this.plan(start), {
      ...(id === undefined ? {} : { id }),
      ...(workflow === undefined ? {} : { workflow: anyWorkflow(workflow) }),
    });
  }

  /** Executes it, and says where it parted from the first one. */
  async rerun(
    params: { readonly of: string; readonly plan: StartPlan } & Pick<StartParams, "signal" | "listen" | "sessionMs">,
  ): Promise<RerunReport> {
    const { of, plan, ...watching } = params;
    const { run, outcome } = await this.start(plan, watching);
    return await compareRerun(await this.parts(), { of, run, outcome });
  }

  async approve(params: { readonly run: string; readonly answer: string; readonly by: string }): Promise<void> {
    await answerDecision({ parts: await this.parts(), ...params });
  }

  /** An issue for a task in words, the same one for the same text; null without a forge to file it at. */
  async fileTask(text: string, labels: readonly string[] = []): Promise<Work | null> {
    const parts = await this.parts();
    if (parts.forge === null) return null;
    const key = `task/${sha256(text).slice(0, 32)}`;
    // Somebody who was killed while filing the same one may have left a request behind.
    const mark = `${parts.store.id}/${key}`;
    const { ended } = await parts.commands.endMarked(mark);
    const forge = parts.forge.marked(mark);
    if (ended > 0) await parts.wait(forge.lateMs, new AbortController().signal);
    const known = await forge.findIssue(key);
    const [title = text] = text.trim().split("\n");
    const issue = known ?? (await forge.createIssue({ title: title.slice(0, 120), body: text, labels, key }));
    return { kind: "issue", number: issue.number };
  }

  /** A crunch run goes on to another phase than it was to stop at; one that has stopped is taken up at the phase after. */
  async raiseTarget(params: { readonly run: string; readonly target: string }): Promise<void> {
    await raiseTarget(await this.parts(), params);
  }

  /** A loop may go round so often in all; one that stopped at its limit is taken up by the next resume. */
  async raiseIterations(params: { readonly run: string; readonly max: number }): Promise<void> {
    await raiseIterations(await this.parts(), params);
  }

  /** Ends what is left of a run's processes on this host; how many there were. */
  async endProcesses(run: string): Promise<number> {
    const parts = await this.parts();
    return (await parts.commands.endMarked(runMark(parts, run))).ended;
  }

  async findRunFor(issue: number): Promise<FoundRun> {
    return await findRunFor({ parts: this.#parts, issue });
  }

  /** With a tape of its own where the run is recorded. */
  async #partsOf(run: string): Promise<WorkParts> {
    const parts = await this.parts();
    if ((await parts.store.getRun(run)) === undefined) return parts;
    const saved = (await newestWhole(parts.store, run)).checkpoint?.planes.config;
    return recordedParts(parts, saved?.mode ?? "default");
  }

  async #build(): Promise<WorkParts> {
    const { forge: choice, decorate, ...options } = this.#options;
    const { workspaces, clock } = this.#parts;
    const forge = await findForge({ choice, workspaces, clock, branches: createGitBranches() });
    const parts = buildParts({ ...options, parts: this.#parts, forge });
    return decorate === undefined ? parts : decorate(parts);
  }

  /** null: a run of this workflow is none of those whose number is limited. */
  #slot(params: {
    readonly name: string;
    readonly run: string;
    readonly signal: AbortSignal;
    readonly listen: ProgressListener | undefined;
    readonly place?: PlaceParams;
  }): SlotRequest | null {
    const { loops } = this.#options;
    if (!loops.workflows.includes(params.name)) return null;
    const { whenFull = "refuse", limit = loops.max } = params.place ?? {};
    const { run, signal, listen } = params;
    const tell = (text: string): void =>
      listen?.({ run, at: new Date(this.#parts.clock.now()).toISOString(), kind: "note", text });
    return {
      limit,
      whenFull,
      signal,
      onWaiting: (atWork) => tell(`Waiting for a place: ${atWork.join(", ")} are at work, and ${limit ?? 0} may be`),
      onOver: (atWork) => tell(`Over the limit of ${limit ?? 0} loops: ${atWork.join(", ")} are at work too`),
    };
  }

  /** Crunch runs and loops keep the directories up to date that other readers of theirs look into, unasked. */
  async #mirrored(
    params: { readonly workflow: string; readonly run: string; readonly listen: ProgressListener | undefined },
    work: (listen: ProgressListener | undefined) => Promise<WorkReport>,
  ): Promise<WorkReport> {
    const { directory: cwd, loopLayout: settings } = this.#options;
    const followed = { parts: this.#parts, run: params.run, cwd, listen: params.listen };
    if (params.workflow === "crunch") {
      const { followCrunch } = await import("./foreign/follow-crunch.ts");
      await using mirror = await followCrunch(followed);
      return await work(mirror.listen);
    }
    if (params.workflow === "ralph" && settings.mirror) {
      const { followLoop } = await import("./foreign/follow-loop.ts");
      await using mirror = await followLoop({ ...followed, settings, limit: this.#options.loops.max });
      return await work(mirror.listen);
    }
    return await work(params.listen);
  }

  /** A run that was imported and not yet carried on, with all that it needs for that. */
  async #pending<S extends JsonObject>(parts: WorkParts, params: ResumeParams<S>): Promise<Pending | null> {
    const run = await parts.store.getRun(params.run);
    const checkpoint = run === undefined || params.from !== undefined ? null : await awaitsAdoption(parts, run);
    if (run === undefined || checkpoint === null) return null;
    const { adopt, workflow, agent } = params;
    const adoption = planAdoption(parts, run, checkpoint, {
      agent: agent ?? adopt?.agent ?? null,
      options: adopt?.options ?? {},
      workflow: workflow === undefined ? undefined : anyWorkflow(workflow),
    });
    checkStage(run, checkpoint, adoption.workflow);
    checkAgents(parts, agent ?? adopt?.agent ?? null, adoption.config.inputs);
    return { run, checkpoint, adoption };
  }

  async #resumeRequest<S extends JsonObject>(
    parts: WorkParts,
    params: ResumeParams<S>,
  ): Promise<ResumeRequest<JsonObject>> {
    const run = await parts.store.getRun(params.run);
    const saved = (await newestWhole(parts.store, params.run)).checkpoint?.planes.config;
    // Of its own options nothing is known yet: the workflow would blame what nobody left out.
    if (run !== undefined && run.latest === null && params.workflow === undefined) throw notBegun(run.id);
    const config = withAgent(saved, params.agent);
    const { answers = {}, from, force = false, limit = {}, workflow, wakes } = params;
    return {
      run: params.run,
      workflow: workflow === undefined ? ownWorkflow(parts, run, config?.inputs ?? {}) : anyWorkflow(workflow),
      config: config ?? NO_CONFIG,
      answers,
      from,
      force,
      limit,
      ...(wakes === undefined ? {} : { wakes }),
    };
  }
}

export interface ReplayRequest<S extends JsonObject = JsonObject> {
  readonly run: string;
  /** Sequence of the last checkpoint to be made again; absent: as far as the record goes. */
  readonly to?: number;
  /** Needed for runs of a workflow of your own. */
  readonly workflow?: Workflow<S>;
  readonly signal?: AbortSignal;
}

/** A run with a seed is a seeded one; one that is to be seeded gets a seed, which it keeps. */
function seeded(params: Pick<StartParams, "mode" | "seed">): {
  readonly mode: ExecutionConfig["mode"];
  readonly seed: number | null;
} {
  const { mode = params.seed === undefined ? "default" : "seeded", seed } = params;
  return { mode, seed: seed ?? (mode === "seeded" ? randomSeed() : null) };
}

/** Said at once: whoever believes that a seed is heeded would blame something else. */
function seedNotice(parts: WorkParts, { agent, seed }: ExecutionConfig): string | null {
  if (seed === null || agent === null || parts.agent(agent).capabilities.seed === true) return null;
  return `Seed ${seed} is kept with the run, but ${agent} has no way to take one: its answers may differ each time`;
}

interface Pending {
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly adoption: Adoption;
}

/** As it is now, before it is taken over: what carries it on is chosen then, so nothing about that can have changed. */
async function planImported<S extends JsonObject>(
  parts: WorkParts,
  { run, checkpoint, adoption }: Pending,
  params: ResumeParams<S>,
): Promise<Preflight> {
  const { position, config } = checkpoint.planes;
  const place = await planNewPlace(parts, run, adoption.base);
  const notes = place === undefined || place === null ? [] : [newPlaceNote(checkpoint, place)];
  const planned = await planTakeUp({
    parts,
    run: run.id,
    current: { definition: position.definition, config },
    policy: defaultFindingPolicy,
    freshness: adoption.workflow.freshness,
    answers: params.answers ?? {},
    force: params.force ?? false,
  });
  return { ...planned, notes };
}

const NO_CONFIG: ExecutionConfig = {
  agent: null,
  model: null,
  temperature: null,
  seed: null,
  mode: "default",
  tools: [],
  inputs: {},
};

function withAgent(config: ExecutionConfig | undefined, agent: string | undefined): ExecutionConfig | undefined {
  if (config === undefined || agent === undefined) return config;
  const colon = agent.indexOf(":");
  return {
    ...config,
    agent: colon === -1 ? agent : agent.slice(0, colon),
    model: colon === -1 ? null : agent.slice(colon + 1),
  };
}

/** Before anything is made: a run that cannot call its agent would stop at its first stage. */
function checkAgents(parts: WorkParts, agent: string | null, options: JsonObject): void {
  const models = isJsonObject(options["models"]) ? Object.values(options["models"]) : [];
  const { agents: instead } = parts.errorPolicy.fallback;
  for (const named of [agent, options["implModel"], options["reviewModel"], options["model"], ...models, ...instead]) {
    if (typeof named === "string") parts.agent(named.split(":")[0] ?? "");
  }
}
