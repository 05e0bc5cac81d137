import { splitAgent } from "../../core/agent/agent-names.ts";
import { basename, dirname, join } from "node:path";
import type { ExecutionConfig, InputsPlane, IssueSnapshot } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import { anyFolder } from "../../engine/save/any-folder.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Budget } from "../../core/position/position.ts";
import { numberedId, planBegin } from "../../core/run/plan-begin.ts";
import type { BeginPlan } from "../../core/run/plan-begin.ts";
import type { RunSummary, Work } from "../../core/run/run.ts";
import { makeRunId } from "../../core/run/run-id.ts";
import { pureSha256 } from "../../core/sha256.ts";
import { canonicalJson } from "../../core/values/index.ts";
import type { WorkflowShape } from "../../core/position/workflow.ts";
import type { Workflow } from "../../engine/definition.ts";
import type { WorkParts } from "../../engine/work-parts.ts";

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

export interface StartRequest<S extends JsonObject> {
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

export type RunNaming = (of: { readonly task: string; readonly count: number }) => string;

/** Told from the work and the id alone, so that whoever starts the same run again means the same branch. */
export type BranchNaming = (of: { readonly run: string; readonly issue: IssueSnapshot | null }) => string | null;

/** Looks only (a fetch apart). */
export async function planStart<S extends JsonObject>(
  parts: WorkParts,
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
        ? await planPlace(parts, id, request.base, request.branch?.({ run: id, issue }) ?? undefined, request.here)
        : null,
    issue,
    forge: parts.forge === null ? null : { name: parts.forge.name, location: parts.forge.location },
  };
}

async function readIssue(parts: WorkParts, work: Work): Promise<IssueSnapshot | null> {
  if (work.kind !== "issue" || parts.forge === null) return null;
  const issue = await parts.forge.getIssue(work.number);
  if (issue !== null && issue.number === work.number) return issue;
  throw new HoldfastError({
    code: "USAGE",
    message: `There is no issue ${work.number} at ${parts.forge.location}`,
    hint: `Check the number; the forge is ${parts.forge.name}.`,
  });
}

async function planId<S extends JsonObject>(parts: WorkParts, request: StartRequest<S>): Promise<BeginPlan> {
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
export async function planPlace(
  parts: WorkParts,
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
    base: here && base === null ? null : await findBase(parts, await anyFolder(workspaces), base),
  };
}

/** Where the remote stands now, whatever is checked out here; null: there is no remote that tells, and HEAD will do. */
async function findBase(
  parts: WorkParts,
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
