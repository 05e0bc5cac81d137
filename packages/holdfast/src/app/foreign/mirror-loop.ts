import { join } from "node:path";
import { LoopLayout } from "./loop-layout.ts";
import type { LoopPlace } from "./loop-layout.ts";
import type { Mirror } from "./mirror.ts";

/** A run of the ralph workflow has a layout of its own, with more than its checkpoints in it. */
export function mirrorLoop(params: LoopPlace & { readonly run: string }): Pick<Mirror, "to" | "root" | "catchUp"> {
  const { parts, run, root } = params;
  const layout = new LoopLayout(params);
  return {
    to: "loop-json",
    root,
    async catchUp() {
      const { written, removed } = await layout.catchUp();
      const sequence = (await parts.store.getRun(run))?.latest?.sequence ?? 0;
      const absolute = (paths: readonly string[]) => paths.map((path) => join(root, path));
      return { sequence, paths: absolute(written), removed: absolute(removed), losses: [] };
    },
  };
}
