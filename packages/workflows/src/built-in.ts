// The built-in workflows by name. This is the only list of them; a workflow's code is loaded when a run needs it.

import type { JsonObject } from "@holdfast/core/json";
import type { RunSummary } from "@holdfast/core/run";
import type { FormatName } from "@holdfast/formats/format";
import type { AgentRole, LayoutSettings, WorkflowLayout, WorkflowPlugin } from "./plugin.ts";

export type ForgeUse = "none" | "optional" | "required";

interface BuiltIn {
  /** Stages in which the work is finished and only the end is left. */
  readonly completing: readonly string[];
  /** Whether the number of runs at the same time is limited, if the user does not choose other workflows. */
  readonly slots: boolean;
  /** Whether `holdfast run --task` first files the task as an issue. */
  readonly filesTasks: boolean;
  /** What a task needs a forge for. Without one, "optional" ends with a branch, and "required" cannot start. */
  readonly forge: ForgeUse;
  /** The outcome of an imported run whose document is at one of these stages. */
  readonly endsOnImport: Readonly<Record<string, "done" | "failed">>;
  load(): Promise<WorkflowPlugin>;
}

const BUILT_IN = {
  impl: {
    completing: ["done", "fatal"],
    slots: false,
    filesTasks: true,
    forge: "optional",
    endsOnImport: { done: "done", fatal: "failed" },
    load: async () => (await import("./impl/workflow.ts")).implPlugin,
  },
  crunch: {
    completing: ["stopped", "done", "fatal"],
    slots: false,
    filesTasks: true,
    forge: "required",
    endsOnImport: {},
    load: async () => (await import("./crunch/workflow.ts")).crunchPlugin,
  },
  ralph: {
    completing: ["publish", "done", "limit", "fatal"],
    slots: true,
    filesTasks: false,
    forge: "none",
    endsOnImport: { done: "done", fatal: "failed", limit: "failed" },
    load: async () => (await import("./ralph/workflow.ts")).ralphPlugin,
  },
} as const satisfies Readonly<Record<string, BuiltIn>>;

export type BuiltInName = keyof typeof BUILT_IN;

export const BUILT_IN_NAMES: readonly BuiltInName[] = ["impl", "crunch", "ralph"];

/** The workflow of a run that names none. */
export const DEFAULT_WORKFLOW: BuiltInName = "impl";

export function isBuiltIn(name: string): name is BuiltInName {
  return Object.hasOwn(BUILT_IN, name);
}

export function filesTasks(name: string): boolean {
  return isBuiltIn(name) && BUILT_IN[name].filesTasks;
}

export function forgeUse(name: string): ForgeUse {
  return isBuiltIn(name) ? BUILT_IN[name].forge : "none";
}

/** null: the name is not that of a built-in workflow. */
export async function loadPlugin(name: string): Promise<WorkflowPlugin | null> {
  return isBuiltIn(name) ? await BUILT_IN[name].load() : null;
}

/** Each role of a run with its agent, as the workflow chooses it. A workflow that is not built in has one role. */
export async function rolesOf(
  workflow: string,
  { agent, options }: { readonly agent: string | null; readonly options: JsonObject },
): Promise<readonly AgentRole[]> {
  const plugin = await loadPlugin(workflow);
  if (plugin !== null) return plugin.roles(options, agent);
  return agent === null ? [] : [{ role: "agent", agent }];
}

/** Stages in which only the end is left; none for a workflow that is not built in. */
export function completingStages(name: string): readonly string[] {
  return isBuiltIn(name) ? BUILT_IN[name].completing : [];
}

/** Whether only the end of the run is left. */
export function isFinishing({ workflow, latest }: Pick<RunSummary, "workflow" | "latest">): boolean {
  return latest !== null && completingStages(workflow).includes(latest.stage);
}

/** null: the stage does not end an imported run. */
export function outcomeOnImport(name: string, stage: string): "done" | "failed" | null {
  const ends: BuiltIn["endsOnImport"] = isBuiltIn(name) ? BUILT_IN[name].endsOnImport : {};
  return Object.hasOwn(ends, stage) ? (ends[stage] ?? null) : null;
}

/** A layout of another tool that runs of a workflow keep up to date. Its code is loaded when it is needed. */
export interface LayoutEntry {
  readonly workflow: BuiltInName;
  readonly format: FormatName;
  /** Paths below the main worktree. One of them shows that the repository has files of the other tool. */
  readonly signs: readonly string[];
  /** A path below the root. Without it there is no file to repair. null: files of dead processes need no repair. */
  readonly repaired: string | null;
  /** The directory that the settings name for the layout. */
  directory(settings: LayoutSettings): string | null;
  load(): Promise<WorkflowLayout>;
}

export const LAYOUTS: readonly LayoutEntry[] = [
  {
    workflow: "crunch",
    format: "crunch-yaml",
    // `.claude` itself is the directory of an agent, which most repositories without crunch have too.
    signs: [".claude/crunch", ".claude/checkpoint-config.yaml"],
    repaired: null,
    directory: () => null,
    load: async () => (await import("./crunch/layout.ts")).crunchLayout,
  },
  {
    workflow: "ralph",
    format: "loop-json",
    signs: [".aiwg"],
    repaired: ".aiwg/ralph",
    directory: ({ directory }) => directory,
    load: async () => (await import("./ralph/layout-upkeep.ts")).ralphLayout,
  },
];

/** null: no workflow writes this format in a layout of its own. */
export function layoutIn(format: string): LayoutEntry | null {
  return LAYOUTS.find((layout) => layout.format === format) ?? null;
}

/** Files that runs keep for other tools in the main checkout, also while an agent works. */
export const OWN_FILES = /^(?:\.aiwg|\.claude\/crunch\/[^/]+\/(?:checkpoints|outputs))\//;

/** Runs whose concurrency is limited. */
export interface SlotSettings {
  /** null: no limit. */
  readonly max: number | null;
  /** Names of the limited workflows. */
  readonly workflows: readonly string[];
}

export const DEFAULT_SLOTS: SlotSettings = {
  max: 4,
  workflows: Object.entries(BUILT_IN).flatMap(([name, { slots }]) => (slots ? [name] : [])),
};
