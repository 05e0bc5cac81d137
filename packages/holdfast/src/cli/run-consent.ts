import { dirname, relative, resolve } from "node:path";
import type { Holdfast } from "../app.ts";
import type { loadWorkflow } from "../app.ts";
import type { ConsentItem, FileText } from "../config/consent.ts";
import type { ExecutionConfig } from "../core/checkpoint/checkpoint.ts";
import type { Shell } from "./command.ts";
import { rolesOf } from "./commands/run/plan-uses.ts";

/**
 * What needs consent because of a run, besides the settings of the repository: its workflow file, the document that it was imported from, and
 * the files in its worktree that its agents execute or load.
 */

type Loaded = Awaited<ReturnType<typeof loadWorkflow>>;
type Asking = Pick<Shell, "cwd" | "consent">;

/** The workflow file of a run: as typed now, else as the run remembers it. Nothing for a workflow that is built in. */
export async function workflowFile(
  shell: Asking,
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
export async function loadConsented(shell: Asking, file: string, origin: "typed" | "remembered"): Promise<Loaded> {
  const { cwd, consent } = shell;
  const { loadWorkflow } = await import("../app.ts");
  const item = await workflowItem(shell, file);
  if (origin === "typed") consent.remember([item]);
  else await consent.require({ uses: [], more: [item] });
  return await loadWorkflow(resolve(cwd, file), cwd);
}

/** Typing an agent's command is consent to the scripts that it names, as they are in the checkout now. */
export async function rememberTyped({ consent }: Asking, agents: readonly string[]): Promise<void> {
  const { scriptItems } = await import("../config/agent-files.ts");
  consent.remember(agents.flatMap((agent) => scriptItems(agent, { root: consent.root })));
}

/** All that `holdfast trust RUN` shows of a run. */
export async function runItems(shell: Asking, holdfast: Holdfast, run: string): Promise<readonly ConsentItem[]> {
  const handle = await holdfast.run(run);
  const { labels, workflow } = await handle.summary();
  const file = labels["workflow-file"];
  const config = (await holdfast.store.latest(run))?.planes.config;
  return [
    ...(typeof file === "string" ? [await workflowItem(shell, file)] : []),
    ...(await importedItems(holdfast, run)),
    ...(config === undefined ? [] : (await worktreeItems(shell, holdfast, { run, workflow, config })).more),
  ];
}

/** The agents of a run, and the files in its worktree that they execute or load. Before each call these are checked again. */
export async function worktreeItems(
  shell: Asking,
  holdfast: Holdfast,
  planned: { readonly run: string; readonly workflow: string; readonly config: ExecutionConfig },
): Promise<{
  readonly agents: readonly string[];
  readonly more: readonly ConsentItem[];
  readonly hasWorktree: boolean;
}> {
  const workspace = await (await holdfast.run(planned.run)).workspace();
  const { agentFileItems } = await import("../config/agent-files.ts");
  const { work } = (await shell.consent.stated()).settings;
  const plan = { config: planned.config, shape: { name: planned.workflow } };
  const agents = rolesOf(plan, work.errors.fallback.agents).map(({ agent }) => agent);
  if (workspace === undefined) return { agents, more: [], hasWorktree: false };
  const more = agentFileItems({ agents, root: shell.consent.root, worktree: workspace.root });
  return { agents, more, hasWorktree: true };
}

/** The commands, agents and prompts of the document that a run was imported from. The user typed none of them. */
export async function importedItems(holdfast: Holdfast, run: string): Promise<readonly ConsentItem[]> {
  const { labels } = await (await holdfast.run(run)).summary();
  const [last] = labels["import"] === undefined ? [] : await holdfast.store.listCheckpoints({ run, limit: 1 });
  if (last === undefined) return [];
  const { documentItem } = await import("../config/consent.ts");
  const { config, context } = (await holdfast.store.getCheckpoint(last)).planes;
  const inputs = Object.entries(config.inputs).filter(([name, value]) => CARRIED.has(name) && value !== null);
  const { settings } = context.values;
  const value = { agent: config.agent, model: config.model, ...Object.fromEntries(inputs), settings: settings ?? null };
  const carries = inputs.length > 0 || config.agent !== null || settings !== undefined;
  return carries ? [documentItem({ key: `the imported document of ${run}`, value, file: run })] : [];
}

/** Options of our workflows that run something, raise rights or go into a prompt. */
const CARRIED: ReadonlySet<string> = new Set(
  "until steps skill gate prompts yolo implModel reviewModel model models settings task".split(" "),
);

async function workflowItem({ cwd, consent }: Asking, file: string): Promise<ConsentItem> {
  const path = resolve(cwd, file);
  const { fileItem, textOf } = await import("../config/consent.ts");
  const text = textOf(path) ?? "";
  const more = importedFiles({ path, text }, consent.root, textOf);
  return fileItem({ path, root: consent.root, text, more, danger: "executes", uses: ["work"] });
}

/**
 * The files that a workflow imports, and those that they import: every relative path in quotes that leads to a file. Packages, and paths that are
 * put together when the program runs, are not among them.
 */
function importedFiles(
  from: { readonly path: string; readonly text: string },
  root: string,
  textOf: (path: string) => string | undefined,
): readonly FileText[] {
  const found = new Map<string, string>();
  const waiting = [from];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const folder = dirname(next.path);
    const named = [...next.text.matchAll(/["'`](\.{1,2}\/[^"'`\n]*)["'`]/g)].map(([, path = ""]) =>
      resolve(folder, path),
    );
    for (const path of named.flatMap((place) => [place, ...ENDINGS.map((ending) => place + ending)])) {
      const text = path === from.path || found.has(path) ? undefined : textOf(path);
      if (text === undefined) continue;
      found.set(path, text);
      waiting.push({ path, text });
    }
  }
  return [...found.keys()].toSorted().map((path) => ({ name: relative(root, path), text: found.get(path) ?? "" }));
}

/** As `require` completes a path. */
const ENDINGS = [".ts", ".js", ".cjs", ".json", "/index.ts", "/index.js"];
