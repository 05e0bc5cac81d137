import type { StageFunction } from "../../engine/stage-context.ts";
import { OUTPUT_DIRECTORY, outputFiles } from "./output-files.ts";
import { seedCheckpoint } from "./seed-checkpoint.ts";
import type { ImplState } from "./state.ts";
import { prettyJson } from "./work.ts";
import type { ImplContext, ImplWork } from "./work.ts";

/** The stage, with the mirror file written when it is entered: that is when the stage before has been saved. */
export function mirrored(work: ImplWork, stage: StageFunction<ImplState>): StageFunction<ImplState> {
  return async (context) => {
    await writeMirror(work, context);
    return await stage(context);
  };
}

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
