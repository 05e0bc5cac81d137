import type { RawPath } from "./raw-path.ts";

/**
 * May this path from a tree be written below a worktree root? Trees can come from anywhere; git's own checks do not stand
 * between `cat-file` and the disk, so ours must. The same rule decides what a snapshot can hold.
 */
export function isSafePath(path: RawPath): boolean {
  if (path === "" || path.includes("\0")) return false;
  return path.split("/").every((name) => name !== "" && name !== "." && name !== ".." && !isDotGit(name));
}

/** ".git" as Linux, NTFS (short name, streams, trailing dots and spaces) or HFS+ (ignorable characters) read it. */
function isDotGit(name: string): boolean {
  const visible = Buffer.from(name, "latin1").toString("utf8").replaceAll(IGNORABLE, "");
  return /^(?:\.git|git~1)[. ]*(?::.*)?$/is.test(visible) || /(?:^|\\)(?:\.git|git~1)[. ]*(?:\\|$)/is.test(visible);
}

const IGNORABLE = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;
