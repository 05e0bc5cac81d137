import { HoldfastError } from "../core/error.ts";
import type { GitPath } from "../core/checkpoint/checkpoint.ts";
import { parentOf } from "./capture/inspect-path.ts";
import { parsePath, type RawPath } from "./raw-path.ts";
import { isSafePath } from "./safe-path.ts";

/** Files and folders that a caller asked for. The root itself is "". */
type PathScope = ReadonlySet<RawPath>;

export function parseScope(paths: readonly GitPath[]): PathScope {
  return new Set(
    paths.map((text) => {
      const path = parsePath(text)
        ?.replace(/^(?:\.\/+)+/, "")
        .replace(/\/+$/, "");
      if (path === "" || path === ".") return "";
      if (path !== undefined && isSafePath(path)) return path;
      throw new HoldfastError({
        code: "USAGE",
        message: `${text} is not a path inside the worktree`,
        hint: "Give paths relative to the root of the worktree.",
      });
    }),
  );
}

/** Is the path one of these, or below one of them? */
export function inScope(path: RawPath, scope: PathScope): boolean {
  if (scope.size === 0) return false;
  for (let at = path; at !== ""; at = parentOf(at)) if (scope.has(at)) return true;
  return scope.has("");
}
