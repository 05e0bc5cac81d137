import type { Parts } from "../../engine/parts.ts";
import { REGISTRY_PATH, registryDocument, sayTheSame } from "../../formats/loop-json/registry-document.ts";
import { writeJson } from "../../formats/write-json.ts";
import type { LayoutFiles } from "./layout-files.ts";
import { standingLoops } from "./loop-standings.ts";

const MAX_ROUNDS = 5;

/**
 * Writes the registry of loops as the store has them. Several runs write it at once, each the whole truth of its moment: whoever wrote looks
 * again, so the last of them leaves it true. `pulse`: also when there is nothing new but signs of life.
 */
export async function writeRegistry(
  { parts, limit }: { readonly parts: Parts; readonly limit: number | null },
  files: LayoutFiles,
  { pulse }: { readonly pulse: boolean } = { pulse: false },
): Promise<boolean> {
  let written = false;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const loops = await standingLoops(parts);
    const before = files.readJson(REGISTRY_PATH);
    const document = registryDocument({ before, loops, store: parts.store.id, limit });
    const same = sayTheSame(document, before);
    if (same && (written || !pulse)) return written;
    written = files.write(REGISTRY_PATH, writeJson(document)) || written;
  }
  return written;
}
