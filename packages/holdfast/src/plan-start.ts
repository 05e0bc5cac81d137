/**
 * Plans the start of a run: workflow, id, base branch, worktree and options. Nothing is created before the plan is
 * applied.
 */
import { readRunTombstone } from "@holdfast/core/run-statuses";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type Adapters, findAnyWorktree, newWorktreePath } from "@holdfast/core/adapters";
import { splitAgent } from "@holdfast/core/agent";
import { EXECUTION_MODES, type ExecutionConfig, type InputsPlane, type IssueSnapshot } from "@holdfast/core/checkpoint";
import type { SlotRequest } from "@holdfast/core/hold-lease";
import { type JsonObject, sha256 } from "@holdfast/core/json";
import { type OptionKind, checkArgument, checkOptions } from "@holdfast/core/options";
import type { Budget } from "@holdfast/core/position";
import type { ProgressListener } from "@holdfast/core/progress";
import { type BeginPlan, type RunSummary, type Work, makeRunId, numberedId, planBegin } from "@holdfast/core/run";
import type { WorkflowShape } from "@holdfast/core/transitions";
import { canonicalJson, capture } from "@holdfast/core/values";
import type { Workflow } from "@holdfast/core/workflow";
import { HoldfastError, describeValue, usageError } from "@holdfast/platform/error";
import { randomSeed } from "@holdfast/platform/identity";
import {
  BUILT_IN_NAMES,
  type BuiltInName,
  DEFAULT_WORKFLOW,
  type SlotSettings,
  forgeUse,
  isBuiltIn,
  loadPlugin,
} from "@holdfast/workflows/built-in";
import type { AgentRole, CreatedWorkflow, WorkflowPlugin } from "@holdfast/workflows/plugin";
import {
  type RunPlace,
  type SharedFacts,
  type SharedRequest,
  observeBase,
  observeShared,
  observeStart,
} from "./observe-start.ts";
import { judgeStart, preflightError } from "./preflight.ts";
import type { BaseFacts, PreflightFinding } from "./preflight-facts.ts";

/** What a new run would be: what `--dry-run` prints and what starting the run then does. */
export interface StartPlan {
  readonly id: string;
  /**
   * A run of the same work that has ended. Starting this plan returns its outcome and does nothing; null: there is
   * none.
   */
  readonly earlier: RunSummary | null;
  readonly work: Work;
  readonly workflow: Workflow;
  readonly shape: WorkflowShape;
  readonly config: ExecutionConfig;
  readonly inputs: InputsPlane;
  readonly limit: Partial<Budget["limit"]>;
  readonly labels: JsonObject;
  /** null: the run works without files. */
  readonly place: {
    readonly branch: string;
    readonly worktree: string;
    readonly base: { readonly branch: string | null; readonly commit: string } | null;
  } | null;
  readonly issue: IssueSnapshot | null;
  /** Notices of the preflight; its errors prevent a plan. */
  readonly preflight: readonly PreflightFinding[];
  readonly forge: { readonly name: string; readonly location: string } | null;
}

interface StartRequest {
  readonly workflow: Workflow;
  readonly work: Work;
  readonly options: JsonObject;
  /** `provider:model`. */
  readonly agent: string | null;
  readonly limit: Partial<Budget["limit"]>;
  readonly labels: JsonObject;
  readonly id: string | undefined;
  /** Branch to start from; null: the remote's default, or what is checked out here. */
  readonly base: string | null;
  /** Whether the run works on files and so gets its own worktree. */
  readonly files: boolean;
  readonly mode?: ExecutionConfig["mode"];
  readonly seed?: number | null;
  /** Start a new run although an earlier one has ended. For a task in words, also although one is unfinished. */
  readonly again?: boolean;
}

/** How `plan` is called for. */
export interface PlanOptions {
  /** A dry run calls no agent, so a missing one is only reported. */
  readonly dryRun?: boolean;
  /** The caller waits for disk space. */
  readonly wait?: boolean;
  /** The run is submitted: a worker executes it. */
  readonly forWorkers?: boolean;
  /** The work was done before, so its issue may be closed: a rerun. */
  readonly isRepeated?: boolean;
  /** Facts of an earlier plan of the same request, which then are not gathered again. */
  readonly known?: SharedFacts | undefined;
  /** The config sets the forge to none. */
  readonly isForgeDeclined?: boolean;
  /** Whether another process has announced that it starts the run. */
  readonly isAnnounced?: (run: string) => boolean;
}

