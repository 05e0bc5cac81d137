import {
  type AgentReport,
  type SideWorktree,
  type StageContext,
  type Workflow,
  defineWorkflow,
} from "@holdfast/core/workflow";
import type { JsonObject } from "@holdfast/core/json";

/**
 * Work in side worktrees: three agents at once, merged in order. Then a pair that cannot both be merged, of which one
 * is dropped. Then two consecutive calls in one side worktree.
 */
export function sideWorktreesWorkflow(): Workflow<JsonObject> {
  return defineWorkflow<JsonObject>({
    name: "side-worktrees",
    initial: "apart",
    stages: {
      async apart(context) {
        const found = await sideBySide(context, ["x", "y", "z"]);
        return { event: "merged", reason: found.join(", "), state: { apart: found } };
      },
      async contrary(context) {
        const found = await sideBySide(context, ["p", "q"]);
        return { event: "merged", reason: found.join(", "), state: { ...context.state, contrary: found } };
      },
      async twice(context) {
        const sideWorktree = await context.sideWorktree("t");
        await call(context, sideWorktree, "first");
        const { commit } = await call(context, sideWorktree, "second");
        const merged = await context.mergeSideWorktree("merge t", { sideWorktree, commit: commit ?? "" });
        return { event: "merged", reason: merged.kind, state: { ...context.state, twice: [merged.kind] } };
      },
    },
    transitions: { apart: { merged: "contrary" }, contrary: { merged: "twice" }, twice: { merged: "done" } },
    ends: { done: "done", fatal: "failed" },
    initialState: () => ({}),
  });
}

async function sideBySide(context: StageContext<JsonObject>, names: readonly string[]): Promise<string[]> {
  const works = await Promise.all(
    names.map(async (name) => {
      const sideWorktree = await context.sideWorktree(name);
      return { sideWorktree, report: await call(context, sideWorktree, name) };
    }),
  );
  const found: string[] = [];
  for (const { sideWorktree, report } of works) {
    const merged = await context.mergeSideWorktree(`merge ${sideWorktree.name}`, {
      sideWorktree,
      commit: report.commit ?? "",
    });
    found.push(`${merged.kind} ${merged.files.join(" ")}`);
    if (merged.kind === "conflict") await context.dropSideWorktree(sideWorktree);
  }
  return found;
}

function call(context: StageContext<JsonObject>, sideWorktree: SideWorktree, role: string): Promise<AgentReport> {
  return context.agent({ name: `work-${role}`, role, prompt: "do it", model: null, yolo: true, sideWorktree });
}
