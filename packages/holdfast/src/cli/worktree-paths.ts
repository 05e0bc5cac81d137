import { realpath } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";
import { HoldfastError } from "../core/error.ts";

/**
 * What somebody types after `--` counts from where they stand, as in git; the engine counts from the root of a
 * worktree. Of several roots the innermost that holds the path is meant.
 */
export async function worktreePaths(params: {
  readonly paths: readonly string[];
  readonly cwd: string;
  /** Of the run's worktree first. Empty where there is none: then the paths are taken as they are. */
  readonly roots: readonly string[];
}): Promise<readonly string[]> {
  // A variable of a script that was not set: taken as a path it would be the whole folder.
  if (params.paths.includes(""))
    throw new HoldfastError({
      code: "USAGE",
      message: "One of the paths is empty",
      hint: "Give the folder itself as `.`, or leave the empty one out.",
    });
  const [first] = params.roots;
  if (first === undefined) return params.paths;
  // Roots have their links resolved; of a path only the part before the first name that was typed may have any.
  const cwd = await realpath(params.cwd);
  return params.paths.map((path) => {
    const target = isAbsolute(path) ? path : resolve(cwd, path);
    const inside = params.roots.flatMap((root) => within(root, target) ?? []);
    const [nearest] = inside.toSorted((a, b) => a.length - b.length);
    if (nearest !== undefined) return nearest;
    throw new HoldfastError({
      code: "USAGE",
      message: `${path} is not in the worktree ${first}`,
      hint: "Give paths inside that worktree; they count from where you stand (or from --cwd).",
    });
  });
}

/** "." for the root itself; undefined when the path leaves it. */
function within(root: string, path: string): string | undefined {
  const inner = relative(root, path);
  if (inner === "") return ".";
  if (isAbsolute(inner) || inner === ".." || inner.startsWith(`..${sep}`)) return undefined;
  return sep === "/" ? inner : inner.split(sep).join("/");
}
