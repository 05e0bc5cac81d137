import { readdir } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import type { Holdfast } from "../app.ts";
import type { CheckpointSummary } from "../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../core/error.ts";
import { nearest } from "../core/nearest.ts";
import type { Shell } from "./command.ts";

/** A path that is on neither side, with the name that was perhaps meant, spelled from where the person stands. */
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
          ? "Paths count from where you stand; `holdfast diff --name-only` prints those that changed."
          : `Did you mean ${relative(shell.cwd, join(root, guess))}?`,
      cause,
    });
  }
  return cause;
}