export interface PlannedStart {
  readonly plan: StartPlan;
  readonly facts: SharedFacts | null;
}

/** Throws if the preflight finds an error. Changes nothing, except that it may fetch. */
export async function planStart(
  adapters: Adapters,
  request: StartRequest &
    Pick<SharedRequest, "cwd" | "agents" | "isAgentUnnamed"> & { readonly roles: readonly AgentRole[] },
  options: PlanOptions = {},
): Promise<PlannedStart> {
  const { work, workflow, again = false, files } = request;
  const begins = await planId(adapters, request);
  const earlier = begins.kind === "ended" ? begins.run : null;
  const id = begins.kind === "ended" ? begins.run.id : begins.id;
  const planned = {
    id,
    earlier,
    work,
    workflow,
    shape: workflow.shape,
    config: configOf(request),
    limit: request.limit,
    labels: request.labels,
    forge: adapters.forge === null ? null : { name: adapters.forge.name, location: adapters.forge.location },
  };
  const inputs = { issue: null, task: work.kind === "task" ? work.text : null, base: null, plan: null };
  // The issue of ended work is not read again: it may be gone by now.
  if (earlier !== null) return { plan: { ...planned, inputs, place: null, issue: null, preflight: [] }, facts: null };
  const { naming } = workflow;
  const here = naming?.fromCheckout ?? false;
  const { cwd, agents, isAgentUnnamed, base } = request;
  const asked = { cwd, files, here, base, agents, isAgentUnnamed, options: request.options };
  const shared = options.known ?? (await observeShared(adapters, asked));
  const { facts, issue, place } = await observeStart(adapters, shared, {
    run: id,
    work,
    forgeUse: forgeUse(workflow.shape.name),
    isForgeDeclined: options.isForgeDeclined ?? false,
    forWorkers: options.forWorkers ?? false,
    again: again || options.isRepeated === true,
    needsFiles: adapters.workspaces === null && isBuiltIn(workflow.shape.name),
    roles: request.roles,
    isAnnounced: options.isAnnounced ?? (() => false),
    place: async (found) =>
      files ? await findPlace(adapters, id, naming?.branch?.({ run: id, issue: found }) ?? undefined) : null,
  });
  const preflight = judgeStart(facts, options);
  const error = preflightError(preflight);
  if (error !== null) throw error;
  const plan: StartPlan = {
    ...planned,
    inputs: { ...inputs, issue },
    place:
      place === null ? null : { branch: place.branch, worktree: place.worktree, base: startOf(facts.repository?.base) },
    issue,
    preflight,
  };
  return { plan, facts: shared };
}

function startOf(base: BaseFacts | undefined | null): NonNullable<StartPlan["place"]>["base"] {
  return base?.kind === "found" ? { branch: base.branch, commit: base.commit } : null;
}

async function planId(adapters: Adapters, request: StartRequest): Promise<BeginPlan> {
  const { work, again = false } = request;
  const { shape, naming } = request.workflow;
  const id = request.id ?? naming?.id ?? null;
  const nameOf = namesOf(request);
  // A chosen id names one run, so the others need not be read, unless `again` needs an id that is not taken.
  const named = id === null || again ? null : await findNamed(adapters, id);
  const newName = nameOf ?? (() => makeRunId({ work, random: adapters.random() }));
  const runs = named === null ? await adapters.store.listRuns() : typeof named === "string" ? [] : [named];
  const plan = planBegin(runs, { workflow: shape.name, work, again, id, nameOf: newName });
  if (plan.kind !== "begin") return plan;
  // The ids of removed runs are not used again: their receipts and refs at a remote name them.
  let free = plan.id;
  if (named === "absent" && free === id) return { kind: "begin", id: free };
  for (let count = 2; (await readRunTombstone(adapters.store, free)) !== undefined; count += 1) free = newName(count);
  return { kind: "begin", id: free };
}

/** A removed run is still in the store. */
async function findNamed({ store }: Adapters, id: string): Promise<RunSummary | "absent" | "removed"> {
  const run = await store.getRun(id);
  if (run === undefined) return "absent";
  return (await readRunTombstone(store, id)) === undefined ? run : "removed";
}

