/**
 * Collects what needs consent because of a run, besides the settings of the repository: its workflow file, the document
 * that it was imported from, and the files in its worktree that its agents execute or load.
 */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import type { Holdfast } from "../holdfast.ts";
import type { loadWorkflow } from "../plan-start.ts";
import type { ConsentItem, FileText } from "../config/consent.ts";
import type { ExecutionConfig } from "@holdfast/core/checkpoint";
import type { JsonObject } from "@holdfast/core/json";
import { mainWorktreeRoot } from "@holdfast/core/workspace";
import type { Shell } from "./command.ts";
import { rolesAndFallback } from "./run-plan.ts";

type Loaded = Awaited<ReturnType<typeof loadWorkflow>>;
type Asking = Pick<Shell, "cwd" | "consent">;

/** Loads the workflow file of a run: as typed now, else as the run stores it. Empty for a built-in workflow. */
export async function workflowFile(
  shell: Asking,
  holdfast: Holdfast,
  params: { readonly run: string; readonly named: string | undefined },
): Promise<{ readonly workflow?: Loaded }> {
  const { labels } = await (await holdfast.run(params.run)).summary();
  const file = params.named ?? (await storedWorkflow(holdfast, labels));
  if (file === undefined) return {};
  return { workflow: await loadConsented(shell, file, params.named === undefined ? "remembered" : "typed") };
}

/** The label of a run's workflow file. It is relative in the main checkout: on another machine the repository has another path. */
export async function workflowLabel({ workspaces }: Holdfast, file: string): Promise<string> {
  if (workspaces === null) return file;
  const inside = relative(await mainWorktreeRoot(workspaces, dirname(file)), file);
  return isAbsolute(inside) || inside.split(sep)[0] === ".." ? file : inside;
}

/** The workflow file that the run stores; undefined: none. */
export async function storedWorkflow({ workspaces }: Holdfast, labels: JsonObject): Promise<string | undefined> {
  const label = labels["workflow-file"];
  if (typeof label !== "string") return undefined;
  return isAbsolute(label) ? label : resolve(await mainWorktreeRoot(workspaces, "."), label);
}

/**
 * Loading a workflow executes it. A typed path is consent to the file's present content, which is remembered. A stored
 * path needs consent again once its content has changed: a pull or an agent may have changed it.
 */
export async function loadConsented(shell: Asking, file: string, origin: "typed" | "remembered"): Promise<Loaded> {
  const { cwd, consent } = shell;
  const { loadWorkflow } = await import("../plan-start.ts");
  const item = await workflowItem(shell, file);
  if (origin === "typed") consent.remember([item]);
  else await consent.require({ uses: [], more: [item] });
  return await loadWorkflow(resolve(cwd, file), cwd);
}

/** A user who types an agent's command consents to the scripts that it names, as they are in the checkout now. */
export async function rememberTyped({ consent }: Asking, agents: readonly string[]): Promise<void> {
  const { scriptItems } = await import("../config/agent-files.ts");
  consent.remember(agents.flatMap((agent) => scriptItems(agent, { root: consent.root })));
}

/** Everything that `holdfast trust RUN` shows of a run. */
export async function runItems(shell: Asking, holdfast: Holdfast, run: string): Promise<readonly ConsentItem[]> {
  const handle = await holdfast.run(run);
  const { labels, workflow } = await handle.summary();
  const file = await storedWorkflow(holdfast, labels);
  const config = (await holdfast.store.latest(run))?.planes.config;
  return [
    ...(file === undefined ? [] : [await workflowItem(shell, file)]),
    ...(await importedItems(holdfast, { run })),
    ...(config === undefined ? [] : (await worktreeItems(shell, holdfast, { run, workflow, config })).more),
  ];
}

