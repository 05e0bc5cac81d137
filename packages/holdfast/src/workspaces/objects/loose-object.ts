import { createHash, hash } from "node:crypto";
import { createReadStream, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createInflate, inflateSync } from "node:zlib";
import { HoldfastError } from "../../core/error.ts";
import type { Repository } from "../repository.ts";

/**
 * Is there a loose object of this name whose bytes are not what the name promises? A power cut leaves such files, empty or cut
 * short; git takes them for stored and never writes them again. One that cannot be opened or read is not judged.
 */
export async function isDamaged(repository: Repository, id: string): Promise<boolean> {
  const path = loosePath(repository, id);
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size === undefined) return false;
  try {
    const { sum, read } = size > AT_ONCE_BYTES ? await readPiecewise(repository, path) : readAtOnce(repository, path);
    // Both: git refuses an object with anything behind its end.
    return sum !== id || read !== size;
  } catch (error) {
    return error instanceof Error && "code" in error && String(error.code).startsWith("Z_");
  }
}

export function loosePath(repository: Repository, id: string): string {
  return join(repository.objectDirectory, id.slice(0, 2), id.slice(2));
}

// Small ones are nearly all of them, and a stream for each would cost several times the work itself.
const AT_ONCE_BYTES = 64 * 1024;

interface ReadObject {
  readonly sum: string;
  /** Of the file. */
  readonly read: number;
}

function readAtOnce(repository: Repository, path: string): ReadObject {
  const inflated: unknown = inflateSync(readFileSync(path), { info: true });
  if (!isInflated(inflated)) throw new HoldfastError({ code: "INTERNAL", message: "zlib answered in an unknown way" });
  return { sum: hash(repository.objectFormat, inflated.buffer), read: inflated.engine.bytesWritten };
}

/** Under `info` zlib answers otherwise than its types say. */
function isInflated(
  value: unknown,
): value is { readonly buffer: Buffer; readonly engine: { readonly bytesWritten: number } } {
  if (typeof value !== "object" || value === null || !("buffer" in value) || !("engine" in value)) return false;
  const { buffer, engine } = value;
  return Buffer.isBuffer(buffer) && typeof engine === "object" && engine !== null && "bytesWritten" in engine;
}

async function readPiecewise(repository: Repository, path: string): Promise<ReadObject> {
  const inflate = createInflate();
  const sum = createHash(repository.objectFormat);
  await pipeline(createReadStream(path), inflate, sum);
  return { sum: sum.digest("hex"), read: inflate.bytesWritten };
}
