// The built-in workflows by name. This is the only list of them; a workflow's code is loaded when a run needs it.

import type { WorkflowPlugin } from "./plugin.ts";

interface BuiltIn {
  /** Stages in which the work is finished and only the end is left. */
  readonly completing: readonly string[];
  /** Whether the number of runs at the same time is limited, if the user does not choose other workflows. */
  readonly slots: boolean;
  load(): Promise<WorkflowPlugin>;
}

const BUILT_IN = {
  impl: {
    completing: ["done", "fatal"],
    slots: false,
    load: async () => (await import("./impl/plugin.ts")).implPlugin,
  },
  crunch: {
    completing: ["stopped", "done", "fatal"],
    slots: false,
    load: async () => (await import("./crunch/plugin.ts")).crunchPlugin,
  },
  ralph: {
    completing: ["publish", "done", "limit", "fatal"],
    slots: true,
    load: async () => (await import("./ralph/plugin.ts")).ralphPlugin,
  },
} as const satisfies Readonly<Record<string, BuiltIn>>;

export type BuiltInName = keyof typeof BUILT_IN;

/** The workflow of a run that names none. */
export const DEFAULT_WORKFLOW: BuiltInName = "impl";

export function isBuiltIn(name: string): name is BuiltInName {
  return Object.hasOwn(BUILT_IN, name);
}

/** null: the name is not that of a built-in workflow. */
export async function loadPlugin(name: string): Promise<WorkflowPlugin | null> {
  return isBuiltIn(name) ? await BUILT_IN[name].load() : null;
}

/** Stages in which only the end is left; none for a workflow that is not built in. */
export function completingStages(name: string): readonly string[] {
  return isBuiltIn(name) ? BUILT_IN[name].completing : [];
}

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
