import { outputFiles } from "./output-files.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import type { ImplContext, ImplWork } from "./work.ts";

/** `.tmp/impl-checkpoint.json`, for tools that read it; Holdfast itself never reads it back. */
export async function writeMirror({ options, parts }: ImplWork, context: ImplContext): Promise<void> {
  const root = context.workspace?.root;
  if (root === undefined) return;
  const outputs = parts.outputs(root);
  await outputs.hide(OUTPUT_DIRECTORY);
  const { run, position, inputs, extensions, state } = context;
  const document = parts.implDocument({
    run,
    planes: { position, inputs, extensions, values: state },
    worktree: root,
    simplifies: options.simplify,
    at: new Date(context.now()).toISOString(),
  });
  await outputs.write(outputFiles.checkpoint, document);
}
