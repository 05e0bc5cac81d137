/** The checksum of LZ4 frames (xxHash, 32 bits, seed 0). Finds accidents, proves nothing. */
export function xxh32(data: Uint8Array): number {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let at = 0;
  let hash: number;
  if (data.length >= 16) {
    const lanes: [number, number, number, number] = [(P1 + P2) | 0, P2 | 0, 0, -P1 | 0];
    for (; at + 16 <= data.length; at += 16) {
      lanes[0] = round(lanes[0], view.getUint32(at, true));
      lanes[1] = round(lanes[1], view.getUint32(at + 4, true));
      lanes[2] = round(lanes[2], view.getUint32(at + 8, true));
      lanes[3] = round(lanes[3], view.getUint32(at + 12, true));
    }
    hash = (rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18)) | 0;
  } else {
    hash = P5 | 0;
  }
  hash = (hash + data.length) | 0;
  for (; at + 4 <= data.length; at += 4)
    hash = Math.imul(rotate((hash + Math.imul(view.getUint32(at, true), P3)) | 0, 17), P4);
  for (; at < data.length; at += 1) hash = Math.imul(rotate((hash + Math.imul(view.getUint8(at), P5)) | 0, 11), P1);
  hash = Math.imul(hash ^ (hash >>> 15), P2);
  hash = Math.imul(hash ^ (hash >>> 13), P3);
  return (hash ^ (hash >>> 16)) >>> 0;
}

const P1 = 0x9e3779b1;
const P2 = 0x85ebca77;
const P3 = 0xc2b2ae3d;
const P4 = 0x27d4eb2f;
const P5 = 0x165667b1;

function round(lane: number, word: number): number {
  return Math.imul(rotate((lane + Math.imul(word, P2)) | 0, 13), P1);
}

function rotate(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits));
}
