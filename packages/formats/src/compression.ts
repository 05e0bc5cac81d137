// Compression of checkpoint files: by file name when writing, by content when reading.

import { gunzipSync, gzipSync } from "node:zlib";
import { HoldfastError } from "@holdfast/platform/error";

/** Compresses `bytes` as the file name's extension says, because readers rely on the name. */
export function compressFor(name: string, bytes: Uint8Array): Uint8Array {
  if (/\.lz4$/i.test(name))
    throw new HoldfastError({
      code: "UNSUPPORTED",
      message: `${name} cannot be written: Holdfast does not write LZ4`,
      hint: "Choose a name that ends in .json or .json.gz.",
    });
  return /\.gz$/i.test(name) ? gzipSync(bytes) : bytes;
}

export type Decompressed =
  | { readonly kind: "read"; readonly bytes: Uint8Array; readonly compression: "none" | "gzip" }
  | { readonly kind: "damaged"; readonly why: string }
  | { readonly kind: "lz4" };

const LZ4_MAGIC = [0x04, 0x22, 0x4d, 0x18];

/** Detects compression by the first bytes, not by the name. Rejects output above `maxBytes` before it is produced. */
export function decompress(bytes: Uint8Array, maxBytes: number): Decompressed {
  if (LZ4_MAGIC.every((byte, at) => bytes[at] === byte)) return { kind: "lz4" };
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return { kind: "read", bytes, compression: "none" };
  try {
    return { kind: "read", bytes: gunzipSync(bytes, { maxOutputLength: maxBytes }), compression: "gzip" };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (code === "ERR_BUFFER_TOO_LARGE")
      return { kind: "damaged", why: `it has more than ${maxBytes} bytes when decompressed` };
    if (code === "Z_BUF_ERROR") return { kind: "damaged", why: "its gzip data is cut off" };
    if (code === "Z_DATA_ERROR") return { kind: "damaged", why: "its gzip data is damaged" };
    throw error;
  }
}
