import { join } from "node:path";
import type { Branch } from "../../ports/branch.ts";
import { openGitWorkspaces } from "../../workspaces/git-workspaces.ts";
import { createGitBranches } from "../../workspaces/branch/git-branches.ts";
import { createTestRepository, testRepositoryAt, type TestRepository } from "../workspace/workspace-repository.ts";

/** A user's repository, a bare one that it came from, and a run's worktree with its branch: all real, all in one folder. */
export interface BranchScene {
  readonly user: TestRepository;
  readonly tree: TestRepository;
  readonly bare: TestRepository;
  readonly branch: Branch;
  /** Moves main on the remote, as somebody else would. */
  moveBase(files: Readonly<Record<string, string>>): string;
  /** As a resumed process would. */
  reopen(options?: { readonly remote?: string }): Promise<Branch>;
  tip(): string;
  dispose(): void;
}

export async function createBranchScene(
  files: Readonly<Record<string, string>> = { "a.txt": "one\n", "b.txt": "b\n", ".gitignore": "*.log\n" },
): Promise<BranchScene> {
  const user = createTestRepository();
  for (const [path, text] of Object.entries(files)) user.write(path, text);
  user.git("config", "user.name", "Ada");
  user.git("config", "user.email", "ada@example.invalid");
  user.git("add", "-A");
  user.git("commit", "-qm", "first");
  const bareRoot = join(user.root, "..", "bare.git");
  user.git("clone", "-q", "--bare", ".", bareRoot);
  user.git("remote", "add", "origin", bareRoot);
  const workspaces = await openGitWorkspaces(user.root);
  const { root } = await workspaces.create({ run: "issue-42" });
  const tree = testRepositoryAt(root);
  const bare = testRepositoryAt(bareRoot);
  const reopen = (options = {}): Promise<Branch> => createGitBranches(options).of(root);
  return {
    user,
    tree,
    bare,
    branch: await reopen(),
    moveBase(changes) {
      for (const [path, text] of Object.entries(changes)) user.write(path, text);
      user.git("add", "-A");
      user.git("commit", "-qm", "base moved");
      user.git("push", "-q", "origin", "main");
      return user.git("rev-parse", "HEAD").trim();
    },
    reopen,
    tip: () => tree.git("rev-parse", "refs/heads/holdfast/issue-42").trim(),
    dispose: () => user.dispose(),
  };
}
