import { batchesOf } from "../../core/graph-order.ts";
import { progressOf, readyNodes, stateOf } from "../../core/graph-state.ts";
import type { GraphProgress } from "../../core/graph-state.ts";
import type { Graph, GraphNode } from "../../core/graph.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { StageContext } from "../stage-context.ts";

export type NodeOutcome =
  | { readonly kind: "complete"; readonly result: Json }
  | { readonly kind: "failed"; readonly error: Json; readonly retryable: boolean }
  | { readonly kind: "timeout" };

/** Stand-in until the engine's own runner is merged. */
export async function runGraph<S extends JsonObject>(
  context: StageContext<S>,
  params: {
    readonly graph: Graph;
    readonly limit: number;
    readonly work: (node: GraphNode) => Promise<NodeOutcome>;
    readonly afterBatch?: (batch: number) => Promise<void>;
  },
): Promise<GraphProgress> {
  await context.graph.set(params.graph);
  const now = (): Graph => context.graph.now() ?? params.graph;
  const at = (): string => new Date(context.now()).toISOString();
  const settled = new Set<number>();
  for (;;) {
    const ready = readyNodes(now(), { limit: params.limit });
    if (ready.length === 0) break;
    await context.graph.move(...ready.map((node) => ({ kind: "start" as const, node, at: at() })));
    await Promise.all(
      ready.map(async (id) => {
        const node = now().nodes.find((one) => one.id === id);
        if (node === undefined) return;
        const outcome = await params.work(node);
        if (outcome.kind === "complete") await context.graph.move({ ...outcome, node: id, at: at() });
        else if (outcome.kind === "timeout") await context.graph.move({ kind: "timeout", node: id, at: at() });
        else
          await context.graph.move({
            kind: "fail",
            node: id,
            error: outcome.error,
            at: at(),
            final: !outcome.retryable,
          });
      }),
    );
    for (const [index, batch] of batchesOf(now()).entries()) {
      const ended = batch.every((id) => ["complete", "failed", "skipped"].includes(stateOf(now(), id).status));
      if (!ended || settled.has(index)) continue;
      settled.add(index);
      await params.afterBatch?.(index + 1);
    }
  }
  return progressOf(now());
}
