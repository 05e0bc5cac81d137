// The setup stage of impl: fixes the issue, the base and the prompts of a run, also for an imported run.

import type { Adapters } from "@holdfast/core/adapters";
import type { Json, JsonObject } from "@holdfast/core/json";
import type { StageResult } from "@holdfast/core/transitions";
import { usageError } from "@holdfast/platform/error";
import { type Base, fetchBase, findBase, syncBranch } from "../branch.ts";
import { fetchImportedIssue, issueNumber, issueText, readIssue } from "../forge.ts";
import { type Templates, loadTemplates } from "../prompts.ts";
import { readRepositoryFacts } from "../repository-facts.ts";
import { OUTPUT_DIRECTORY, type Worktree, openWorktree, requireForge, runGateOnBase, stageTime } from "../worktree.ts";
import { outputFiles } from "./layout.ts";
import type { ImplOptions } from "./options.ts";
import { importedPlan, planInput, writePlan } from "./plan.ts";
import { IMPL_PROMPTS } from "./prompts.ts";
import {
  type ImplContext,
  type ImplDependencies,
  type ImplState,
  type Issue,
  NO_ISSUE,
  conclude,
  parseImplState,
} from "./state.ts";

/** Reads the issue, syncs the branch with its base and loads the prompts. All of them are fixed from here on. */
export async function setupStage(work: ImplDependencies, context: ImplContext): Promise<StageResult<ImplState>> {
  const { work: subject } = context.run;
  if (subject.kind === "task" && work.adapters.forge === null) return await setUpTask(work, context, subject.text);
  const forge = await requireForge(work, context);
  const issue = await readIssue(context, issueNumber(context), async () => forge);
  const stop = (reason: string) => conclude(context, { event: "fatal", reason, state: { ...context.state, issue } });
  if (issue === null) return stop(`Issue ${issueNumber(context)} is not at ${forge.name} (${forge.location})`);

  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const found = await fetchBase(context, { branch: worktree.branch, forge, named: work.options.baseBranch });
  if (found.kind !== "found") return stop(found.reason);
  const reason = `Issue #${issue.number} is ready to be worked on, on top of ${found.base.branch}`;
  const set = await setUp(work, context, { worktree, at, issue, base: found.base, forge: forge.name, reason });
  return { ...set, inputs: { issue, base: found.base.commit, ...planInput(work.options.plan) } };
}

/** Without a forge a task is worked on as it was typed, and the run ends with a branch. */
async function setUpTask(work: ImplDependencies, context: ImplContext, task: string): Promise<StageResult<ImplState>> {
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const [title = task] = task.trim().split("\n");
  const issue: Issue = { number: NO_ISSUE, title, body: task, labels: [], state: "open", updatedAt: at, comments: [] };
  const named = work.options.baseBranch;
  const base = await context.step("base", () => findLocalBase(work, worktree, named), {
    title: "finding the base branch",
  });
  const reason = `The task is ready to be worked on, on top of ${base.branch}. There is no forge, so the run ends with a branch`;
  const set = await setUp(work, context, { worktree, at, issue, base, forge: "none", reason });
  return { ...set, inputs: { base: base.commit, ...planInput(work.options.plan) } };
}