/**
 * Ids depend on the work alone: two processes that start the same work at once get the same run. The lease then
 * decides which one works. null: the id of this work must be random.
 */
function namesOf(request: StartRequest): ((count: number) => string) | null {
  const { work, workflow, id = workflow.naming?.id } = request;
  const named = id === undefined ? null : (count: number) => numberedId(id, count);
  switch (work.kind) {
    case "issue":
      return named ?? ((count) => numberedId(`issue-${work.number}`, count));
    case "task": {
      const { text } = work;
      const byText = workflow.naming?.task ?? (({ task, count }) => taskRunId(workflow.shape.name, task, count));
      return (count) => (count === 1 && id !== undefined ? id : byText({ task: text, count }));
    }
    case "none":
      return named;
  }
}

/** Returns an id such as "fix-login-bug-1f0c2d3e". */
function taskRunId(workflow: string, task: string, count: number): string {
  const digest = sha256(`holdfast-task-1\n${canonicalJson([workflow, task, count])}`);
  return makeRunId({ work: { kind: "task", text: task }, random: digest.slice(0, 8) });
}

export function configOf(request: Pick<StartRequest, "agent" | "options" | "mode" | "seed">): ExecutionConfig {
  const { agent } = request;
  const named = agent === null ? null : splitAgent(agent);
  return {
    agent: named?.provider ?? null,
    model: named?.model ?? null,
    temperature: null,
    seed: request.seed ?? null,
    mode: request.mode ?? "default",
    tools: [],
    inputs: request.options,
  };
}

/** The worktree that a run with this id would use. */
export async function planWorktree(
  adapters: Adapters,
  id: string,
  base: string | null,
  params: {
    readonly branch?: string | undefined;
    /** Without a named base, start from the commit that is checked out here. */
    readonly here?: boolean | undefined;
  } = {},
): Promise<StartPlan["place"]> {
  const { workspaces } = adapters;
  const { branch, worktree } = await findPlace(adapters, id, params.branch);
  const folder = workspaces === null ? null : await findAnyWorktree(workspaces);
  if (folder === null || (params.here === true && base === null)) return { branch, worktree, base: null };
  const found = await observeBase(adapters, folder, { base });
  if (found.base?.kind === "missing")
    throw usageError(
      `The remote has no branch ${found.base.branch} to start from`,
      "Push it first, or name another one with --base.",
    );
  return { branch, worktree, base: startOf(found.base) };
}

