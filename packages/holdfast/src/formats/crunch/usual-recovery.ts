import type { Graph } from "../../core/graph/graph.ts";
import { resumePoint } from "../../core/graph/graph-recovery.ts";
import type { JsonObject } from "../../core/json.ts";

/** How a run goes on when nothing speaks against it: at a node where there is one, else at the phase. */
export function usualRecovery(position: { readonly stage: string; readonly graph: Graph | null }): JsonObject {
  const { graph, stage } = position;
  const node = graph === null ? null : resumePoint(graph);
  return { can_resume: true, resume_from: node ?? stage, prerequisites_met: true, warnings: [] };
}