/**
 * The agents of a run, and the files in its worktree that they execute or load. These are checked again before each
 * call.
 */
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
  const agents = (await rolesAndFallback(plan, work.errors.fallback.agents)).map(({ agent }) => agent);
  if (workspace === undefined) return { agents, more: [], hasWorktree: false };
  const more = agentFileItems({ agents, root: shell.consent.root, worktree: workspace.root });
  return { agents, more, hasWorktree: true };
}

/** Whether a run, or the run that it was forked from, came from a document or a run file; null: it began in this store. */
export async function howImported(holdfast: Holdfast, run: string): Promise<"document" | "run file" | null> {
  const { labels, forkedFrom } = await (await holdfast.run(run)).summary();
  if (labels["import"] !== undefined) return "document";
  const [imported] = await holdfast.store.listCheckpoints({ run, trigger: "import", limit: 1 });
  if (imported !== undefined) return "run file";
  const source = forkedFrom?.id.slice(0, forkedFrom.id.lastIndexOf("@")) ?? null;
  if (source === null || source === run || (await holdfast.store.getRun(source)) === undefined) return null;
  return await howImported(holdfast, source);
}

/**
 * The commands, agents and prompts of the document that a run was imported from. The user typed none of them. What the
 * run uses besides comes from the first resume: the user typed it or consented to it there.
 */
export async function importedItems(
  holdfast: Holdfast,
  { run, from }: { readonly run: string; readonly from?: number },
): Promise<readonly ConsentItem[]> {
  const how = await howImported(holdfast, run);
  if (how === null) return [];
  const [imported] = await holdfast.store.listCheckpoints({ run, trigger: "import", limit: 1 });
  // A fork has no checkpoint of the document.
  const last = imported ?? (await holdfast.store.listCheckpoints({ run, limit: 1 }))[0];
  if (last === undefined) return [];
  // A run that goes back to an earlier checkpoint of its source uses what that one names.
  const source = { run, sequence: Math.min(from ?? last.sequence, last.sequence) };
  const { documentItem } = await import("../config/consent.ts");
  const { config, context, files } = (await holdfast.store.getCheckpoint(source)).planes;
  if (how === "run file") {
    const { agent, model, inputs: options } = config;
    const value = {
      agent,
      model,
      options,
      branch: files?.branch ?? null,
      settings: context.values["settings"] ?? null,
      templates: context.values["templates"] ?? null,
    };
    return [documentItem({ key: `the imported run ${run}`, value, file: run })];
  }
  const inputs = Object.entries(config.inputs).filter(([name, value]) => CARRIED.has(name) && value !== null);
  const { settings, templates } = context.values;
  // A document carries no templates. A run file does whose run began as a document elsewhere.
  const moved = imported === undefined || templates === undefined ? {} : { templates, branch: files?.branch ?? null };
  const named = { agent: config.agent, model: config.model, ...Object.fromEntries(inputs) };
  const value = { ...named, settings: settings ?? null, ...moved };
  const carries = inputs.length > 0 || config.agent !== null || settings !== undefined || "templates" in moved;
  return carries ? [documentItem({ key: `the imported document of ${run}`, value, file: run })] : [];
}

/** Options of built-in workflows that run something, raise rights or become part of a prompt. */
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
 * The repository files that a workflow imports, directly or indirectly: every quoted literal that Node resolves or that
 * is a path. Packages in node_modules, and names that the program computes at run time, are not included.
 */
function importedFiles(
  from: { readonly path: string; readonly text: string },
  root: string,
  textOf: (path: string) => string | undefined,
): readonly FileText[] {
  const found = new Map<string, string>();
  const waiting = [from];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for (const path of literalsOf(next.text).flatMap(resolverOf(next.path, root))) {
      const text = path === from.path || found.has(path) ? undefined : textOf(path);
      if (text === undefined) continue;
      found.set(path, text);
      waiting.push({ path, text });
    }
  }
  return [...found.keys()].toSorted().map((path) => ({ name: relative(root, path), text: found.get(path) ?? "" }));
}

/**
 * Every text between two quotes of a kind, with its escapes decoded. This includes text between two strings, because a
 * quote inside a comment or another string shifts the pairs. Such text leads to no file.
 */
