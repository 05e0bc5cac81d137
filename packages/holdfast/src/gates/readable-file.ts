import { lstatSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, join, sep } from "node:path";

export type ReadableFile =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "skip"; readonly why: string };

/** More than any source that a person wrote; generated ones are not worth the wait. */
export const MAX_BYTES = 2 * 1024 * 1024;

/** Where a changed file lies, if it is one that a parser should open: a regular file of a sane size that is really in the tree. */
export function readableFile(params: { readonly root: string; readonly path: string }): ReadableFile {
  const { path } = params;
  const isPlain = !isAbsolute(path) && !path.split("/").includes("..") && !path.includes("\0") && path !== "";
  if (!isPlain) return { kind: "skip", why: "it is not a path in the worktree" };
  try {
    const home = realpathSync(params.root);
    const whole = join(home, path);
    const stat = lstatSync(whole, { throwIfNoEntry: false });
    if (stat === undefined) return { kind: "skip", why: "it is not there any more" };
    const folder = realpathSync(dirname(whole));
    if (folder !== home && !folder.startsWith(home + sep))
      return { kind: "skip", why: "it lies behind a link that leads out of the worktree" };
    // What a link points at is checked under its own name, or is none of this worktree's files.
    if (stat.isSymbolicLink()) return { kind: "skip", why: "it is a symbolic link" };
    if (!stat.isFile()) return { kind: "skip", why: "it is not a regular file" };
    if (stat.size > MAX_BYTES) return { kind: "skip", why: `it has ${stat.size} bytes, more than ${MAX_BYTES}` };
    return { kind: "file", path: whole };
  } catch (error) {
    return { kind: "skip", why: error instanceof Error ? error.message : String(error) };
  }
}
