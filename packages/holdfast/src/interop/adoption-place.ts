/**
 * Chooses where an imported run continues: in the worktree that the import found, or in a new one on the branch that the
 * document names.
 */
import { type Adapters, findAnyWorktree, findRunWorkspace } from "@holdfast/core/adapters";
import type { Checkpoint } from "@holdfast/core/checkpoint";
import type { Answers } from "@holdfast/core/resume-plan";
import type { RunSummary } from "@holdfast/core/run";
import type { Workflow } from "@holdfast/core/workflow";
import type { Workspace } from "@holdfast/core/workspace";
import { parseBranchName, worktreesNamedIn } from "@holdfast/formats/format";
import { HoldfastError } from "@holdfast/platform/error";
import { fetchRemote } from "@holdfast/workflows/branch";
import { planWorktree } from "../plan-start.ts";

export type AdoptionPlace =
  /** There is no repository. */
  | { readonly kind: "none" }
  /** The import found it, or a killed adoption created it. */
  | { readonly kind: "there"; readonly workspace: Workspace; readonly branch: string | null }
  | {
      readonly kind: "new";
      readonly worktree: string;
      readonly branch: string | null;
      readonly start: BranchStart;
      /** The document's branch, if the run does not continue on it. */
      readonly refused: string | null;
    };

/** `commit`: what a new branch starts at; null: at HEAD, or the branch exists. `name`: of what it starts at. */
interface BranchStart {
  /** "run": another run works on the document's branch, and this one gets a branch of its own that starts there. */
  readonly from: "branch" | "remote" | "base" | "run";
  readonly commit: string | null;
  readonly name: string;
}

interface PlaceParams {
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly workflow: Workflow;
  /** Branch that the document names, as it says it; null: none. */
  readonly branch: string | null;
  /** Branch that a new one starts from; null: the remote's default. */
  readonly base: string | null;
  readonly answers: Answers;
}

/** Reads and fetches only. */
export async function planPlace(adapters: Adapters, params: PlaceParams): Promise<AdoptionPlace> {
  const { workspaces } = adapters;
  if (workspaces === null) return { kind: "none" };
  const { run, checkpoint, workflow, base, answers } = params;
  const branch = await continuedBranch(adapters, params);
  const own = await workspaces.find(run.id);
  // A worktree that was chosen by its branch is not used without that branch.
  const workspace =
    own ?? (params.branch !== null && branch === null ? undefined : await findRunWorkspace(adapters, run));
  if (workspace !== undefined) {
    const tree = (await workspaces.list()).find(({ path }) => path === workspace.root);
    const name = tree?.branch?.replace(/^refs\/heads\//, "") ?? null;
    if (branch !== null && name !== branch) throw otherBranch(run, workspace.root, branch, name);
    return { kind: "there", workspace, branch };
  }
  const { issue } = checkpoint.planes.inputs;
  const given = workflow.naming?.branch?.({ run: run.id, issue }) ?? null;
  // A branch that exists is the work of another user, which the document does not name.
  const named = given === null || (await workspaces.branchTip(`refs/heads/${given}`)) !== null ? null : given;
  const holder = (await workspaces.list()).find(
    (tree) => tree.exists && tree.run !== null && branch !== null && tree.branch === `refs/heads/${branch}`,
  );
  const isShared = holder !== undefined;
  const continued = isShared ? null : branch;
  const place = await planWorktree(adapters, run.id, base, {
    branch: continued ?? named ?? undefined,
    here: workflow.naming?.fromCheckout,
  });
  const start = isShared
    ? ({ from: "run", commit: holder.head, name: branch ?? "" } as const)
    : branch === null
      ? null
      : await startOf(adapters, { run, branch, isAccepted: answers.branch_missing !== undefined });
  const atBase: BranchStart = {
    from: "base",
    commit: place?.base?.commit ?? null,
    name: place?.base?.branch ?? place?.base?.commit ?? "HEAD",
  };
  const worktree = place?.worktree ?? workspaces.commonDir;
  const planned: AdoptionPlace = {
    kind: "new",
    worktree,
    branch: continued ?? named,
    start: start ?? atBase,
    refused: branch === null || start === null ? params.branch : null,
  };
  await workspaces.check(createParams(run, planned)).catch((error: unknown) => {
    throw isBranchInUse(error, branch) ? inUse(run, error) : error;
  });
  return planned;
}

/** The name is text of a document: only a plain name of a branch that is not the base is used. */
async function continuedBranch(adapters: Adapters, { branch, base }: PlaceParams): Promise<string | null> {
  const name = branch === null ? null : parseBranchName(branch);
  if (name === null || name === base || adapters.workspaces === null) return null;
  const folder = await findAnyWorktree(adapters.workspaces);
  const asking = folder === null ? null : await adapters.branches.asking(folder);
  return name === (await asking?.defaultBranch()) ? null : name;
}

/** null: the branch is missing here and on the remote, and the user accepts this. */
async function startOf(
  { workspaces, branches }: Adapters,
  params: { readonly run: RunSummary; readonly branch: string; readonly isAccepted: boolean },
): Promise<BranchStart | null> {
  const { run, branch: name, isAccepted } = params;
  if (workspaces === null) return null;
  if ((await workspaces.branchTip(`refs/heads/${name}`)) !== null) return { from: "branch", commit: null, name };
  const folder = await findAnyWorktree(workspaces);
  const asking = folder === null ? null : await branches.asking(folder);
  const remote = (await asking?.remote()) ?? null;
  if (asking !== null && remote !== null) {
    await (isAccepted ? asking.fetch() : fetchRemote(asking));
    const commit = await asking.remoteBranch(name);
    if (commit !== null) return { from: "remote", commit, name };
  }
  if (isAccepted) return null;
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `The branch ${name} of the imported document is neither here nor on ${remote?.name ?? "a remote"}`,
    hint: `Push it from where it is. To start it again from the base, add \`--accept branch_missing\` to \`holdfast resume ${run.id}\`.`,
    retry: "ask",
    data: { run: run.id, branch: name },
  });
}

