import { readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/**
 * Directories with checkpoints of loops, for whoever points at a place above them: a repository, its `.aiwg`, all loops, or one. Several
 * loops have one each, those of the legacy layout share one. Empty for every other place.
 */
export function loopDirectories(place: string): readonly string[] {
  const [name, parent, above] = [place, dirname(place), dirname(dirname(place))].map((path) => basename(path));
  if (name === ".aiwg") return ofRoot(place);
  if (name === "ralph" && parent === ".aiwg") return ofLoops(join(place, "loops"));
  if (name === "loops" && parent === "ralph") return ofLoops(place);
  if (parent === "loops" && above === "ralph") return [join(place, "checkpoints")].filter(isDirectory);
  const root = join(place, ".aiwg");
  return isDirectory(root) ? ofRoot(root) : [];
}

function ofRoot(root: string): readonly string[] {
  return [...ofLoops(join(root, "ralph/loops")), ...[join(root, "checkpoints")].filter(isDirectory)];
}

function ofLoops(loops: string): readonly string[] {
  if (!isDirectory(loops)) return [];
  return readdirSync(loops)
    .toSorted()
    .map((loop) => join(loops, loop, "checkpoints"))
    .filter(isDirectory);
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
