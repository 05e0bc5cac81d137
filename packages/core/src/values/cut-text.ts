/**
 * Where a long string is cut: after a place whose last 32 or so units hash to a rare pattern (a gear hash), so that
 * an edit moves only the cuts beside it. Sizes are in UTF-8 bytes.
 */
const MIN_PIECE = 4096;
const MAX_PIECE = 65_536;
/** One place in 12 Ki past the minimum: 16 KB a piece on average. */
const PATTERN_BELOW = Math.floor(2 ** 32 / (12 * 1024));

interface Cut {
  /** Index of the first unit after the piece. */
  readonly end: number;
  /** Bytes of the piece inside a JSON string. */
  readonly jsonBytes: number;
}

export function nextCut(text: string, start: number): Cut {
  let bytes = 0;
  let extra = 0;
  let hash = 0;
  let at = start;
  while (at < text.length) {
    const unit = text.charCodeAt(at);
    let width = 1;
    let units = 1;
    if (unit >= 128 && unit < 0x800) {
      width = 2;
    } else if (unit >= 0xd800 && unit < 0xdc00) {
      // A high surrogate: its partner belongs to the same character and must not be parted from it.
      width = 4;
      units = 2;
    } else if (unit >= 0x800) {
      width = 3;
    }
    if (bytes + width > MAX_PIECE) break;
    bytes += width;
    if (unit < 128) extra += ESCAPE_BYTES[unit] ?? 0;
    at += units;
    hash = ((hash << 1) + (GEAR[unit & 255] ?? 0) + (unit >>> 8)) | 0;
    if (bytes >= MIN_PIECE && hash >>> 0 < PATTERN_BELOW) break;
  }
  return { end: at, jsonBytes: bytes + extra };
}

/** What escaping adds to UTF-8 text inside a JSON string. */
export function escapeBytes(utf8: Uint8Array): number {
  let extra = 0;
  for (const byte of utf8) extra += ESCAPE_BYTES[byte] ?? 0;
  return extra;
}

/** What escaping adds to a character: `\n` one byte, `\u0001` five. */
const ESCAPE_BYTES = Uint8Array.from({ length: 256 }, (_, unit) => {
  if (unit === 0x22 || unit === 0x5c) return 1;
  if (unit >= 0x20) return 0;
  return [8, 9, 10, 12, 13].includes(unit) ? 1 : 5;
});

/** Any fixed even table does; this one comes out of xorshift32. Part of the format: it decides where strings are cut. */
const GEAR = gearTable();

function gearTable(): Int32Array {
  const table = new Int32Array(256);
  let state = 0x9e3779b9;
  for (let i = 0; i < 256; i += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    table[i] = state;
  }
  return table;
}
