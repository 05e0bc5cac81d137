import { renameSync, symlinkSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { TEMPORARY_PREFIX, syncDirectory } from "./durable-file.ts";
import { randomId } from "./ids.ts";

/**
 * A symbolic link in place of whatever is there, whole at every moment; "unsupported" where this system or file system has none (or lets
 * only administrators make them), and then nothing was changed.
 */
export function writeDurableLink(params: { readonly path: string; readonly target: string }): "made" | "unsupported" {
  const directory = dirname(params.path);
  const temporary = join(directory, `${TEMPORARY_PREFIX}${randomId()}-link`);
  try {
    symlinkSync(params.target, temporary);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (NO_LINKS.some((known) => known === code)) return "unsupported";
    throw error;
  }
  try {
    renameSync(temporary, params.path);
  } catch (error) {
    unlinkSync(temporary);
    throw error;
  }
  syncDirectory(directory);
  return "made";
}

/** Gone already is no error. */
export function removeDurable(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
  }
  syncDirectory(dirname(path));
}

const NO_LINKS = ["EPERM", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EINVAL"] as const;
