import { HoldfastError } from "@holdfast/platform/error";

/** `what` completes "chunk n is damaged: …". The chunk's id is added where it is known. */
export function corrupt(what: string, cause?: unknown): HoldfastError {
  return corruptChunk(undefined, what, cause);
}

export function corruptChunk(id: number | undefined, what: string, cause?: unknown): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `${id === undefined ? "A stored value" : `Stored chunk ${id}`} is damaged: ${what}`,
    hint: "Run `holdfast verify` to see how far the damage goes, then resume from the newest intact checkpoint.",
    data: { chunk: id ?? null },
    cause,
  });
}
