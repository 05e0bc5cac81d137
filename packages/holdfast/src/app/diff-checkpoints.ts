import type { Checkpoint, FilesPlane } from "../core/checkpoint/checkpoint.ts";
import type { Json } from "../core/json.ts";
import { diffJson } from "../core/values/index.ts";
import type { JsonChange } from "../core/values/index.ts";
import type { CurrentFiles, Diff, DiffParams, Workspaces } from "../ports/workspace.ts";

/** `to`: another checkpoint, or the files as they are now. */
export async function diffCheckpoints(params: {
  readonly workspaces: Workspaces | null;
  readonly from: Checkpoint;
  readonly to:
    | { readonly kind: "checkpoint"; readonly checkpoint: Checkpoint }
    | { readonly kind: "files"; readonly files: CurrentFiles | null };
  readonly shown: Pick<DiffParams, "paths" | "format" | "color">;
}): Promise<HoldfastDiff> {
  const { workspaces } = params;
  const before = params.from.planes;
  const after = params.to.kind === "files" ? null : params.to.checkpoint.planes;
  const to = params.to.kind === "files" ? params.to.files : params.to.checkpoint.planes.files;
  const { paths, format, color } = params.shown;
  const files =
    workspaces === null || before.files === null || to === null
      ? null
      : await workspaces.diff({
          from: before.files.tree,
          to: to.tree,
          format,
          ...(paths === undefined ? {} : { paths }),
          ...(color === undefined ? {} : { color }),
        });
  return {
    files,
    leftOut: [before.files, to].map((side) => side && { skipped: side.skipped, nested: side.nested }),
    values: after === null ? [] : diffJson({ from: valuesOf(before), to: valuesOf(after) }).changes,
  };
}

export interface HoldfastDiff {
  /** null when one side holds no files. */
  readonly files: Diff | null;
  /** What each side was captured without; null for one that holds no files. */
  readonly leftOut: readonly (Pick<FilesPlane, "skipped" | "nested"> | null)[];
  /** Changed paths of position and context, as JSON pointers; empty when compared with the worktree. */
  readonly values: readonly JsonChange[];
}

function valuesOf(planes: { readonly position: unknown; readonly context: unknown }): Json {
  return { position: planes.position as Json, context: planes.context as Json };
}
