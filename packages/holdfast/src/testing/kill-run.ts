import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { conduct } from "../engine/conduct/conduct.ts";
import type { RunOutcome } from "../engine/outcome.ts";
import { openSqliteStore } from "../stores/sqlite/open.ts";
import { systemClock } from "../system/clock.ts";
import { openGitWorkspaces } from "../workspaces/git-workspaces.ts";
import { createCrashingStore } from "./crashing-store.ts";
import { createOutside, killWorkflow } from "./kill-workflow.ts";
import { ID, begin } from "./toy-run.ts";
import { createBenchAgent, createWorkBench } from "./work-bench.ts";

/** Carries the run of killWorkflow to its end, or to its death at a commit; begins it when it is not there. */
export async function carryKillRun(params: {
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
    const outside = createOutside(join(directory, "outside.log"));
    const agent = createBenchAgent("toy", ({ cwd }) => {
      outside.tell("agent");
      appendFileSync(join(cwd, "agent.txt"), "by the agent\n");
      return { text: "done" };
    });
    const { parts } = createWorkBench({ store, clock: systemClock, workspaces, agents: [agent] });
    const workflow = killWorkflow(outside);
    await begin(parts, workflow, await workspaces.create({ run: ID }));
    const outcome = await conduct({ parts, run: ID, workflow, signal: new AbortController().signal });
    return { outcome, commits: store.commits };
  } finally {
    await real.close();
    await workspaces.close();
  }
}
