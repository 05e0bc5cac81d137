import type { Digest, Hasher, Json } from "../json.ts";
import type { ChunkSource } from "./chunk.ts";
import { corrupt } from "./corrupt.ts";
import { checkedDigest } from "./digest-of.ts";
import type { Memo } from "./memo.ts";
import { PartStore } from "./part-store.ts";
import { walkChunks } from "./walk-chunks.ts";

/**
 * Deeply frozen. With `check`, the digest of every chunk read and of the whole is recomputed on the way (STORE_CORRUPT
 * on the first that differs). With `memo`, a later encode of the value, or of one captured against it, is cheap; the
 * root page itself can be remembered only with `check`, which tells its digest.
 */
export function decode(params: {
  readonly root: Uint8Array;
  readonly source: ChunkSource;
  readonly memo?: Memo;
  readonly check?: { readonly hasher: Hasher; readonly digest: Digest };
}): Json {
  const { root, source, check } = params;
  const parts = new PartStore(params.memo);
  try {
    walkChunks({
      root,
      source,
      isDone: (id) => parts.has(id),
      visit: (chunk) => {
        const digest =
          check === undefined ? chunk.digest : checkedDigest(chunk, check.hasher, (id) => parts.digestAt(id));
        if (chunk.id === undefined && check !== undefined && digest !== check.digest) {
          throw corrupt(`the whole has digest ${digest}, not ${check.digest}`);
        }
        parts.add(chunk, digest);
      },
    });
    return parts.root();
  } catch (error) {
    // The stack or an allocation gave out: only on bytes that encode never wrote.
    if (error instanceof RangeError) throw corrupt("it is nested too deep or unfolds too far", error);
    throw error;
  }
}
