import type { Decoded, ForeignFile } from "../format.ts";
import { decodeCrunch } from "./decode-crunch.ts";

export type DecodeCrunch = (file: ForeignFile) => Decoded;

/**
 * For one who reads the same directory after each of its changes: a file that holds what it held is not parsed again.
 * The bytes decide, never a time or a size; what could not be read is tried each time.
 */
export function decodeAgain(): {
  readonly decode: DecodeCrunch;
  readonly keepOnly: (files: readonly ForeignFile[]) => void;
} {
  const known = new Map<string, { readonly file: ForeignFile; readonly decoded: Decoded }>();
  return {
    decode(file) {
      const before = known.get(file.path);
      if (before !== undefined && sameFile(before.file, file)) return before.decoded;
      const decoded = decodeCrunch(file);
      known.set(file.path, { file, decoded });
      return decoded;
    },
    keepOnly(files) {
      const there = new Set(files.map(({ path }) => path));
      for (const path of known.keys()) if (!there.has(path)) known.delete(path);
    },
  };
}

function sameFile(a: ForeignFile, b: ForeignFile): boolean {
  if (a.compression !== b.compression || a.bytes.length !== b.bytes.length) return false;
  for (let at = 0; at < a.bytes.length; at += 1) if (a.bytes[at] !== b.bytes[at]) return false;
  return true;
}
