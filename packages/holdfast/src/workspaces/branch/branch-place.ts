import { HoldfastError } from "../../core/error.ts";
import type { CapturePlace } from "../capture/capture.ts";
import { gitFailure, type Git } from "../git/git-command.ts";
import { findOperation } from "../git/operation.ts";
import { readHead } from "../worktree/read-head.ts";

/** A repository to ask, from one of its worktrees, or bare from its own folder. */
export interface AskingPlace {
  readonly place: CapturePlace;
  /** The worktree's own git directory and files: conversions apply as for the user, hooks do not run. */
  readonly git: Git;
}

/** A run's worktree together with the branch that it stood on when it was opened. */
export interface BranchPlace extends AskingPlace {
  /** Short name. */
  readonly name: string;
  /** Full name. */
  readonly ref: string;
}

/** Commit of the branch; null before its first one. */
export function readTip({
  place,
  ref,
}: Pick<BranchPlace, "ref"> & { readonly place: Pick<CapturePlace, "repository"> }): Promise<string | null> {
  return readRef(place.repository.git, ref);
}

/** null: not there. A git that died has not said so. */
export async function readRef(git: Git, ref: string): Promise<string | null> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`];
  const found = await git.result({ args });
  if (found.kind !== "exited") throw gitFailure(args, found);
  return found.code === 0 ? found.stdout.toString("utf8").trim() : null;
}

export async function requireTip(at: BranchPlace): Promise<string> {
  const tip = await readTip(at);
  if (tip !== null) return tip;
  throw new HoldfastError({
    code: "GIT_FAILED",
    message: `the branch ${at.name} has no commit yet, or is gone`,
    hint: "Make a first commit, or create the branch again from one of the run's checkpoints.",
  });
}

export async function requireCommit({ git }: AskingPlace, name: string): Promise<string> {
  return resolve(git, name, "commit");
}

export async function requireTree({ git }: Pick<BranchPlace, "git">, name: string): Promise<string> {
  return resolve(git, name, "tree");
}

/** An agent can leave the worktree in the middle of something, or on another branch: then nothing may be put on top of it. */
export async function requireQuiet(at: BranchPlace): Promise<void> {
  const { place, name } = at;
  const [operation, { branch }] = await Promise.all([findOperation(place.gitDir), readHead(place)]);
  if (operation !== null) {
    throw new HoldfastError({
      code: "WORKSPACE_BUSY",
      message: `a ${operation} is under way in ${place.root}`,
      hint: `Finish it or run \`git ${operation} ${operation === "bisect" ? "reset" : "--abort"}\` first.`,
      data: { operation },
    });
  }
  if (branch === at.ref) return;
  throw new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `${place.root} stands on ${branch ?? "no branch"}, not on the run's branch ${name}`,
    hint: `Run \`git switch ${name}\` there, or tell the agent not to change branches.`,
    data: { branch, expected: at.ref },
  });
}

async function resolve(git: Git, name: string, kind: "commit" | "tree"): Promise<string> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${name}^{${kind}}`];
  const found = name === "" ? undefined : await git.result({ args });
  if (found?.code === 0) return found.stdout.toString("utf8").trim();
  if (found !== undefined && found.kind !== "exited") throw gitFailure(args, found);
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(name)} is not a ${kind} in this repository`,
    hint: "Fetch it first, or name another one.",
  });
}
