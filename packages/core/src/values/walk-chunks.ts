import { HoldfastError } from "@holdfast/platform/error";
import type { Digest } from "../json.ts";
import type { ChunkSource } from "./chunk.ts";
import { corruptChunk } from "./corrupt.ts";
import { type ParsedChunk, parseChunk } from "./parse-chunk.ts";

export interface WalkedChunk {
  /** undefined for the root, which is filed under no id. */
  readonly id: number | undefined;
  readonly digest: Digest | undefined;
  readonly bytes: Uint8Array;
  readonly parsed: ParsedChunk;
}

/**
 * Visits every chunk below the root once, children before parents, the root last. Chunks in `done` are passed over.
 * It keeps a list instead of recursing, and a chunk that lies below itself is damage.
 */
export function walkChunks(params: {
  readonly root: Uint8Array;
  readonly source: ChunkSource;
  readonly isDone: (id: number) => boolean;
  readonly visit: (chunk: WalkedChunk) => void;
}): void {
  const { source, isDone, visit } = params;
  const above = new Set<number>();
  const stack: { readonly chunk: WalkedChunk; next: number }[] = [
    {
      chunk: { id: undefined, digest: undefined, bytes: params.root, parsed: blaming(undefined, params.root) },
      next: 0,
    },
  ];
  for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
    const id = top.chunk.parsed.refs[top.next];
    if (id === undefined) {
      stack.pop();
      if (top.chunk.id !== undefined) above.delete(top.chunk.id);
      blame(top.chunk.id, () => visit(top.chunk));
      continue;
    }
    top.next += 1;
    if (isDone(id)) continue;
    if (above.has(id)) throw corruptChunk(id, "it refers to itself");
    const found = source.get(id);
    if (found === undefined) throw corruptChunk(id, "it is missing");
    above.add(id);
    stack.push({ chunk: { id, digest: found.digest, bytes: found.bytes, parsed: blaming(id, found.bytes) }, next: 0 });
  }
}

function blaming(id: number | undefined, bytes: Uint8Array): ParsedChunk {
  return blame(id, () => parseChunk(bytes));
}

/** Whoever finds the damage need not know which chunk it is in. */
function blame<T>(id: number | undefined, act: () => T): T {
  try {
    return act();
  } catch (error) {
    if (
      error instanceof HoldfastError &&
      error.code === "STORE_CORRUPT" &&
      error.data["chunk"] === null &&
      id !== undefined
    ) {
      throw corruptChunk(id, error.message, error);
    }
    throw error;
  }
}
