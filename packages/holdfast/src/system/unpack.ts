import { gunzipSync } from "node:zlib";
import { decodeLz4, isLz4Frame } from "./lz4-frame.ts";

export type Unpacked =
  | { readonly kind: "read"; readonly bytes: Uint8Array; readonly compression: "none" | "gzip" | "lz4" }
  | { readonly kind: "refused"; readonly why: string };

/** By its first bytes, whatever it is called. What would unpack to more than `maxBytes` is refused before it has. */
export function unpack(bytes: Uint8Array, maxBytes: number): Unpacked {
  if (isLz4Frame(bytes)) {
    const result = decodeLz4(bytes, maxBytes);
    return result.kind === "read" ? { ...result, compression: "lz4" } : result;
  }
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return { kind: "read", bytes, compression: "none" };
  try {
    return { kind: "read", bytes: gunzipSync(bytes, { maxOutputLength: maxBytes }), compression: "gzip" };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (code === "ERR_BUFFER_TOO_LARGE") return { kind: "refused", why: `unpacked it has more than ${maxBytes} bytes` };
    if (code === "Z_BUF_ERROR") return { kind: "refused", why: "its gzip data is cut off" };
    if (code === "Z_DATA_ERROR") return { kind: "refused", why: "its gzip data is damaged" };
    throw error;
  }
}
