import { basename, dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type Adapters, findAnyWorktree } from "@holdfast/core/adapters";
import { splitAgent } from "@holdfast/core/agent";
import type { ExecutionConfig, InputsPlane, IssueSnapshot } from "@holdfast/core/checkpoint";
import type { SlotRequest } from "@holdfast/core/hold-lease";
import { type JsonObject, pureSha256, sha256 } from "@holdfast/core/json";
import type { Budget } from "@holdfast/core/position";
import type { ProgressListener } from "@holdfast/core/progress";
import { type BeginPlan, type RunSummary, type Work, makeRunId, numberedId, planBegin } from "@holdfast/core/run";
import type { WorkflowShape } from "@holdfast/core/transitions";
import { canonicalJson } from "@holdfast/core/values/canonical-json";
import type { Workflow } from "@holdfast/core/workflow";
import { HoldfastError } from "@holdfast/platform/error";
import { randomSeed } from "@holdfast/platform/identity";
import { type CrunchOptions, crunchOptionsJson, parseCrunchOptions } from "@holdfast/workflows/crunch/options";
import { branchName } from "@holdfast/workflows/crunch/phases";
import { crunchWorkflow } from "@holdfast/workflows/crunch/workflow";
import { implOptionsJson, parseImplOptions } from "@holdfast/workflows/impl/options";
import { implWorkflow } from "@holdfast/workflows/impl/workflow";
import {
  type LoopOptions,
  type SlotSettings,
  loopOptionsJson,
  makeLoopId,
  parseLoopOptions,
} from "@holdfast/workflows/ralph/options";
import { ralphWorkflow } from "@holdfast/workflows/ralph/workflow";

/** What a new run would be: all that `--dry-run` prints and that starting it then does. */
export interface StartPlan<S extends JsonObject = JsonObject> {
  readonly id: string;
  /** A run of the same work has ended: starting this plan returns its outcome and does nothing. */
  readonly earlier: RunSummary | null;
  readonly work: Work;
  readonly workflow: Workflow<S>;
  readonly shape: WorkflowShape;
  readonly config: ExecutionConfig;
  readonly inputs: InputsPlane;
  readonly limit: Partial<Budget["limit"]>;
  readonly labels: JsonObject;
  /** null: it works without files. */
  readonly place: {
    readonly branch: string;
    readonly worktree: string;
    readonly base: { readonly branch: string | null; readonly commit: string } | null;
  } | null;
  readonly issue: IssueSnapshot | null;
  readonly forge: { readonly name: string; readonly location: string } | null;
}

interface StartRequest<S extends JsonObject> {
  readonly workflow: Workflow<S>;
  readonly work: Work;
  readonly options: JsonObject;
  /** `provider:model`. */
  readonly agent: string | null;
  readonly limit: Partial<Budget["limit"]>;
  readonly labels: JsonObject;
  readonly id: string | undefined;
  /** Branch to start from; null: the remote's default, or what is checked out here. */
  readonly base: string | null;
  /** Without a named base, does it begin on the commit that is checked out here? */
  readonly here?: boolean | undefined;
  /** Does it work in files? Then it gets a worktree of its own. */
  readonly files: boolean;
  readonly mode?: ExecutionConfig["mode"];
  readonly seed?: number | null;
  /** Name of its branch, by the issue where there is one; null: `holdfast/<run>`. */
  readonly branch?: BranchNaming | undefined;
  /** Ids for a task in words, first, second, …; absent: made from the workflow and the text. */
  readonly naming?: RunNaming | undefined;
  /** Begin a new run although an earlier one has ended; of a task also although one is unfinished. */
  readonly again?: boolean;
}

type RunNaming = (of: { readonly task: string; readonly count: number }) => string;

/** Told from the work and the id alone, so that whoever starts the same run again means the same branch. */
type BranchNaming = (of: { readonly run: string; readonly issue: IssueSnapshot | null }) => string | null;

