/**
 * What the row of a checkpoint holds of its planes: small ones as canonical JSON; as a rule a pack, whose last chunk is
 * the root, or the place of that pack in a bundle; of a pack too large for a row, the id of the root in it.
 */
const REFERENCE = 2;
const PART = 4;
const PART_BYTES = 17;

/** Where a pack lies in a bundle: so many of its chunks, from the one with that number on. */
export interface BundlePart {
  readonly bundle: number;
  readonly first: number;
  readonly count: number;
}

export function partBody({ bundle, first, count }: BundlePart): Uint8Array {
  const body = Buffer.alloc(PART_BYTES);
  body.writeUInt8(PART, 0);
  body.writeDoubleLE(bundle, 1);
  body.writeUInt32LE(first, 9);
  body.writeUInt32LE(count, 13);
  return body;
}

/** undefined for a body of another kind. */
export function bundlePart(body: Uint8Array): BundlePart | undefined {
  if (body[0] !== PART || body.length !== PART_BYTES) return undefined;
  const view = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const bundle = view.readDoubleLE(1);
  if (!Number.isSafeInteger(bundle) || bundle < 1) return undefined;
  return { bundle, first: view.readUInt32LE(9), count: view.readUInt32LE(13) };
}

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
