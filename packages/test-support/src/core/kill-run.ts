// A run that a test kills: a workflow with every kind of work, and adapters that die at the n-th change.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Adapters } from "@holdfast/core/adapters";
import { executeRun } from "@holdfast/core/execute";
import type { RunOutcome } from "@holdfast/core/progress";
import type { Workflow } from "@holdfast/core/workflow";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { systemClock } from "@holdfast/platform/clock";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import {
  ID,
  type State,
  begin,
  createBenchAgent,
  createCrashingStore,
  createTestAdapters,
  define,
} from "./work-bench.ts";

/** Executes the run of killWorkflow to its end, or until it is killed at a commit; creates the run if it does not exist. */
export async function executeUntilKilled(params: {
  readonly directory: string;
  readonly repository: string;
  readonly at: number;
  readonly moment: "before" | "after";
  readonly die: () => void;
}): Promise<{ readonly outcome: RunOutcome; readonly commits: number }> {
  const { directory } = params;
  const real = await openSqliteStore({ directory });
  const workspaces = await openGitWorkspaces(params.repository);
  try {
    const store = createCrashingStore(real, params);
    const outside = createExternalSystem(join(directory, "outside.log"));
    const agent = createBenchAgent("toy", ({ cwd }) => {
      outside.log("agent");
      appendFileSync(join(cwd, "agent.txt"), "by the agent\n");
      return { text: "done" };
    });
    const { adapters } = createTestAdapters({ store, clock: systemClock, workspaces, agents: [agent] });
    const workflow = killWorkflow(outside);
    await begin(adapters, workflow, await workspaces.create({ run: ID }));
    const outcome = await executeRun({ adapters, run: ID, workflow, signal: new AbortController().signal });
    return { outcome, commits: store.commits };
  } finally {
    await real.close();
    await workspaces.close();
  }
}

/** The external system as a file of lines: what was done remains done, whichever process dies. */
interface Outside {
  log(line: string): void;
  lines(): readonly string[];
}

export function createExternalSystem(path: string): Outside {
  return {
    log: (line) => appendFileSync(path, `${line}\n`),
    lines: () => (existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : []),
  };
}

/** One of everything: plain steps, parallel steps, a step that changes files, an agent, an effect. */
function killWorkflow(outside: Outside): Workflow<State> {
  return define({
    work: async ({ step, agent, effect, position, workspace, state }) => {
      const stageAttempt = position.stageAttempt.number;
      const once = (name: string) =>
        step(name, () => {
          outside.log(`step ${stageAttempt} ${name}`);
          return name;
        });
      const seen = [await once("a"), ...(await Promise.all([once("b"), once("c")]))];
      await step(
        "write",
        () => {
          outside.log(`step ${stageAttempt} write`);
          appendFileSync(join(workspace?.root ?? "", "written.txt"), `stage attempt ${stageAttempt}\n`);
          return null;
        },
        { changesFiles: true },
      );
      await agent({ name: "edit", role: "impl", prompt: "p", model: null, yolo: true });
      const key = `effect ${stageAttempt}`;
      await effect({
        purpose: "notify",
        kind: "toy.notify",
        target: "outside",
        payload: { stageAttempt },
        lookUp: async () => (outside.lines().includes(key) ? { kind: "present", receipt: key } : { kind: "absent" }),
        act: async () => {
          outside.log(key);
          return { kind: "done", receipt: key };
        },
      });
      return { event: "worked", reason: "did it", state: { seen: [...state.seen, ...seen] } };
    },
  });
}

/** Thrown where a process would have been killed. */
export class ProcessKilled extends Error {}

/**
 * The same adapters, which die at the n-th changing call, before it acts. Everything before that call is done, and nothing after it. The
 * systems behind the calls are real and remain as the dead process left them.
 */
export function dyingParts(
  adapters: Adapters,
  call: number,
): { readonly adapters: Adapters; readonly died: () => boolean } {
  let calls = 0;
  let dead = false;
  const mortal = <T extends object>(inner: T): T =>
    new Proxy(inner, {
      get(target, name): unknown {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function" || typeof name !== "string" || !(CHANGES.has(name) || OPENS.has(name)))
          return value;
        return async (...args: readonly unknown[]) => {
          if (CHANGES.has(name)) calls += 1;
          if (calls >= call) dead = true;
          if (dead) throw new ProcessKilled();
          const answer: unknown = await Reflect.apply(value, target, args);
          return OPENS.has(name) && isWorkspace(answer) ? mortal(answer) : answer;
        };
      },
    });
  const { store, workspaces } = adapters;
  return {
    adapters: { ...adapters, store: mortal(store), workspaces: workspaces === null ? null : mortal(workspaces) },
    died: () => dead,
  };
}

const CHANGES: ReadonlySet<string> = new Set([
  "commit",
  "quarantine",
  "keep",
  "createBranch",
  "create",
  "snapshot",
  "applyRestore",
  "switchTo",
  "stage",
]);
const OPENS: ReadonlySet<string> = new Set(["create", "find", "open"]);

function isWorkspace(answer: unknown): answer is object {
  return typeof answer === "object" && answer !== null && "applyRestore" in answer;
}
