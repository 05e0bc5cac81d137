import { readdirSync, realpathSync } from "node:fs";
import { readRegularFile } from "../../system/regular-file.ts";

/** Files that an agent keeps for itself, as they are. What cannot be read says nothing: a call is judged by its own words. */

export function readOwnFile(path: string): Buffer | null {
  try {
    const file = readRegularFile({ path, maxBytes: MAX_BYTES });
    return file.kind === "read" ? file.bytes : null;
  } catch {
    return null;
  }
}

const MAX_BYTES = 512 * 1024 * 1024;

export function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Most agents know worktrees by their real names. */
export function realOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
