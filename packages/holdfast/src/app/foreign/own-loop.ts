import { HoldfastError } from "../../core/error.ts";
import { WORKFLOW_TYPES } from "../../core/ralph/options.ts";
import type { Work } from "../../core/run/run.ts";
import type { ForeignCheckpoint } from "../../formats/format.ts";
import { parseLoopOptions } from "../../workflows/ralph/options.ts";
import { parseLoopState } from "../../workflows/ralph/state.ts";
import { RALPH_SHAPE } from "../../workflows/ralph/workflow-shape.ts";

/**
 * What a loop's document becomes that the ralph workflow itself wrote: it stands at a stage of it, with all of its state and its options, and so
 * can go on in it. null for every other document.
 */
export function ownLoop({
  workflow,
  planes,
}: Pick<ForeignCheckpoint, "workflow" | "planes">): { readonly workflow: "ralph"; readonly work: Work } | null {
  const { position, context, config } = planes;
  if (!WORKFLOW_TYPES.some((type) => type === workflow) || !RALPH_SHAPE.stages.includes(position.stage)) return null;
  try {
    parseLoopState(context.values);
    return { workflow: "ralph", work: { kind: "task", text: parseLoopOptions(config.inputs).task } };
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}
