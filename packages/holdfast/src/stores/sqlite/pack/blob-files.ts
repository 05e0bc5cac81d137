import { join } from "node:path";
import { HoldfastError } from "@holdfast/platform/error";
import type { Digest, Hasher } from "@holdfast/core/json";
import { makeDurableDirectory, readRegularFile, writeDurable } from "@holdfast/platform/files";

/** Large bodies as files named by their digest; durable before any row names them. */
export interface BlobFiles {
  put(body: Uint8Array): Digest;
  /** STORE_CORRUPT when it is gone, longer than expected, or not what its name says. */
  get(digest: Digest, maxBytes: number): Uint8Array;
  pathOf(digest: Digest): string;
}

export function createBlobFiles(params: { readonly directory: string; readonly hasher: Hasher }): BlobFiles {
  const { directory, hasher } = params;
  const folderOf = (digest: Digest): string => join(directory, digest.slice(0, 2));
  const pathOf = (digest: Digest): string => join(folderOf(digest), digest);
  return {
    pathOf,
    put(body) {
      const digest = hasher(body);
      makeDurableDirectory(folderOf(digest));
      // What is there may be the torn work of somebody else's disk; replacing it by the same bytes is always right.
      writeDurable({ path: pathOf(digest), data: body, mode: "replace" });
      return digest;
    },
    get(digest, maxBytes) {
      const path = pathOf(digest);
      if (!/^[0-9a-f]{64}$/.test(digest)) throw damaged(digest, "its name is no digest");
      const file = readRegularFile({ path, maxBytes });
      if (file.kind === "absent") throw damaged(digest, "the file is gone");
      if (file.kind === "refused") throw damaged(digest, file.why);
      if (hasher(file.bytes) !== digest) throw damaged(digest, "its bytes do not give the digest it is named by");
      return file.bytes;
    },
  };
}

function damaged(digest: Digest, why: string): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The blob ${digest} cannot be read: ${why}`,
    hint: "Run `holdfast verify` to see which checkpoints are still whole.",
    data: { blob: digest },
  });
}
