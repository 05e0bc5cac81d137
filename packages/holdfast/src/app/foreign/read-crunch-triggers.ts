import type { CrunchTriggers } from "../../core/crunch/triggers.ts";
import { defaultCrunchConfig } from "../../formats/crunch/crunch-config.ts";
import type { Workspaces } from "../../ports/workspace.ts";
import { crunchRoot } from "./crunch-root.ts";
import { readCrunchSettings } from "./crunch-settings.ts";

/** As the file says now: one that is changed while a run works counts from its next checkpoint on. */
export async function readCrunchTriggers(workspaces: Workspaces | null, cwd: string): Promise<CrunchTriggers> {
  const root = await crunchRoot(workspaces, cwd);
  return (readCrunchSettings(root) ?? defaultCrunchConfig()).triggers;
}
