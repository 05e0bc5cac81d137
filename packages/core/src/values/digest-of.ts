import type { Digest, Hasher } from "../json.ts";
import type { ChunkSource } from "./chunk.ts";
import { corrupt } from "./corrupt.ts";
import { arrayPreimage, objectPreimage, upperPreimage } from "./page-format.ts";
import { type WalkedChunk, walkChunks } from "./walk-chunks.ts";

/**
 * Recomputes the digest bottom-up from the bytes, without building the value. STORE_CORRUPT with `data.chunk` (its
 * id) at the first chunk that is missing, malformed, or whose bytes do not give the digest it is filed under.
 * `verified` remembers good chunks across calls, so that a walk over many roots visits each chunk once.
 */
export function digestOf(params: {
  readonly root: Uint8Array;
  readonly source: ChunkSource;
  readonly hasher: Hasher;
  readonly verified?: Map<number, Digest>;
}): Digest {
  const { root, source, hasher } = params;
  const verified = params.verified ?? new Map<number, Digest>();
  let result = "";
  walkChunks({
    root,
    source,
    isDone: (id) => verified.has(id),
    visit: (chunk) => {
      const digest = checkedDigest(chunk, hasher, (id) => verified.get(id) ?? "");
      if (chunk.id === undefined) result = digest;
      else verified.set(chunk.id, digest);
    },
  });
  return result;
}

/** Of one chunk, given those of its children. Throws when it is filed under another. */
export function checkedDigest(chunk: WalkedChunk, hasher: Hasher, digestAt: (id: number) => Digest): Digest {
  const digest = computeDigest(chunk, hasher, digestAt);
  if (chunk.digest !== undefined && chunk.digest !== digest) {
    throw corrupt(`its content has digest ${digest}, not ${chunk.digest}`);
  }
  return digest;
}

function computeDigest(chunk: WalkedChunk, hasher: Hasher, digestAt: (id: number) => Digest): Digest {
  const { parsed, bytes } = chunk;
  switch (parsed.kind) {
    case "json":
    case "piece":
      return hasher(bytes);
    case "array":
      return hasher(arrayPreimage(parsed.text, parsed.runs, parsed.refs.map(digestAt)));
    case "object":
      return hasher(objectPreimage(parsed.text, parsed.keys, parsed.refs.map(digestAt)));
    case "upper":
      return hasher(upperPreimage(parsed.tag, parsed.level, parsed.refs.map(digestAt)));
    case "reference":
      return digestAt(parsed.refs[0] ?? -1);
  }
}
