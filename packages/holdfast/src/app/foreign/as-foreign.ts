import type { Checkpoint } from "../../core/checkpoint.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Run } from "../../core/run.ts";
import type { ForeignCheckpoint, FormatName, Loss } from "../../formats/format.ts";
import { IMPORTED, importedOf } from "./imported.ts";

/** A checkpoint of ours as codecs take it, with the document that it came from, however far the run has gone on since. */
export function asForeign(
  run: Pick<Run, "workflow" | "work">,
  checkpoint: Checkpoint,
  to: FormatName,
): { readonly foreign: ForeignCheckpoint; readonly losses: readonly Loss[] } {
  const imported = importedOf(checkpoint.planes);
  // Later checkpoints carry the document along, but they are not the one that it describes.
  const itself = checkpoint.trigger === "import" ? imported : null;
  const { [IMPORTED]: _kept, ...extensions } = checkpoint.planes.extensions;
  const original =
    imported === null || imported.document === null ? null : { format: imported.format, document: imported.document };
  const foreign: ForeignCheckpoint = {
    id: itself?.id ?? null,
    createdAt: itself === null ? checkpoint.createdAt : itself.createdAt,
    trigger: itself?.trigger ?? checkpoint.trigger,
    workflow: run.workflow,
    work: run.work,
    planes: { ...checkpoint.planes, extensions },
    original,
  };
  return { foreign, losses: original === null || original.format === to ? [] : [documentLost(original, to)] };
}

function documentLost(original: { readonly format: FormatName; readonly document: JsonObject }, to: FormatName): Loss {
  const why = `The ${original.format} document it was imported from has no place in ${to}: what only that format has stays in the store`;
  return { path: `extensions.${IMPORTED}`, why };
}
