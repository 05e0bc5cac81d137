import type { Holdfast } from "../app.ts";
import { loadWorkflow } from "../app.ts";
import type { Shell } from "./command.ts";

type Loaded = Awaited<ReturnType<typeof loadWorkflow>>;

/** A run of somebody's own workflow remembers the file it came from; nothing for one that is built in. */
export async function workflowFile(
  shell: Pick<Shell, "cwd">,
  holdfast: Holdfast,
  params: { readonly run: string; readonly named: string | undefined },
): Promise<{ readonly workflow?: Loaded }> {
  const { labels } = await (await holdfast.run(params.run)).summary();
  const file = params.named ?? labels["workflow-file"];
  return typeof file === "string" ? { workflow: await loadWorkflow(file, shell.cwd) } : {};
}