/** Looks only (a fetch apart). */
export async function planStart<S extends JsonObject>(
  parts: Adapters,
  request: StartRequest<S>,
): Promise<StartPlan<S>> {
  const { work, workflow } = request;
  const begins = await planId(parts, request);
  const earlier = begins.kind === "ended" ? begins.run : null;
  const id = begins.kind === "ended" ? begins.run.id : begins.id;
  // Work that has ended is not looked up again: its issue may be gone by now.
  const issue = earlier === null ? await readIssue(parts, work) : null;
  return {
    id,
    earlier,
    work,
    workflow,
    shape: workflow.shape,
    config: configOf(request),
    inputs: { issue, task: work.kind === "task" ? work.text : null, base: null, plan: null },
    limit: request.limit,
    labels: request.labels,
    place:
      request.files && earlier === null
        ? await planWorktree(parts, id, request.base, request.branch?.({ run: id, issue }) ?? undefined, request.here)
        : null,
    issue,
    forge: parts.forge === null ? null : { name: parts.forge.name, location: parts.forge.location },
  };
}

async function readIssue(parts: Adapters, work: Work): Promise<IssueSnapshot | null> {
  if (work.kind !== "issue" || parts.forge === null) return null;
  const issue = await parts.forge.getIssue(work.number);
  if (issue !== null && issue.number === work.number) return issue;
  throw new HoldfastError({
    code: "USAGE",
    message: `There is no issue ${work.number} at ${parts.forge.location}`,
    hint: `Check the number; the forge is ${parts.forge.name}.`,
  });
}

async function planId<S extends JsonObject>(parts: Adapters, request: StartRequest<S>): Promise<BeginPlan> {
  const { work, again = false, id = null } = request;
  const workflow = request.workflow.shape.name;
  const nameOf = namesOf(request);
  return planBegin(await parts.store.listRuns(), {
    workflow,
    work,
    again,
    id,
    nameOf: nameOf ?? (() => makeRunId({ work, random: parts.random() })),
  });
}

/**
 * Ids depend on the work alone, so that two processes that start the same work at the same moment mean the same run, and the lease decides
 * which of them works. null: only chance tells one run of this work from another.
 */
function namesOf<S extends JsonObject>(request: StartRequest<S>): ((count: number) => string) | null {
  const { work, naming, workflow, id } = request;
  const named = id === undefined ? null : (count: number) => numberedId(id, count);
  switch (work.kind) {
    case "issue":
      return named ?? ((count) => numberedId(`issue-${work.number}`, count));
    case "task": {
      const { text } = work;
      const byText = naming ?? (({ task, count }) => taskRunId(workflow.shape.name, task, count));
      return (count) => (count === 1 && id !== undefined ? id : byText({ task: text, count }));
    }
    case "none":
      return named;
  }
}

/** "fix-login-bug-1f0c2d3e". */
function taskRunId(workflow: string, task: string, count: number): string {
  const digest = pureSha256(`holdfast-task-1\n${canonicalJson([workflow, task, count])}`);
  return makeRunId({ work: { kind: "task", text: task }, random: digest.slice(0, 8) });
}