function literalsOf(text: string): readonly string[] {
  const between = ['"', "'", "`"].flatMap((quote) => text.split(quote));
  const whole = [...text.matchAll(/(["'`])((?:\\[\s\S]|(?!\1)[^\\\n])*)\1/g)].map(([, , inner = ""]) => inner);
  const decoded = [...between, ...whole].flatMap((literal) =>
    literal === "" || literal.length > MAX_LITERAL ? [] : decodeEscapes(literal),
  );
  return [...new Set(decoded)].filter((literal) => !/[\n\0]/.test(literal));
}

const MAX_LITERAL = 2000;

function decodeEscapes(literal: string): string {
  return literal.replaceAll(
    /\\(?:u\{([0-9a-f]{1,6})\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([0-7]{1,3})|\r?\n|([\s\S]))/gi,
    (_match, long?: string, four?: string, two?: string, octal?: string, other?: string) => {
      const hex = long ?? four ?? two;
      if (hex === undefined && octal === undefined) return other ?? "";
      const code = hex === undefined ? Number.parseInt(octal ?? "", 8) : Number.parseInt(hex, 16);
      return code > 0x10_ff_ff ? "" : String.fromCodePoint(code);
    },
  );
}

/** The files that a literal may mean in this file. A relative path may lead out of the repository, a bare name may not. */
function resolverOf(file: string, root: string): (literal: string) => readonly string[] {
  const require = createRequire(file);
  const roots = [root, realpathSync.native(root)];
  const isOwn = (path: string): boolean =>
    !path.includes(`${sep}node_modules${sep}`) && roots.some((folder) => path.startsWith(folder + sep));
  const resolved = (name: string): readonly string[] => {
    try {
      return [require.resolve(name)].filter(isAbsolute);
    } catch {
      return [];
    }
  };
  return (literal) => {
    const plain = literal.replace(/(?<=.)[?#].*$/s, "");
    const names = [...new Set([literal, plain, percentDecoded(plain)])].map((name) =>
      name.startsWith("file:") ? name.replace(/^file:(?:\/\/)?/, "") : name,
    );
    return names.flatMap((name) => {
      const path = resolve(dirname(file), name);
      // A bare name of a text file is not code: the workflow may read it.
      const asPath = /^\.{0,2}\//.test(name) || !/\.(?:md|mdx|txt|rst)$/i.test(name) ? [path] : [];
      const completed = /^\.{0,2}(?:\/|$)/.test(name) ? ENDINGS.map((ending) => path + ending) : [];
      const mapped = name.startsWith("#") ? packageImports(file, name) : [];
      const places = [...asPath, ...completed, ...resolved(name), ...mapped];
      return /^\.{1,2}(?:\/|$)/.test(name) ? places : places.filter(isOwn);
    });
  };
}

function percentDecoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/**
 * The entries in `imports` of the nearest package.json for a name, under every condition: `require.resolve` uses only
 * its own.
 */
function packageImports(file: string, name: string): readonly string[] {
  let folder = dirname(file);
  while (!existsSync(join(folder, "package.json")) && folder !== dirname(folder)) folder = dirname(folder);
  const manifest = join(folder, "package.json");
  const { imports } = asObject(parsedJson(manifest));
  return Object.entries(asObject(imports)).flatMap(([key, target]) => {
    const [start = "", end] = key.split("*");
    const isMatch = end === undefined ? key === name : name.startsWith(start) && name.endsWith(end);
    const star = end === undefined ? "" : name.slice(start.length, name.length - end.length);
    return isMatch ? leavesOf(target).map((leaf) => resolve(dirname(manifest), leaf.replaceAll("*", star))) : [];
  });
}

function leavesOf(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(leavesOf) : [];
}

function parsedJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return null;
  }
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** The endings that `require` tries for a path. */
const ENDINGS = [".ts", ".js", ".cjs", ".json", "/index.ts", "/index.js"];
