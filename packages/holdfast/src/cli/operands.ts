/** Resolves the operands of commands: runs, checkpoint addresses and paths. */
import { existsSync } from "node:fs";
import { readdir, realpath } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import { nearest } from "@holdfast/core/options";
import { RUN_ID, type RunSummary } from "@holdfast/core/run";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { Holdfast } from "../holdfast.ts";
import type { Shell } from "./command.ts";

/**
 * Finds a run by its id, a unique prefix of it, or its issue number. Without a name: the run of this worktree, else the
 * newest.
 */
export async function findRun(holdfast: Holdfast, typed: string | undefined): Promise<RunSummary> {
  return await holdfast.resolveRun(typed);
}

export function issueNumber(typed: string): number | undefined {
  const digits = /^#?([1-9]\d{0,14})$/.exec(typed)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** For flags that may name a new run. The error suggests a valid id. */
export function checkNewRunId(id: string | undefined): void {
  if (id === undefined || RUN_ID.test(id)) return;
  const near = id
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 63)
    .replace(/^-+|-+$/g, "");
  throw usageError(
    `"${id}" cannot be a run id`,
    `Use 1 to 63 lower-case letters, digits and inner hyphens, such as ${RUN_ID.test(near) ? near : "issue-42"}.`,
  );
}

/**
 * As `resolve`, for commands that take paths too: if the user typed a path instead of an address, the error explains
 * where paths go.
 */
export async function resolveAddress(
  shell: Pick<Shell, "cwd">,
  holdfast: Holdfast,
  params: { readonly typed: string; readonly instead: string },
): Promise<CheckpointSummary> {
  const { typed, instead } = params;
  try {
    return await holdfast.resolve(typed);
  } catch (error) {
    const unknown = error instanceof HoldfastError && (error.code === "USAGE" || error.code === "RUN_NOT_FOUND");
    if (!unknown || typed === "" || !existsSync(resolve(shell.cwd, typed))) throw error;
    throw new HoldfastError({
      code: error.code,
      message: error.message,
      hint: `${typed} is a path here; paths go after --: ${instead} -- ${typed}`,
      data: error.data,
      cause: error,
    });
  }
}

/**
 * Paths after `--` are relative to the current directory, as in git; the engine's paths are relative to the root of a
 * worktree. Of several roots, the innermost one that contains the path counts.
 */
export async function worktreePaths(params: {
  readonly paths: readonly string[];
  readonly cwd: string;
  /** The run's worktree first. Empty if there is none: the paths are used unchanged then. */
  readonly roots: readonly string[];
}): Promise<readonly string[]> {
  // An empty path is usually an unset variable in a script, and would otherwise mean the whole folder.
  if (params.paths.includes(""))
    throw usageError("One of the paths is empty", "Write `.` for the current directory, or remove the empty path.");
  const [first] = params.roots;
  if (first === undefined) return params.paths;
  // The roots are resolved. In a path, only the part before the first typed name may contain links.
  const cwd = await realpath(params.cwd);
  return params.paths.map((path) => {
    const target = isAbsolute(path) ? path : resolve(cwd, path);
    const inside = params.roots.flatMap((root) => within(root, target) ?? []);
    const [nearest] = inside.toSorted((a, b) => a.length - b.length);
    if (nearest !== undefined) return nearest;
    throw usageError(
      `${path} is not in the worktree ${first}`,
      "Give paths inside that worktree, relative to the current directory (or to --cwd).",
    );
  });
}

/** "." for the root itself; undefined if the path is outside it. */
function within(root: string, path: string): string | undefined {
  const inner = relative(root, path);
  if (inner === "") return ".";
  if (isAbsolute(inner) || inner === ".." || inner.startsWith(`..${sep}`)) return undefined;
  return sep === "/" ? inner : inner.split(sep).join("/");
}

/** The error for a path that neither side has, with the most similar name, relative to the current directory. */
export async function unknownPath(params: {
  readonly shell: Pick<Shell, "cwd">;
  readonly holdfast: Holdfast;
  readonly target: CheckpointSummary;
  readonly root: string;
  readonly paths: readonly string[];
  readonly cause: HoldfastError;
}): Promise<HoldfastError> {
  const { shell, holdfast, target, root, paths, cause } = params;
  const changed = await holdfast.diff({ from: target.id, format: "names" }).catch(() => undefined);
  const known = changed?.files?.files.map(({ path }) => path) ?? [];
  for (const path of paths) {
    if (!cause.message.includes(path)) continue;
    const folder = dirname(path);
    const beside = await readdir(join(root, folder)).catch(() => []);
    const [guess] = nearest(path, [...beside.map((name) => join(folder, name)), ...known]);
    return new HoldfastError({
      code: "USAGE",
      message: `${path} is neither in the worktree nor in ${target.id}`,
      hint:
        guess === undefined
          ? "Paths are relative to the current directory; `holdfast diff --name-only` lists the changed files."
          : `Did you mean ${relative(shell.cwd, join(root, guess))}?`,
      cause,
    });
  }
  return cause;
}

/** Whether the path is one of the requested paths or below one; null scope: every path. Both are relative to the root. */
export function inScope(path: string, scope: readonly string[] | null): boolean {
  const bare = path.replace(/\/$/, "");
  return scope === null || scope.some((asked) => asked === "." || bare === asked || bare.startsWith(`${asked}/`));
}