export function configOf(
  request: Pick<StartRequest<JsonObject>, "agent" | "options" | "mode" | "seed">,
): ExecutionConfig {
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

/** Where a run of this id would work. */
export async function planWorktree(
  parts: Adapters,
  id: string,
  base: string | null,
  branch = `holdfast/${id}`,
  here = false,
): Promise<StartPlan["place"]> {
  const { workspaces } = parts;
  if (workspaces === null) {
    throw new HoldfastError({
      code: "NOT_A_REPOSITORY",
      message: "This workflow works on files, and there is no git repository here",
      hint: "Run it inside a clone of the repository that the work is about.",
    });
  }
  const trees = await workspaces.list();
  const own = trees.find(({ run, aside }) => run === id && !aside);
  const [main] = trees;
  const beside =
    main === undefined || workspaces.bare
      ? join(workspaces.commonDir, "trees", id)
      : join(dirname(main.path), `${basename(main.path)}-worktrees`, id);
  return {
    branch: own?.branch?.replace(/^refs\/heads\//, "") ?? branch,
    worktree: (own?.exists === true ? own.path : undefined) ?? parts.worktreePath?.(id) ?? beside,
    base: here && base === null ? null : await findBase(parts, await findAnyWorktree(workspaces), base),
  };
}

/** Where the remote stands now, whatever is checked out here; null: there is no remote that tells, and HEAD will do. */
async function findBase(
  parts: Adapters,
  folder: string | null,
  named: string | null,
): Promise<{ readonly branch: string | null; readonly commit: string } | null> {
  if (folder === null) return null;
  const branch = await parts.branches.asking(folder);
  if ((await branch.remote()) === null) return null;
  await branch.fetch();
  const name = named ?? (await branch.defaultBranch());
  if (name === null) return null;
  const commit = await branch.remoteBranch(name);
  if (commit !== null) return { branch: name, commit };
  if (named === null) return null;
  throw new HoldfastError({
    code: "USAGE",
    message: `The remote has no branch ${named} to start from`,
    hint: "Push it first, or name another one with --base.",
  });
}

/** A run that is to be begun, as whoever wants it says it. */
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
  /**
   * Begin a new run although an earlier one of the same work has ended. Without it the outcome of that run is returned and nothing is done. Of a
   * task in words also although a run of it is unfinished.
   */
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
  readonly place?: SlotOptions;
  /** Of a loop: who comes first when several wait. Kept; it can be changed at any time. */
  readonly priority?: number;
  /** What is recorded of it, and whether it may part from that; docs/reproducibility.md. Default "default": nothing beyond its journal. */
  readonly mode?: ExecutionConfig["mode"];
  /** Of a run in mode "seeded"; made up when absent. */
  readonly seed?: number;
}

/** Those that are built in, by name. */
type OwnWorkflow = "impl" | "crunch" | "ralph";

export function isOwnWorkflow(name: string): name is OwnWorkflow {
  return name === "impl" || name === "crunch" || name === "ralph";
}

interface ChosenWorkflow {
  readonly workflow: Workflow<JsonObject>;
  /** As the run keeps them. */
  readonly options: JsonObject;
  readonly branch?: BranchNaming;
  readonly naming?: RunNaming;
  /** The id that its options name. */
  readonly id?: string;
  /** Its work is for whoever started it, so it begins on what they have checked out. */
  readonly here?: boolean;
}

/** What a new run follows. USAGE for options that it does not have. */
export function chooseWorkflow<S extends JsonObject>(
  parts: Adapters,
  params: { readonly workflow?: OwnWorkflow | Workflow<S>; readonly options?: JsonObject },
): ChosenWorkflow {
  const given = params.options ?? {};
  if (params.workflow === undefined || params.workflow === "impl") {
    const { options } = parseImplOptions(given);
    return { workflow: anyWorkflow(implWorkflow(options, parts)), options: implOptionsJson(options) };
  }
  if (params.workflow === "crunch") {
    const options = parseCrunchOptions(given);
    const workflow = anyWorkflow(crunchWorkflow(options, parts));
    return { workflow, options: crunchOptionsJson(options), branch: crunchBranch(options) };
  }
  if (params.workflow === "ralph") {
    const options = parseLoopOptions(given);
    const workflow = anyWorkflow(ralphWorkflow(options, parts));
    const named = options.loopId === null ? {} : { id: options.loopId };
    const naming = loopNaming(options);
    return { workflow, options: loopOptionsJson(options), naming, ...named, here: !options.pullRequest };
  }
  return { workflow: anyWorkflow(params.workflow), options: given };
}

/** What a run goes on with that follows one of ours, by the options that it keeps. */
export function ownWorkflow(parts: Adapters, run: RunSummary | undefined, options: JsonObject): Workflow<JsonObject> {
  if (run === undefined || run.workflow === "impl")
    return anyWorkflow(implWorkflow(parseImplOptions(options).options, parts));
  if (run.workflow === "crunch") return anyWorkflow(crunchWorkflow(parseCrunchOptions(options), parts));
  if (run.workflow === "ralph") return anyWorkflow(ralphWorkflow(parseLoopOptions(options), parts));
  throw new HoldfastError({
    code: "USAGE",
    message: `Run ${run.id} follows the workflow ${run.workflow}, which must be given to go on with it`,
    hint: `Name the file that defines it: \`holdfast resume ${run.id} --workflow FILE\`.`,
  });
}

/**
 * A workflow reads its own state only, and parses it when a run is taken up: whoever holds it need not know its type.
 */
export function anyWorkflow<S extends JsonObject>(workflow: Workflow<S>): Workflow<JsonObject> {
  return workflow as unknown as Workflow<JsonObject>;
}

/** `{fix|feature}/issue-{n}-{slug}`; the second run of an issue gets another one, as the first one's may still be there. */
function crunchBranch({ type }: CrunchOptions): BranchNaming {
  return ({ run, issue }) => {
    if (issue === null) return null;
    const labels = type === null ? issue.labels : [`type:${type}`];
    const again = /^issue-\d+-(\d+)$/.exec(run)?.[1];
    return `${branchName({ ...issue, labels })}${again === undefined ? "" : `-${again}`}`;
  };
}

/** Made from the loop's task and criterion, so that starting the same loop again means the same run. */
function loopNaming({ until }: LoopOptions): RunNaming {
  return ({ task, count }) => {
    const words = canonicalJson([task, until.map(({ command }) => command), count]);
    return makeLoopId({ task, hex: pureSha256(`holdfast-loop-1\n${words}`).slice(0, 8) });
  };
}

/** The workflow that a file exports, as `default` or as `workflow`. TypeScript is read by Node itself. */
export async function loadWorkflow(path: string, cwd: string): Promise<Workflow<JsonObject>> {
  const file = resolve(cwd, path);
  const loaded = await load(file);
  const found = [loaded["default"], loaded["workflow"]].find(isWorkflow);
  if (found !== undefined) return found;
  throw new HoldfastError({
    code: "WORKFLOW_INVALID",
    message: `${file} exports no workflow`,
    hint: "Let it `export default defineWorkflow({ ... })`; docs/library.md shows one.",
  });
}

async function load(file: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const module: unknown = await import(pathToFileURL(file).href);
    return isRecord(module) ? module : {};
  } catch (cause) {
    throw new HoldfastError({
      code: "WORKFLOW_INVALID",
      message: `The workflow ${file} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
      hint: "Give the path of a file that Node can import; in TypeScript use only syntax that can be erased.",
      cause,
    });
  }
}

/** Made by defineWorkflow, perhaps of another copy of this library: what it looks like tells, not whose class it is. */
function isWorkflow(value: unknown): value is Workflow<JsonObject> {
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

/** A run with a seed is a seeded one; one that is to be seeded gets a seed, which it keeps. */
export function chosenSeed(params: Pick<StartParams, "mode" | "seed">): {
  readonly mode: ExecutionConfig["mode"];
  readonly seed: number | null;
} {
  const { mode = params.seed === undefined ? "default" : "seeded", seed } = params;
  return { mode, seed: seed ?? (mode === "seeded" ? randomSeed() : null) };
}

/** Said at once: whoever believes that a seed is heeded would blame something else. */
export function seedNotice(parts: Adapters, { agent, seed }: ExecutionConfig): string | null {
  if (seed === null || agent === null || parts.agent(agent).capabilities.seed === true) return null;
  return `Seed ${seed} is kept with the run, but ${agent} has no way to take one: its answers may differ each time`;
}

/** An issue for a task in words, the same one for the same text; null without a forge to file it at. */
export async function fileTask(parts: Adapters, text: string, labels: readonly string[]): Promise<Work | null> {
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

/** How a run of this workflow comes to a place among those at work; null: it is none of those whose number is limited. */
export function slotRequest(params: {
  readonly workflow: string;
  readonly loops: SlotSettings;
  readonly place: SlotOptions | undefined;
  readonly signal: AbortSignal;
  readonly tell: (text: string) => void;
}): SlotRequest | null {
  const { loops, signal, tell } = params;
  if (!loops.workflows.includes(params.workflow)) return null;
  const { whenFull = "refuse", limit = loops.max } = params.place ?? {};
  return {
    limit,
    whenFull,
    signal,
    onWaiting: (atWork) => tell(`Waiting for a place: ${atWork.join(", ")} are at work, and ${limit ?? 0} may be`),
    onOver: (atWork) => tell(`Over the limit of ${limit ?? 0} loops: ${atWork.join(", ")} are at work too`),
  };
}

export interface SlotOptions {
  /** "refuse" (default): LOOP_LIMIT. "wait": until there is one. "force": over the limit, said aloud. */
  readonly whenFull?: "refuse" | "wait" | "force";
  /** Another limit than the configured one. */
  readonly limit?: number | null;
}