async function findPlace(adapters: Adapters, id: string, branch = `holdfast/${id}`): Promise<RunPlace> {
  const { workspaces } = adapters;
  if (workspaces === null) {
    throw new HoldfastError({
      code: "NOT_A_REPOSITORY",
      message: "This workflow needs files, and this is not a git repository",
      hint: "Run it inside a clone of the repository.",
    });
  }
  const trees = await workspaces.list();
  const own = trees.find(({ run, sideWorktree }) => run === id && !sideWorktree);
  return {
    branch: own?.branch?.replace(/^refs\/heads\//, "") ?? branch,
    worktree: own?.exists === true ? own.path : newWorktreePath(adapters, trees, id),
    trees,
  };
}

/** The caller's request to start a run. */
export interface StartParams {
  /**
   * "impl" (default): from an issue to a pull request. "crunch": phase by phase, with a team. "ralph": iterate until a
   * command succeeds.
   */
  readonly workflow?: BuiltInName | Workflow;
  readonly work: Work;
  /** The workflow's own options; stored with the run. */
  readonly options?: JsonObject;
  /** The agent, as `provider:model`. */
  readonly agent?: string | null;
  readonly limit?: Partial<Budget["limit"]>;
  readonly labels?: JsonObject;
  readonly id?: string;
  /**
   * Start a new run although an earlier one of the same work has ended. Without it, the outcome of that run is returned
   * and nothing is done. For a task in words, also although a run of it is unfinished.
   */
  readonly again?: boolean;
  /** Branch to start from; default: the remote's default branch. */
  readonly base?: string | null;
  /** "new": the run gets its own worktree (default inside a repository). "none": values only. */
  readonly workspace?: "new" | "none";
  readonly signal?: AbortSignal;
  readonly listen?: ProgressListener;
  /**
   * The longest time to work in this session, in milliseconds. After it the run is saved and waits on "session". Each
   * session has its own limit.
   */
  readonly sessionMs?: number;
  /** For a loop: whether it waits for a slot when the concurrency limit is reached. */
  readonly loopSlot?: SlotOptions;
  /** For a loop: its priority in the queue. Stored, and can be changed at any time. */
  readonly priority?: number;
  /**
   * The recording mode, and whether the run may diverge from its record; docs/reproducibility.md. "default" records
   * only the journal.
   */
  readonly mode?: ExecutionConfig["mode"];
  /** Seed of a run in mode "seeded"; generated if absent. */
  readonly seed?: number;
}

const START_OPTIONS = {
  workflow: "any",
  work: "object",
  options: "object",
  agent: "textOrNull",
  limit: "object",
  labels: "object",
  id: "text",
  again: "flag",
  base: "textOrNull",
  workspace: ["new", "none"],
  signal: "signal",
  listen: "function",
  sessionMs: "amount",
  loopSlot: "object",
  priority: "number",
  mode: EXECUTION_MODES,
  seed: "number",
} satisfies Readonly<Record<keyof StartParams, OptionKind>>;

/** Throws USAGE or NOT_JSON for what an untyped caller may pass. Nothing is created before. */
export function checkStart(params: StartParams): void {
  checkOptions("start", params, START_OPTIONS);
  const { work, options, labels, limit, workflow } = params;
  checkArgument("start", "work", work, "object");
  capture({ work, options: options ?? {}, labels: labels ?? {}, limit: limit ?? {} });
  checkWorkflowArgument("start", workflow);
}

/** Throws USAGE unless the workflow is absent, a name, or what `defineWorkflow` returned. */
export function checkWorkflowArgument(call: string, workflow: unknown): void {
  if (workflow === undefined || typeof workflow === "string") return;
  if (isWorkflow(workflow)) return;
  throw usageError(
    `${call} cannot use ${describeValue(workflow)} for workflow`,
    `Give what defineWorkflow returned, or one of ${BUILT_IN_NAMES.join(", ")}.`,
  );
}

/** The workflow of a new run. Throws USAGE for options that it does not have. */
export async function chooseWorkflow(
  adapters: Adapters,
  params: Pick<StartParams, "workflow" | "options">,
): Promise<CreatedWorkflow> {
  const { workflow = DEFAULT_WORKFLOW, options = {} } = params;
  if (typeof workflow !== "string") return { workflow, options };
  const plugin = await loadPlugin(workflow);
  if (plugin !== null) return plugin.create(options, adapters);
  throw usageError(
    `There is no workflow ${describeValue(workflow)}`,
    `Give one of ${BUILT_IN_NAMES.join(", ")}, or what defineWorkflow returned.`,
  );
}

/** The built-in workflow of an existing run. Throws USAGE for a run of a workflow that is not built in. */
export async function pluginOf(run: RunSummary | undefined): Promise<WorkflowPlugin> {
  const plugin = await loadPlugin(run?.workflow ?? DEFAULT_WORKFLOW);
  if (plugin !== null) return plugin;
  if (run?.workflow === "manual")
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `Run ${run.id} was saved by hand: no workflow executes it`,
      hint: `To go back to a checkpoint: \`holdfast restore ${run.id}@N\`; \`holdfast list ${run.id}\` shows them.`,
      data: { run: run.id },
    });
  throw usageError(
    `Run ${run?.id ?? ""} follows the workflow ${run?.workflow ?? ""}, which must be given to continue it`,
    `Name the file that defines it: \`holdfast resume ${run?.id ?? ""} --workflow FILE\`.`,
  );
}

/** Loads the workflow that a file exports, as `default` or as `workflow`. Node itself reads TypeScript. */
export async function loadWorkflow(path: string, cwd: string): Promise<Workflow> {
  const file = resolve(cwd, path);
  const loaded = await load(file);
  const found = [loaded["default"], loaded["workflow"]].find(isWorkflow);
  if (found !== undefined) return found;
  throw new HoldfastError({
    code: "WORKFLOW_INVALID",
    message: `${file} exports no workflow`,
    hint: "Add `export default defineWorkflow({ ... })`; see docs/library.md.",
  });
}

