// Crunch's own configuration in the repository: where checkpoints go and which triggers take one.

import { dirname, join, resolve } from "node:path";
import type { Work } from "@holdfast/core/run";
import {
  type CrunchConfig,
  type CrunchTriggers,
  defaultCrunchConfig,
  parseCrunchConfig,
} from "@holdfast/formats/crunch-config";
import { HoldfastError } from "@holdfast/platform/error";
import { readRegularFile } from "@holdfast/platform/files";
import { checkpointDirectoryFor } from "../layout-files.ts";

/** Reads `.claude/checkpoint-config.yaml` of the repository; null if it does not exist. */
export function readCrunchSettings(root: string): CrunchConfig | null {
  const path = join(root, ".claude/checkpoint-config.yaml");
  const read = readRegularFile({ path, maxBytes: 1024 * 1024 });
  if (read.kind === "absent") return null;
  if (read.kind === "refused")
    throw new HoldfastError({ code: "FORMAT_DAMAGED", message: `${path} cannot be read: ${read.why}` });
  return parseCrunchConfig({ path, bytes: read.bytes, compression: "none" });
}

/**
 * Finds the configuration that applies to this directory: that of a repository above it whose `location` resolves to
 * the directory. Returns null if there is none.
 */
export function crunchSettingsFor(directory: string, work: Work): CrunchConfig | null {
  for (let root = dirname(resolve(directory)); ; root = dirname(root)) {
    const config = readHere(root, directory);
    if (config !== null && checkpointDirectoryFor(root, config, { work }) === resolve(directory)) return config;
    if (dirname(root) === root) return null;
  }
}

/**
 * An unreadable configuration is an error only for a directory that it could apply to, not for every directory below
 * the root.
 */
function readHere(root: string, directory: string): CrunchConfig | null {
  try {
    return readCrunchSettings(root);
  } catch (error) {
    if (resolve(directory).startsWith(join(root, ".claude"))) throw error;
    return null;
  }
}

/** Reads the file each time: a change during a run takes effect from the next checkpoint. */
export function readCrunchTriggers(root: string): CrunchTriggers {
  return (readCrunchSettings(root) ?? defaultCrunchConfig()).triggers;
}