/** Idempotent: a killed adoption left the worktree, or nothing. */
export async function createPlace(
  { workspaces }: Adapters,
  run: RunSummary,
  place: AdoptionPlace,
): Promise<Workspace | undefined> {
  if (place.kind === "there") return place.workspace;
  return place.kind === "none" ? undefined : await workspaces?.create(createParams(run, place));
}

function createParams(run: RunSummary, place: Extract<AdoptionPlace, { readonly kind: "new" }>) {
  const { worktree, branch, start } = place;
  return {
    run: run.id,
    path: worktree,
    ...(branch === null ? {} : { branch }),
    ...(start.commit === null ? {} : { base: start.commit }),
  };
}

/** Work that a new worktree lacks. The user must learn this before the resume, not from its result. */
export function placeNote({ planes }: Checkpoint, place: AdoptionPlace): string | null {
  if (place.kind === "none") return null;
  if (place.kind === "there")
    return place.branch === null ? null : `The run continues in ${place.workspace.root}, on branch ${place.branch}.`;
  const { start, refused } = place;
  if (start.from === "run")
    return `Another run works on ${start.name}, the branch of the imported document. The run continues in a new worktree on a branch of its own that starts there.`;
  if (start.from === "branch") return `The run continues in a new worktree on branch ${start.name}.`;
  if (start.from === "remote")
    return `The run continues in a new worktree on branch ${start.name} as it is on the remote: work that was never pushed is missing.`;
  const named = worktreesNamedIn(planes.extensions)[0];
  const where =
    refused !== null && refused === place.branch
      ? `The branch ${refused} of the imported document is neither here nor on the remote, and starts again`
      : refused !== null
        ? `The run does not continue on ${JSON.stringify(refused.slice(0, 200))}, the branch of the imported document`
        : named === undefined
          ? "The imported document names no worktree"
          : `The worktree of the imported document, ${named}, does not belong to this repository`;
  const missing =
    start.commit === null
      ? "based on the commit that is checked out here: uncommitted work is missing"
      : `based on ${start.name}: work that was never pushed is missing`;
  const what = refused === null ? "one" : "worktree";
  return `${where}. The run continues in a new ${what}, ${missing}.`;
}

function otherBranch(run: RunSummary, path: string, branch: string, actual: string | null): HoldfastError {
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: `${path} is on ${actual ?? "no branch"}, and run ${run.id} continues there on ${branch}`,
    hint: `Switch it with \`git -C ${path} switch ${branch}\`, then resume.`,
    retry: "ask",
    data: { run: run.id, path, branch },
  });
}

function isBranchInUse(error: unknown, branch: string | null): error is HoldfastError {
  return branch !== null && error instanceof HoldfastError && error.code === "CONFLICT";
}

function inUse(run: RunSummary, error: HoldfastError): HoldfastError {
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: `Run ${run.id} continues on its document's branch, but ${error.message}`,
    hint: "Switch that worktree to another branch, then resume.",
    retry: "ask",
    cause: error,
  });
}
