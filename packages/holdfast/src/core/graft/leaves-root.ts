/** Would a link at this path lead out of the worktree? Told from the names alone: what lies there does not matter. */
export function leavesRoot(path: string, target: string): boolean {
  if (target.startsWith("/") || /^[A-Za-z]:[\\/]/.test(target) || target.startsWith("\\\\")) return true;
  let depth = path.split("/").length - 1;
  for (const name of target.split(/[\\/]/)) {
    if (name === "..") depth -= 1;
    else if (name !== "" && name !== ".") depth += 1;
    if (depth < 0) return true;
  }
  return false;
}
