import { OUTPUT_DIRECTORY, outputFiles } from "./output-files.ts";
import { seedCheckpoint } from "./seed-checkpoint.ts";
import { prettyJson } from "./work.ts";
import type { ImplContext, ImplWork } from "./work.ts";

/** `.tmp/impl-checkpoint.json`, for tools that read it. */
export async function writeMirror({ options, parts }: ImplWork, context: ImplContext): Promise<void> {
  const root = context.workspace?.root;
  if (root === undefined) return;
  const outputs = parts.outputs(root);
  await outputs.hide(OUTPUT_DIRECTORY);
  const checkpoint = seedCheckpoint({
    position: context.position,
    state: context.state,
    worktree: root,
    planFile: context.inputs.plan?.path ?? null,
    simplify: options.simplify,
    at: context.now(),
  });
  await outputs.write(outputFiles.checkpoint, prettyJson(checkpoint));
}
