import { dirname, join, resolve } from "node:path";
import type { Work } from "@holdfast/core/run";
import { type Workspaces, mainWorktreeRoot } from "@holdfast/core/workspace";
import {
  type CrunchConfig,
  type CrunchTriggers,
  defaultCrunchConfig,
  parseCrunchConfig,
} from "@holdfast/formats/crunch-config";
import { HoldfastError } from "@holdfast/platform/error";
import { readRegularFile } from "@holdfast/platform/files";
import { checkpointDirectoryFor } from "../layout-files.ts";

/** `.claude/checkpoint-config.yaml` of the repository, for what is written for crunch; null where there is none. */
export function readCrunchSettings(root: string): CrunchConfig | null {
  const path = join(root, ".claude/checkpoint-config.yaml");
  const read = readRegularFile({ path, maxBytes: 1024 * 1024 });
  if (read.kind === "absent") return null;
  if (read.kind === "refused")
    throw new HoldfastError({ code: "FORMAT_DAMAGED", message: `${path} cannot be read: ${read.why}` });
  return parseCrunchConfig({ path, bytes: read.bytes, compression: "none" });
}

/**
 * The configuration that speaks of this very directory: that of a repository above it, whose `location` leads here for this piece of work.
 * null for any other directory.
 */
export function crunchSettingsFor(directory: string, work: Work): CrunchConfig | null {
  for (let root = dirname(resolve(directory)); ; root = dirname(root)) {
    const config = readHere(root, directory);
    if (config !== null && checkpointDirectoryFor(root, config, { work }) === resolve(directory)) return config;
    if (dirname(root) === root) return null;
  }
}

/** One that cannot be read matters where it would be meant, and not to every directory below it. */
function readHere(root: string, directory: string): CrunchConfig | null {
  try {
    return readCrunchSettings(root);
  } catch (error) {
    if (resolve(directory).startsWith(join(root, ".claude"))) throw error;
    return null;
  }
}

/** As the file says now: one that is changed while a run works counts from its next checkpoint on. */
export async function readCrunchTriggers(workspaces: Workspaces | null, cwd: string): Promise<CrunchTriggers> {
  const root = await mainWorktreeRoot(workspaces, cwd);
  return (readCrunchSettings(root) ?? defaultCrunchConfig()).triggers;
}
