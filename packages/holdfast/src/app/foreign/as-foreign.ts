import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Run } from "../../core/run/run.ts";
import type { ForeignCheckpoint, FormatName, Loss } from "../../formats/format.ts";
import { IMPORTED, importedOf } from "./imported.ts";
import type { Imported } from "./imported.ts";

/** A checkpoint of ours as codecs take it, with the document that it came from, however far the run has gone on since. */
export function asForeign(
  run: Pick<Run, "workflow" | "work">,
  checkpoint: Pick<Checkpoint, "trigger" | "sequence" | "createdAt" | "planes">,
  to: FormatName,
): { readonly foreign: ForeignCheckpoint; readonly losses: readonly Loss[] } {
  const imported = importedOf(checkpoint.planes);
  // Later checkpoints carry the document along, but they are not the one that it describes.
  const itself = checkpoint.trigger === "import" ? imported : null;
  const { [IMPORTED]: _kept, ...extensions } = checkpoint.planes.extensions;
  const original =
    imported === null || imported.document === null ? null : { format: imported.format, document: imported.document };
  const foreign: ForeignCheckpoint = {
    id: itself === null ? newId(checkpoint, imported, to) : itself.id,
    createdAt: itself === null ? checkpoint.createdAt : itself.createdAt,
    trigger: itself?.trigger ?? checkpoint.trigger,
    workflow: run.workflow,
    work: run.work,
    planes: { ...checkpoint.planes, extensions },
    original,
  };
  return { foreign, losses: original === null || original.format === to ? [] : [documentLost(original, to)] };
}

/** Versions count on from the imported one; all other formats make an id from what the checkpoint says. */
function newId(checkpoint: Pick<Checkpoint, "sequence">, imported: Imported | null, to: FormatName): string | null {
  if (to !== "context-store") return null;
  const before = imported?.format === "context-store" ? Number(imported.id) : 0;
  return String((Number.isSafeInteger(before) ? before : 0) + checkpoint.sequence);
}

function documentLost(original: { readonly format: FormatName; readonly document: JsonObject }, to: FormatName): Loss {
  const why = `The ${original.format} document it was imported from has no place in ${to}: what only that format has stays in the store`;
  return { path: `extensions.${IMPORTED}`, why };
}