async function load(file: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const module: unknown = await import(pathToFileURL(file).href);
    return isRecord(module) ? module : {};
  } catch (cause) {
    // Node adds the file of Holdfast that imports it, which the user cannot change.
    const why = (cause instanceof Error ? cause.message : String(cause)).replace(/ imported from .*/, "");
    throw new HoldfastError({
      code: "WORKFLOW_INVALID",
      message: `The workflow ${file} cannot be loaded: ${why}`,
      hint: "Give the path of a file that Node can import; in TypeScript use only syntax that can be erased.",
      cause,
    });
  }
}

/** Checks the shape instead of the class, because another copy of this library may have made the workflow. */
function isWorkflow(value: unknown): value is Workflow {
  return (
    isRecord(value) &&
    isRecord(value["shape"]) &&
    typeof value["definition"] === "string" &&
    isRecord(value["stages"]) &&
    typeof value["initialState"] === "function" &&
    typeof value["parseState"] === "function" &&
    typeof value["guard"] === "function"
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** A run with a seed is in mode "seeded". A run in that mode without a seed gets one, which it stores. */
export function chosenSeed(params: Pick<StartParams, "mode" | "seed">): {
  readonly mode: ExecutionConfig["mode"];
  readonly seed: number | null;
} {
  const { mode = params.seed === undefined ? "default" : "seeded", seed } = params;
  return { mode, seed: seed ?? (mode === "seeded" ? randomSeed() : null) };
}

/** Warns at the start if the agent ignores the seed: otherwise the user would look for the cause elsewhere. */
export function seedNotice(adapters: Adapters, { agent, seed }: ExecutionConfig): string | null {
  if (seed === null || agent === null || adapters.agent(agent).capabilities.seed === true) return null;
  return `Seed ${seed} is stored with the run, but ${agent} does not accept a seed: its answers may differ each time`;
}

/**
 * Files an issue for a task in words. The same text yields the same issue; null without a forge. `check` runs before a new
 * issue is created: if it throws, nothing is filed.
 */
export async function fileTask(
  adapters: Adapters,
  text: string,
  labels: readonly string[],
  check: () => Promise<unknown>,
): Promise<Work | null> {
  if (adapters.forge === null) return null;
  const key = taskKey(text);
  // A process that was killed while it filed the same issue may have left a request behind.
  const mark = `${adapters.store.id}/${key}`;
  const { ended, supported } = await adapters.commands.endMarked(mark);
  const forge = adapters.forge.marked(mark);
  if (ended > 0 || !supported) await adapters.wait(forge.lateMs, new AbortController().signal);
  const known = await forge.findIssue(key);
  if (known === null) await check();
  const [title = text] = text.trim().split("\n");
  const issue = known ?? (await forge.createIssue({ title: title.slice(0, 120), body: text, labels, key }));
  return { kind: "issue", number: issue.number };
}

/** The issue of an earlier `fileTask` with this text; null: none, or there is no forge. */
export async function findFiledTask({ forge }: Pick<Adapters, "forge">, text: string): Promise<Work | null> {
  const issue = (await forge?.findIssue(taskKey(text))) ?? null;
  return issue === null ? null : { kind: "issue", number: issue.number };
}

function taskKey(text: string): string {
  return `task/${sha256(text).slice(0, 32)}`;
}

/** How a run of this workflow acquires a slot; null: the workflow has no concurrency limit. */
export function slotRequest(params: {
  readonly workflow: string;
  readonly loops: SlotSettings;
  readonly loopSlot: SlotOptions | undefined;
  readonly signal: AbortSignal;
  readonly notify: (text: string) => void;
}): SlotRequest | null {
  const { loops, signal, notify } = params;
  if (!loops.workflows.includes(params.workflow)) return null;
  const { whenFull = "refuse", limit = loops.max } = params.loopSlot ?? {};
  return {
    limit,
    whenFull,
    signal,
    onWaiting: (atWork) =>
      notify(`Waiting for a slot: ${atWork.join(", ")} are running, and the limit is ${limit ?? 0}`),
    onOver: (atWork) => notify(`Over the limit of ${limit ?? 0} loops: ${atWork.join(", ")} are running too`),
  };
}

export interface SlotOptions {
  /**
   * What to do if no slot is free. "refuse" (default): throw LOOP_LIMIT. "wait": wait for one. "force": exceed the
   * limit and report it.
   */
  readonly whenFull?: "refuse" | "wait" | "force";
  /** Replaces the configured limit. */
  readonly limit?: number | null;
}
