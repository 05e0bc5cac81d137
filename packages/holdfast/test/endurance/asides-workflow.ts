import {
  type AgentReport,
  type Aside,
  type StageContext,
  type Workflow,
  defineWorkflow,
} from "@holdfast/core/workflow";
import type { JsonObject } from "@holdfast/core/json";

/**
 * Work in side worktrees: three agents at once, merged in order. Then a pair that cannot both be merged, of which one
 * is dropped. Then two consecutive calls in one side worktree.
 */
export function asidesWorkflow(): Workflow<JsonObject> {
  return defineWorkflow<JsonObject>({
    name: "asides",
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
        const aside = await context.aside("t");
        await call(context, aside, "first");
        const { commit } = await call(context, aside, "second");
        const merged = await context.mergeAside("merge t", { aside, commit: commit ?? "" });
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
      const aside = await context.aside(name);
      return { aside, report: await call(context, aside, name) };
    }),
  );
  const found: string[] = [];
  for (const { aside, report } of works) {
    const merged = await context.mergeAside(`merge ${aside.name}`, { aside, commit: report.commit ?? "" });
    found.push(`${merged.kind} ${merged.files.join(" ")}`);
    if (merged.kind === "conflict") await context.dropAside(aside);
  }
  return found;
}

function call(context: StageContext<JsonObject>, aside: Aside, role: string): Promise<AgentReport> {
  return context.agent({ name: `work-${role}`, role, prompt: "do it", model: null, yolo: true, aside });
}
