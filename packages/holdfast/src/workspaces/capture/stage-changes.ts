import { lstatSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import type { FileChange } from "../../ports/workspace.ts";
import type { CapturePlace } from "./capture.ts";
import { syncFileSystem } from "../objects/durable.ts";
import { absolutePath, createInspector } from "./inspect-path.ts";
import type { Placement } from "../restore/place-files.ts";
import type { RawPath } from "../raw-path.ts";
import { stageBlobs, type Permissions } from "./stage-blobs.ts";
import type { TreeEntry } from "./tree-diff.ts";

export interface ResolvedChange {
  readonly change: FileChange;
  readonly path: RawPath;
  readonly to: TreeEntry | null;
}

/** All new content, written and durable in a folder of ours, before anything in the worktree changes. */
export async function stageChanges(
  place: CapturePlace,
  changes: readonly ResolvedChange[],
  folder: string,
): Promise<readonly Placement[]> {
  const blobs: { id: string; file: string; permissions: Permissions }[] = [];
  const links: { text: string; staged: string }[] = [];
  const inspect = createInspector(place.root);
  const placements = changes.map(({ change, path, to }, number): Placement => {
    if (to === null) return { kind: "remove", path };
    const there = inspect(path).kind === "absent" ? undefined : statFile(absolutePath(place.root, path));
    const permissions = permissionsFor(there, to.mode);
    if (change.kind === "mode") return { kind: "mode", path, permissions: permissions.mode };
    const staged = join(folder, String(number));
    const text = `${staged}.text`;
    if (to.mode === LINK) links.push({ text, staged });
    blobs.push({ id: to.id, file: to.mode === LINK ? text : staged, permissions });
    return { kind: "place", path, staged };
  });
  const each = blobs.length <= SYNC_EACH_UP_TO;
  await stageBlobs({ git: place.repository.objects, blobs, sync: each });
  for (const { text, staged } of links) symlinkSync(readFileSync(text), staged);
  if (!each) await syncFileSystem(folder);
  return placements;
}

const LINK = "120000";
// Above this one sync of the whole file system is cheaper than one for each file.
const SYNC_EACH_UP_TO = 16;

/** git knows only "executable or not". A file that is there keeps its other bits: a private file stays private. */
function permissionsFor(there: number | undefined, mode: string): Permissions {
  const executable = mode === "100755";
  if (there === undefined) return { mode: executable ? 0o777 : 0o666, exact: false };
  const bits = there & 0o777;
  return { mode: executable ? bits | ((bits & 0o444) >> 2) : bits & ~0o111, exact: true };
}

function statFile(path: Buffer): number | undefined {
  try {
    const stat = lstatSync(path);
    return stat.isFile() ? stat.mode : undefined;
  } catch {
    return undefined;
  }
}
