import type { Conflict } from "../../../core/crunch/conflict.ts";
import { detectConflicts } from "../../../core/crunch/detect-conflicts.ts";
import { batchesOf } from "../../../core/graph-order.ts";
import type { Graph } from "../../../core/graph.ts";
import { timeOf } from "../work.ts";
import { askPerson } from "./ask-person.ts";
import { mergeBatch } from "./merge-batch.ts";
import { resultsIn } from "./node-result.ts";
import { settleConflict } from "./settle-conflict.ts";
import type { NodeWork } from "./work-node.ts";

/** When all of a batch have ended: their changes come together, what only a person knows is asked, and where they disagree it is settled. */
export async function settleBatch(given: NodeWork, batch: number): Promise<void> {
  const { context } = given;
  const graph = context.graph.now();
  if (graph === null) return;
  const nodes = batchesOf(graph)[batch - 1] ?? [];
  await mergeBatch(given, graph, nodes);
  await settleEscalations(given, graph, nodes);
  for (const conflict of await findConflicts(given, graph, batch)) await settleConflict(given, conflict);
  await context.checkpoint({ trigger: "batch_complete", name: `${given.phase}, batch ${batch}` });
}

/** Found once and kept: what is settled since must not change what was found. */
async function findConflicts(
  { context, phase, team }: NodeWork,
  graph: Graph,
  batch: number,
): Promise<readonly Conflict[]> {
  const at = await timeOf(context, `batch-${batch}:at`);
  return await context.step(`batch-${batch}:conflicts`, () => {
    const recommendations = resultsIn(graph).flatMap(({ result }) => result.recommendations);
    const known = context.state.conflicts;
    return [...detectConflicts({ recommendations, known, phase, domains: team.domains, at })];
  });
}

async function settleEscalations(given: NodeWork, graph: Graph, nodes: readonly string[]): Promise<void> {
  for (const { node: id, result } of resultsIn(graph)) {
    if (!nodes.includes(id) || result.escalate === null) continue;
    const agent = graph.nodes.find((node) => node.id === id)?.agent ?? id;
    const { reason, options } = result.escalate;
    await askPerson(given, {
      key: `${id}:asks`,
      from: agent,
      type: result.status === "BLOCKED" ? "BLOCKED" : "HUMAN_REQUIRED",
      question: `${agent} (${id}) asks: ${reason}`,
      options,
    });
  }
}
