import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { Agent, AgentTask } from "../ports/agent.ts";
import type { Workspace, Workspaces } from "../ports/workspace.ts";
import { openGitWorkspaces } from "../workspaces/git-workspaces.ts";
import { ID, startToy } from "./toy-run.ts";
import type { ToyRun } from "./toy-run.ts";
import { createBenchAgent } from "./work-bench.ts";
import type { BenchOutcome } from "./work-bench.ts";
import { SQLITE } from "./work-stores.ts";
import { startCommitted } from "./workspace/workspace-start.ts";
import { testRepositoryAt } from "./workspace/workspace-repository.ts";
import type { TestRepository } from "./workspace/workspace-repository.ts";

export interface ToyWorktree extends ToyRun {
  readonly workspace: Workspace;
  readonly workspaces: Workspaces;
  /** The user's own checkout. */
  readonly repository: TestRepository;
  /** Its worktree. */
  readonly tree: TestRepository;
  /** Writes a file of the worktree when a text is given; is it there? */
  file(name: string, text?: string): boolean;
}

/** A run in a worktree of its own, with an agent that does what the test says. */
export async function startInWorktree(
  run: (task: AgentTask, root: string) => BenchOutcome | Promise<BenchOutcome> = () => ({ text: "done" }),
  capabilities: Partial<Agent["capabilities"]> = {},
  sessions: Agent["sessions"] = null,
): Promise<ToyWorktree> {
  const repository = startCommitted({ "a.txt": "one\n", ".gitignore": ".tmp/\n" });
  const workspaces = await openGitWorkspaces(repository.root);
  onTestFinished(() => workspaces.close());
  const workspace = await workspaces.create({ run: ID });
  const { root } = workspace;
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const agent = createBenchAgent("toy", (task) => run(task, root), capabilities, sessions);
  const toy = await startToy(SQLITE, onTestFinished, { workspaces, agents: [agent] });
  return {
    ...toy,
    workspace,
    workspaces,
    repository,
    tree: testRepositoryAt(root),
    file(name, text) {
      if (text !== undefined) writeFileSync(join(root, name), text);
      return existsSync(join(root, name));
    },
  };
}

/** An agent's own record of its sessions, by id: `PROMPT>ANSWER`, with a token a character. */
export function sessionsIn(record: ReadonlyMap<string, string>): NonNullable<Agent["sessions"]> {
  return {
    read: ({ session }) => Promise.resolve({ text: record.get(session) ?? "", lastMessage: null }),
    write: () => Promise.resolve(),
    tokensIn: (text) => ({ input: text.length, output: 0 }),
    answerIn: (text, prompt) => (text.startsWith(`${prompt}>`) ? text.slice(prompt.length + 1) : null),
  };
}
