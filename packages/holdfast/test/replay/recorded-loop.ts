import { existsSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type OpenParams, openHoldfast } from "../../src/open.ts";
import type { Holdfast } from "../../src/holdfast.ts";
import type { RunReport } from "../../src/start-run.ts";
import type { ExecutionConfig } from "@holdfast/core/checkpoint";
import type { JsonObject } from "@holdfast/core/json";
import { type Workflow, defineWorkflow } from "@holdfast/core/workflow";
import { benchGit } from "../bench/bench-git.ts";
import { makeRepository } from "../bench/make-repository.ts";

/** A repository with an agent of a few lines of shell that leaves a trace outside whenever it is started. */
export interface Scene extends AsyncDisposable {
  readonly root: string;
  readonly repository: string;
  readonly agent: string;
  /** How often the agent was started. */
  started(): Promise<number>;
  /** The agent is not there any more. */
  removeAgent(): Promise<void>;
  git(...args: readonly string[]): Promise<string>;
  open(params?: OpenParams): Promise<Holdfast>;
}

export type LoopState = { readonly seen: readonly string[]; readonly left: number };

export async function makeScene(): Promise<Scene> {
  const root = await mkdtemp(join(tmpdir(), "holdfast-replay-test-"));
  const repository = join(root, "repo");
  const agent = join(root, "agent.sh");
  const calls = join(root, "calls");
  const git = benchGit<"clone">(() => repository);
  await makeRepository({ clone: repository, remote: null, git });
  const lines = [
    "#!/bin/sh",
    `echo started >> ${calls}`,
    'part="${HOLDFAST_PART:-$HOLDFAST_ITERATION}"',
    'echo "$part: $(wc -l)" >> log.txt',
    'printf "%s" "$part" > "file-$part.txt"',
    'echo "did $part"',
  ];
  await writeFile(agent, `${lines.join("\n")}\n`);
  await chmod(agent, 0o755);
  return {
    root,
    repository,
    agent: `command:${agent}`,
    git: (...args) => git("clone", ...args),
    started: async () => (existsSync(calls) ? (await readFile(calls, "utf8")).split("\n").length - 1 : 0),
    removeAgent: () => rm(agent),
    open: (params) => openHoldfast({ cwd: repository, forge: { kind: "none", path: null, host: null }, ...params }),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
}

/** iterate → verify → iterate …: an agent, a check of what it left, and what is learnt of it. */
export function loopWorkflow(
  iterations: number,
  change: { readonly prompt?: (iteration: number) => string } = {},
): Workflow<LoopState> {
  const promptOf = change.prompt ?? ((iteration: number) => `Do part ${iteration}`);
  return defineWorkflow<LoopState>({
    name: "loop",
    initial: "iterate",
    transitions: { iterate: { tried: "verify" }, verify: { failed: "iterate", passed: "done" } },
    ends: { done: "done" },
    maxStageAttempts: 1000,
    initialState: () => ({ seen: [], left: iterations }),
    reduce: (state, event) => ({ ...state, seen: [...state.seen, String(event)] }),
    stages: {
      iterate: async (context) => {
        const number = context.state.seen.length + 1;
        const report = await context.agent({
          name: "agent",
          role: "impl",
          prompt: promptOf(number),
          model: null,
          yolo: true,
          env: { HOLDFAST_PART: String(number) },
        });
        await context.record("learnt", report.text.trim());
        return { event: "tried", reason: "as asked" };
      },
      verify: async (context) => {
        const checked = await context.step("check", async () => {
          const text = await readFile(join(context.workspace?.root ?? "", "log.txt"), "utf8");
          return { kind: "exited", code: text.split("\n").length > iterations ? 0 : 1, at: context.now() };
        });
        const event = checked.code === 0 ? "passed" : "failed";
        const left = context.state.left - 1;
        return { event, reason: `exit ${checked.code}`, state: { ...context.state, left } };
      },
    },
  });
}

export async function runLoop(
  scene: Scene,
  holdfast: Holdfast,
  params: {
    readonly iterations: number;
    readonly mode?: ExecutionConfig["mode"];
    readonly seed?: number;
    readonly id?: string;
    readonly workflow?: Workflow<LoopState>;
    readonly labels?: JsonObject;
  },
): Promise<RunReport> {
  const { iterations, workflow, ...rest } = params;
  return await holdfast.start({
    workflow: workflow ?? loopWorkflow(iterations),
    work: { kind: "task", text: "count" },
    agent: scene.agent,
    id: "loop",
    ...rest,
  });
}
