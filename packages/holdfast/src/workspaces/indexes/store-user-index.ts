import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { CapturePlace } from "../capture/capture.ts";
import { fileKey, openScratch } from "./private-index.ts";
import { snapshotIdentity } from "../capture/snapshot-identity.ts";
import type { UserIndex } from "./user-index.ts";

export interface StoredIndex {
  readonly blob: string;
  readonly tree: string;
  /** Carries the blob as a second parent of a snapshot: a lone blob would be taken by the next gc. */
  readonly commit: string;
}

/**
 * The user's index as a blob, so that what was staged can be found again. Stored anew only when it says something new: git
 * rewrites the file at every `status`, and megabytes at every snapshot are what makes people turn snapshots off. The caller
 * checks that the objects are still there; `forgetIndexes` forgets them too.
 */
export async function storeUserIndex(place: CapturePlace, index: UserIndex): Promise<StoredIndex | null> {
  if (index.key === null) return null;
  const memory = join(place.home, "index-of-user");
  const known = parseMemory(await readFile(memory, "utf8").catch(() => ""));
  if (known?.content === index.content) return known;
  const path = join(place.gitDir, "index");
  const input = await readFile(path);
  const { objects } = place.repository;
  const blob = await objects.line({ args: ["hash-object", "-w", "-t", "blob", "--no-filters", "--stdin"], input });
  // Not mktree: whatever core.fsync says, it syncs nothing.
  const entry = Buffer.concat([Buffer.from("100644 index\0"), Buffer.from(blob, "hex")]);
  const tree = await objects.line({ args: ["hash-object", "-w", "-t", "tree", "--stdin"], input: entry });
  const commit = await objects.line({
    args: ["commit-tree", tree, "-F", "-"],
    input: Buffer.from("The user's index at a snapshot\n"),
    env: snapshotIdentity(0),
  });
  // Remembered only if these bytes are surely the ones that were listed.
  if ((await fileKey(path)) === index.key)
    await remember(place, memory, `${index.content} ${blob} ${tree} ${commit}\n`);
  return { blob, tree, commit };
}

async function remember(place: CapturePlace, memory: string, text: string): Promise<void> {
  const scratch = await openScratch(place.home);
  try {
    const draft = join(scratch.folder, "user-index");
    await writeFile(draft, text, { mode: 0o600 });
    await rename(draft, memory);
  } finally {
    await scratch.release();
  }
}

const MEMORY = /^[0-9a-f]{40}(?: [0-9a-f]{40,64}){3}\n$/;

function parseMemory(text: string): (StoredIndex & { readonly content: string }) | undefined {
  if (!MEMORY.test(text)) return undefined;
  const [content = "", blob = "", tree = "", commit = ""] = text.trimEnd().split(" ");
  return { content, blob, tree, commit };
}
