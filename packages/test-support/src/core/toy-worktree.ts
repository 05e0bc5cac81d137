// Runs in real worktrees for tests: with an agent that a test scripts, and with rounds of work and test for rollbacks.

import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { Agent, AgentTask } from "@holdfast/core/agent";
import { findRollback } from "@holdfast/core/find-rollback";
import type { RollbackChoice } from "@holdfast/core/rollback";
import { RunHandle } from "@holdfast/core/run-handle";
import type { EffectSpec, StageFunction } from "@holdfast/core/workflow";
import type { Workspace, Workspaces } from "@holdfast/core/workspace";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { type TestRepository, startCommitted, testRepositoryAt } from "../git/repository.ts";
import {
  type BenchOutcome,
  ID,
  SQLITE,
  type State,
  type TestRun,
  begin,
  createBenchAgent,
  define,
  startTestRun,
} from "./work-bench.ts";

export interface TestWorktree extends TestRun {
  readonly workspace: Workspace;
  readonly workspaces: Workspaces;
  /** The user's own checkout. */
  readonly repository: TestRepository;
  /** The run's worktree. */
  readonly tree: TestRepository;
  /** Writes a file of the worktree if a text is given; returns whether the file exists. */
  file(name: string, text?: string): boolean;
}

/** A run in its own worktree, with an agent that the test scripts. */
export async function startTestRunInWorktree(
  run: (task: AgentTask, root: string) => BenchOutcome | Promise<BenchOutcome> = () => ({ text: "done" }),
  capabilities: Partial<Agent["capabilities"]> = {},
  sessions: Agent["sessions"] = null,
  more: Partial<Agent> = {},
): Promise<TestWorktree> {
  const repository = startCommitted({ "a.txt": "one\n", ".gitignore": ".tmp/\n" });
  const workspaces = await openGitWorkspaces(repository.root);
  onTestFinished(() => workspaces.close());
  const workspace = await workspaces.create({ run: ID });
  const { root } = workspace;
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const agent = { ...createBenchAgent("toy", (task) => run(task, root), capabilities, sessions), ...more };
  const toy = await startTestRun(SQLITE, onTestFinished, { workspaces, agents: [agent] });
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

/** An agent's own record of its sessions, by id: `PROMPT>ANSWER`, with one token per character. */
export function sessionsIn(record: ReadonlyMap<string, string>): NonNullable<Agent["sessions"]> {
  return {
    read: ({ session }) => Promise.resolve({ text: record.get(session) ?? "", lastMessage: null }),
    write: () => Promise.resolve(),
    tokensIn: (text) => ({ input: text.length, output: 0 }),
    answerIn: (text, prompt) => (text.startsWith(`${prompt}>`) ? text.slice(prompt.length + 1) : null),
  };
}

/** One round of work and test. */
export interface RollbackRound {
  /** Changes the files. */
  readonly edit?: (toy: TestWorktree) => void;
  /** The effect after the edit. */
  readonly effect?: Pick<EffectSpec<string>, "kind" | "target" | "rollback"> & {
    readonly outcome?: "done" | "unclear";
  };
  /** A change from outside, between work and test. */
  readonly meddle?: (toy: TestWorktree) => void;
  /** The result of the test, whatever the files are; absent: it fails when app.txt contains "broken". */
  readonly test?: "pass" | "fail";
  readonly score?: number;
  /** The agent's call of this round fails permanently. */
  readonly overloaded?: boolean;
}

export interface RollbackCase extends TestWorktree {
  /** Sequence of the newest checkpoint of a round (1-based) that reached its test: taken after the test's result. */
  after(round: number): number;
  choose(options?: { readonly pastEffects?: boolean }): Promise<RollbackChoice>;
  /** Restores the chosen checkpoint. */
  restore(choice: RollbackChoice): Promise<void>;
  app(): string;
}

/**
 * A run of the real engine on a real store and worktree. It works and tests once per round, then fails, or waits for the user if the last
 * test passed. Each round has three checkpoints: after the edit, before the test, after it.
 */
export async function runRollbackCase(rounds: readonly RollbackRound[]): Promise<RollbackCase> {
  const toy = await startTestRunInWorktree(() => ({
    kind: "failed",
    cause: "overload",
    message: "Overloaded, try later",
  }));
  const workflow = define(
    { work: workOf(rounds, toy), check: checkOf(rounds, toy) },
    {
      transitions: { work: { worked: "check" }, check: { passed: "work", failed: "work", gave_up: "fatal" } },
      ends: { fatal: "failed" },
    },
  );
  await begin(toy.adapters, workflow, toy.workspace);
  await toy.go(workflow).catch(() => undefined);
  return {
    ...toy,
    after: (round) => 3 * round + 1,
    choose: ({ pastEffects = false } = {}) => findRollback(toy.adapters, { run: ID, pastEffects }),
    async restore({ chosen }) {
      const run = await toy.store.getRun(ID);
      if (chosen === null || run === undefined) throw new Error("nothing was chosen");
      await using handle = new RunHandle(toy.adapters, run);
      await handle.restore({ sequence: chosen });
    },
    app: () => readFileSync(join(toy.workspace.root, "app.txt"), "utf8"),
  };
}

function workOf(rounds: readonly RollbackRound[], toy: TestWorktree): StageFunction<State> {
  return async ({ state, step, effect, wait, agent }) => {
    const round = rounds[state.seen.length];
    if (round === undefined) return await wait({ for: "you", reason: "Look at it" });
    await step(
      "edit",
      () => {
        round.edit?.(toy);
        return null;
      },
      { changesFiles: true },
    );
    if (round.overloaded === true)
      await agent({ name: "agent", role: "impl", prompt: "continue", model: null, yolo: true });
    if (round.effect !== undefined) await effect(effectOf(round.effect));
    round.meddle?.(toy);
    return { event: "worked", reason: "did it" };
  };
}

function effectOf({ outcome = "done", ...spec }: NonNullable<RollbackRound["effect"]>): EffectSpec<string> {
  return {
    ...spec,
    purpose: spec.kind.replaceAll("_", "-"),
    payload: spec.kind,
    lookUp: () =>
      Promise.resolve(outcome === "done" ? { kind: "absent" } : { kind: "unknown", reason: "it does not answer" }),
    act: () => Promise.resolve({ kind: "done", receipt: "r" }),
  };
}

function checkOf(rounds: readonly RollbackRound[], toy: TestWorktree): StageFunction<State> {
  return async ({ state, step }) => {
    const round = rounds[state.seen.length] ?? {};
    const { code } = await step("test", () => {
      const broken = readFileSync(join(toy.workspace.root, "app.txt"), "utf8").includes("broken");
      const fails = round.test === undefined ? broken : round.test === "fail";
      return { kind: "exited", code: fails ? 1 : 0, output: "" };
    });
    const seen = [...state.seen, "round"];
    const score = round.score === undefined ? {} : { score: round.score };
    const last = seen.length === rounds.length;
    if (code === 0) return { event: "passed", reason: "The test passed", state: { seen }, ...score };
    return { event: last ? "gave_up" : "failed", reason: "The test failed", state: { seen }, ...score };
  };
}
