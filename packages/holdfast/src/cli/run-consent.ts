import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Holdfast } from "../app.ts";
import type { loadWorkflow } from "../app.ts";
import type { Shell } from "./command.ts";

type Loaded = Awaited<ReturnType<typeof loadWorkflow>>;

/** The workflow file of a run: as typed now, else as the run remembers it. Nothing for a workflow that is built in. */
export async function workflowFile(
  shell: Pick<Shell, "cwd" | "consent">,
  holdfast: Holdfast,
  params: { readonly run: string; readonly named: string | undefined },
): Promise<{ readonly workflow?: Loaded }> {
  const { labels } = await (await holdfast.run(params.run)).summary();
  const file = params.named ?? labels["workflow-file"];
  if (typeof file !== "string") return {};
  return { workflow: await loadConsented(shell, file, params.named === undefined ? "remembered" : "typed") };
}

/**
 * Loading a workflow runs it. A path that was typed is consent to its present content, which is remembered. One that a run remembers
 * needs consent again once its content has changed: a pull or an agent may have changed it.
 */
export async function loadConsented(
  { cwd, consent }: Pick<Shell, "cwd" | "consent">,
  file: string,
  origin: "typed" | "remembered",
): Promise<Loaded> {
  const path = resolve(cwd, file);
  const [{ fileItem }, { loadWorkflow }] = await Promise.all([import("../config/consent.ts"), import("../app.ts")]);
  const text = await readFile(path, "utf8").catch(() => "");
  const item = fileItem({ path, root: consent.root, text, danger: "executes", uses: ["work"] });
  if (origin === "typed") consent.remember([item]);
  else await consent.require({ uses: [], more: [item] });
  return await loadWorkflow(path, cwd);
}