/** The remote's branch as it was fetched last, or the commit that the branch was created from. */
async function findLocalBase(
  { adapters }: ImplDependencies,
  { branch }: Worktree,
  named: string | null,
): Promise<Base> {
  const remote = await branch.remote();
  const name = remote === null ? named : (named ?? (await branch.defaultBranch()));
  const commit = remote === null || name === null ? null : await branch.remoteBranch(name);
  const here = (await adapters.workspaces?.describeCheckout())?.branch?.replace(/^refs\/heads\//, "");
  return { branch: name ?? here ?? "HEAD", commit: commit ?? (await branch.head()) };
}

async function setUp(
  work: ImplDependencies,
  context: ImplContext,
  params: {
    readonly worktree: Worktree;
    readonly at: string;
    readonly issue: Issue;
    readonly base: Base;
    readonly forge: string;
    readonly reason: string;
  },
): Promise<StageResult<ImplState>> {
  const { worktree, at, issue, base, forge, reason } = params;
  const stop = (why: string) => conclude(context, { event: "fatal", reason: why, state: { ...context.state, issue } });
  const synced = await syncBranch(context, worktree, { base, at });
  if (synced.kind !== "synced") return stop(synced.reason);
  await worktree.outputs.hide(OUTPUT_DIRECTORY);
  await worktree.outputs.write(outputFiles.issue(issue.number), issueText(issue));
  await writePlan(worktree.outputs, work.options.plan);
  const templates = await context.step(
    "templates",
    async () => ({
      ...withoutNumber(issue, await loadTemplates(IMPL_PROMPTS, work.options.prompts, worktree.outputs)),
    }),
    { title: "reading the prompt templates" },
  );
  const repository = await context.step(
    "repository",
    () => readRepositoryFacts(worktree.branch, { commit: base.commit, forge }),
    { title: "reading the repository's conventions" },
  );
  const { gate, baseGate } = work.options;
  const checked = gate === null || !baseGate ? null : await runGateOnBase(work, context, worktree, { gate, base });
  if (checked?.kind === "stop") return stop(checked.reason);
  const failure = checked?.failure ?? null;
  const state: ImplState = { ...context.state, issue, base, templates, repository, pushed: synced.pushed };
  return conclude(context, { event: "setup_done", reason, state, ...(failure === null ? {} : { feedback: failure }) });
}

/** A task has no number that a prompt could name. */
function withoutNumber(issue: Issue, templates: Templates): Templates {
  if (issue.number !== NO_ISSUE) return templates;
  const named = Object.entries(templates).map(([name, text]) => [
    name,
    text.replaceAll(/\bissue #\{\{\s*issue_no\s*\}\}/gi, "the task"),
  ]);
  return Object.fromEntries(named);
}

/**
 * Builds the state of an imported run that is already past setup. Its history and pull request remain; issue, base and
 * prompts are read as they are now. Nothing is rebased, because the other tool decided which commit the files are at.
 */
export async function adoptImplState(params: {
  readonly adapters: Adapters;
  readonly options: ImplOptions;
  readonly values: JsonObject;
  readonly issue: number;
  /** What the document says beyond the planes. */
  readonly extension: Json | undefined;
  /** The worktree in which the run continues. */
  readonly root: string;
}): Promise<ImplState> {
  const { adapters, options, root } = params;
  const { forge, issue: found } = await fetchImportedIssue(adapters, params.issue);
  const issue: Issue = { ...found };
  const branch = await adapters.branches.of(root);
  const answer = await findBase({ branch, forge, named: options.baseBranch });
  if (answer.kind === "missing") throw usageError(answer.reason, "Set impl.base to a branch that is there.");
  const outputs = adapters.outputs(root);
  await outputs.hide(OUTPUT_DIRECTORY);
  await outputs.write(outputFiles.issue(issue.number), issueText(issue));
  const plan = options.plan === null ? await importedPlan(params.extension, root, outputs) : null;
  await writePlan(outputs, options.plan ?? plan);
  const templates = await loadTemplates(IMPL_PROMPTS, options.prompts, outputs);
  // A push may replace only a remote tip that the run's own commits contain. Any other tip belongs to someone else and
  // is treated so.
  const remote = await branch.remoteBranch(branch.name);
  const head = await branch.head();
  const contained = remote !== null && (await branch.isAncestor({ ancestor: remote, of: head }));
  const from = await branch.mergeBase({ a: answer.base.commit, b: head });
  return {
    ...parseImplState(params.values),
    issue,
    base: { branch: answer.base.branch, commit: from ?? answer.base.commit },
    templates: { ...templates },
    repository: await readRepositoryFacts(branch, { commit: answer.base.commit, forge: forge.name }),
    ...(plan === null ? {} : { plan }),
    pushed: contained ? remote : null,
  };
}
