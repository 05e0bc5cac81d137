import { HoldfastError } from "../../core/error.ts";
import { DEFUSED, scrubbedEnvironment } from "../../system/git-defence.ts";
import { runProcess, type ProcessResult } from "../../system/subprocess.ts";

/** Plumbing on the forge's repository. None of its hooks run: it is the server here, and its own rules are for pushes. */
export function createBareGit(gitDir: string): BareGit {
  const result = (args: readonly string[], options: BareGitOptions = {}): Promise<ProcessResult> =>
    runProcess({
      command: "git",
      args: [...DEFUSED, ...args],
      cwd: gitDir,
      env: { ...scrubbedEnvironment(process.env), GIT_DIR: gitDir, ...options.env },
      input: options.input,
      timeoutMs: TIMEOUT_MS,
    });
  return {
    gitDir,
    result,
    async line(args, options) {
      const done = await result(args, options);
      if (done.kind === "exited" && done.code === 0) return done.stdout.toString("utf8").replace(/\n$/, "");
      throw gitFailed(gitDir, args, done);
    },
  };
}

export interface BareGit {
  readonly gitDir: string;
  /** For calls whose exit code is an answer. */
  result(args: readonly string[], options?: BareGitOptions): Promise<ProcessResult>;
  line(args: readonly string[], options?: BareGitOptions): Promise<string>;
}

interface BareGitOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: Uint8Array;
}

export function gitFailed(gitDir: string, args: readonly string[], done: ProcessResult): HoldfastError {
  const reason = done.stderr.trim().split("\n").slice(-3).join("; ");
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `git ${args[0] ?? ""} failed in the forge's repository ${gitDir}: ${reason === "" ? done.kind : reason}`,
    hint: "Run `git fsck` there if the repository may be damaged.",
    retry: "later",
    data: { args, stderr: done.stderr },
  });
}

/** Commit of a branch; null when there is no such branch. By its exact name: `main^` is no branch. */
export async function readBranch(git: BareGit, branch: string): Promise<string | null> {
  if (branch.includes("\0")) return null;
  const args = ["show-ref", "--verify", "--hash", "--", `refs/heads/${branch}`];
  const found = await git.result(args);
  if (found.kind === "exited" && found.code === 0) return found.stdout.toString("utf8").trim();
  // A repository that is gone, or a git that died, has not said that the branch is absent.
  if (found.kind === "exited" && found.stderr.includes("not a valid ref")) return null;
  throw gitFailed(git.gitDir, args, found);
}

export async function isAncestor(git: BareGit, ancestor: string, of: string): Promise<boolean> {
  const args = ["merge-base", "--is-ancestor", ancestor, of];
  const found = await git.result(args);
  if (found.kind === "exited" && (found.code === 0 || found.code === 1)) return found.code === 0;
  throw gitFailed(git.gitDir, args, found);
}

const TIMEOUT_MS = 10 * 60_000;
