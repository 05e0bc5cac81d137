import { gzipSync } from "node:zlib";
import { xxh32 } from "./xxh32.ts";

/** As the end of a file's name promises: readers go by it. */
export function packFor(name: string, bytes: Uint8Array): Uint8Array {
  if (/\.gz$/i.test(name)) return gzipSync(bytes);
  return /\.lz4$/i.test(name) ? storeLz4(bytes) : bytes;
}

const BLOCK = 4 * 1024 * 1024;

/** A frame that any LZ4 reader takes, with its content as it is: checkpoints are small, and a compressor is not worth its code. */
function storeLz4(bytes: Uint8Array): Uint8Array {
  // Version 1, independent blocks, a checksum of the content; blocks of up to 4 MiB.
  const descriptor = Uint8Array.of(0x64, 0x70);
  const parts: Uint8Array[] = [word(0x184d2204), descriptor, Uint8Array.of((xxh32(descriptor) >>> 8) & 255)];
  for (let at = 0; at < bytes.length; at += BLOCK) {
    const block = bytes.subarray(at, at + BLOCK);
    parts.push(word((block.length | 0x80000000) >>> 0), block);
  }
  parts.push(word(0), word(xxh32(bytes)));
  return Buffer.concat(parts);
}

function word(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}
