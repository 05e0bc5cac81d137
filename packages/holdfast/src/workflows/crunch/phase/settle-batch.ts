import type { Conflict } from "../../../core/crunch/conflict.ts";
import { detectConflicts } from "../../../core/crunch/detect-conflicts.ts";
import type { Graph } from "../../../core/graph/graph.ts";
import type { EndedBatch } from "../../../engine/graph/graph-work.ts";
import { isoNow } from "../work.ts";
import { askPerson } from "./ask-person.ts";
import { mergeBatch } from "./merge-batch.ts";
import { resultsIn } from "./node-result.ts";
import { takeCheckpoint } from "./phase-work.ts";
import type { Naming, PhaseWork } from "./phase-work.ts";
import { settleConflict } from "./settle-conflict.ts";

/** When all of a batch have ended: their changes come together, what only a person knows is asked, and where they disagree it is settled. */
export async function settleBatch(given: PhaseWork, batch: EndedBatch): Promise<void> {
  const graph = given.context.graph.now();
  if (graph === null) return;
  await mergeBatch(given, graph, batch);
  await settleEscalations(given, graph, batch);
  for (const detected of await findConflicts(given, graph, batch))
    await settleConflict(given, { detected, naming: (part) => batch.name(`${shortId(detected)}-${part}`) });
  await takeCheckpoint(given, "batch_complete", `${given.phase}, batch ${batch.number}`);
}

/** Without the time: who disagrees about what is told apart by the rest. */
function shortId({ id }: Conflict): string {
  return `conflict-${id.slice(id.lastIndexOf("-") + 1)}`;
}

/** Found once and kept: what is settled since must not change what was found. */
async function findConflicts(
  { context, phase, team }: PhaseWork,
  graph: Graph,
  batch: EndedBatch,
): Promise<readonly Conflict[]> {
  return await context.step(batch.name("conflicts"), () => {
    const recommendations = resultsIn(graph).flatMap(({ result }) => result.recommendations);
    const known = context.state.conflicts;
    return [...detectConflicts({ recommendations, known, phase, domains: team.domains, at: isoNow(context) })];
  });
}

async function settleEscalations(given: PhaseWork, graph: Graph, batch: EndedBatch): Promise<void> {
  for (const { node: id, result } of resultsIn(graph)) {
    if (!batch.nodes.includes(id) || result.escalate === null) continue;
    const naming: Naming = (part) => `${result.of}/asks-${part}`;
    // Answered when the batch ended the first time.
    if (Object.hasOwn(given.context.position.visit.steps, naming("decided"))) continue;
    const agent = graph.nodes.find((node) => node.id === id)?.agent ?? id;
    const { reason, options } = result.escalate;
    await askPerson(given, {
      naming,
      from: agent,
      type: result.status === "BLOCKED" ? "BLOCKED" : "HUMAN_REQUIRED",
      question: `${agent} (${id}) asks: ${reason}`,
      options,
    });
  }
}
