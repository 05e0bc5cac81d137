import { onTestFinished } from "vitest";
import { openGitWorkspaces } from "../../workspaces/git-workspaces.ts";
import { createTestRepository, type TestRepository } from "./workspace-repository.ts";
import { openWorkspaceSession, type WorkspaceSession } from "./workspace-session.ts";

interface StartedWorkspace extends WorkspaceSession {
  readonly repo: TestRepository;
}

/** An empty repository that goes when the test ends. */
export function startRepository(init: readonly string[] = []): TestRepository {
  const repository = createTestRepository({ init });
  onTestFinished(() => repository.dispose());
  return repository;
}

const FILES = { "a.txt": "one\n", "dir/b.txt": "two\n" };

export function startCommitted(files: Readonly<Record<string, string>> = FILES): TestRepository {
  const repository = startRepository();
  for (const [name, content] of Object.entries(files)) repository.write(name, content);
  repository.git("add", "-A");
  repository.git("commit", "-qm", "first", "--allow-empty");
  return repository;
}

export async function startSession(repository: TestRepository): Promise<WorkspaceSession> {
  return openWorkspaceSession({ repository, open: openGitWorkspaces });
}

/** A repository with one commit of these files, and a session on it. */
export async function startWorkspace(files?: Readonly<Record<string, string>>): Promise<StartedWorkspace> {
  const repo = startCommitted(files);
  return { ...(await startSession(repo)), repo };
}
