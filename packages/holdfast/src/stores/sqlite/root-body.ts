/**
 * What the row of a checkpoint holds of its planes: small ones as canonical JSON; as a rule a pack, whose last chunk is
 * the root; or, of a pack too large for a row, the id of the root in it.
 */
const REFERENCE = 2;

export function referenceBody(chunk: number): Uint8Array {
  const body = Buffer.alloc(9);
  body.writeUInt8(REFERENCE, 0);
  body.writeDoubleLE(chunk, 1);
  return body;
}

/** The chunk a body refers to; undefined for a body of another kind. */
export function referredChunk(body: Uint8Array): number | undefined {
  if (body[0] !== REFERENCE || body.length !== 9) return undefined;
  const chunk = Buffer.from(body.buffer, body.byteOffset, body.byteLength).readDoubleLE(1);
  return Number.isSafeInteger(chunk) && chunk >= 0 ? chunk : undefined;
}
