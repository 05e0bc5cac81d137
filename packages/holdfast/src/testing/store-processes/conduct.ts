import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { conduct } from "../../engine/conduct.ts";
import { openSqliteStore } from "../../stores/sqlite/open.ts";
import { systemClock } from "../../system/clock.ts";
import { openGitWorkspaces } from "../../workspaces/git-workspaces.ts";
import { createCrashingStore } from "../crashing-store.ts";
import { ID, begin } from "../toy-run.ts";
import { createOutside, killWorkflow } from "../kill-workflow.ts";
import { createBenchAgent, createWorkBench } from "../work-bench.ts";

/**
 * A process of its own that carries a run and kills itself with SIGKILL at its n-th commit, before or after it. Without a
 * number it carries the run to its end. Everything it does outside is written to a file, so that others can count.
 */
const [directory = "", repository = "", at = "0", moment = "before"] = process.argv.slice(2);

const store = await openSqliteStore({ directory });
const dying = createCrashingStore(store, {
  at: Number(at),
  moment: moment === "after" ? "after" : "before",
  die: () => process.kill(process.pid, "SIGKILL"),
});
const workspaces = await openGitWorkspaces(repository);
const outside = createOutside(join(directory, "outside.log"));
const agent = createBenchAgent("toy", ({ cwd, attempt }) => {
  outside.tell(`agent ${attempt}`);
  appendFileSync(join(cwd, "agent.txt"), "by the agent\n");
  return { text: "done" };
});
const { parts } = createWorkBench({ store: dying, clock: systemClock, workspaces, agents: [agent] });
const workflow = killWorkflow(outside);
await begin(parts, workflow, await workspaces.create({ run: ID }));
const outcome = await conduct({ parts, run: ID, workflow, signal: new AbortController().signal });
writeFileSync(join(directory, "outcome.json"), JSON.stringify({ ...outcome, commits: dying.commits }));
await store.close();
await workspaces.close();
