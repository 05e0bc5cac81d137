import type { Hasher } from "./json.ts";

/**
 * SHA-256 (FIPS 180-4) in plain arithmetic, for the few small things that are hashed where no platform is at hand: a
 * workflow's definition, an effect's payload. Bulk goes through the hasher that the platform brings.
 */
export const pureSha256: Hasher = (data) => {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  const state = Uint32Array.from(START);
  const block = new DataView(new ArrayBuffer(64));
  const words = new Uint32Array(64);
  const last = Math.floor((bytes.length + 8) / 64);
  for (let index = 0; index <= last; index += 1) {
    fill(block, bytes, index * 64);
    if (index === last) {
      block.setUint32(56, Math.floor(bytes.length / 0x2000_0000));
      block.setUint32(60, (bytes.length * 8) >>> 0);
    }
    digestBlock(state, block, words);
  }
  return [...state].map((word) => word.toString(16).padStart(8, "0")).join("");
};

/** The bytes from here on, then a one bit, then zeros. */
function fill(block: DataView, bytes: Uint8Array, from: number): void {
  for (let i = 0; i < 64; i += 1) {
    const at = from + i;
    block.setUint8(i, at < bytes.length ? (bytes[at] ?? 0) : at === bytes.length ? 0x80 : 0);
  }
}

function digestBlock(state: Uint32Array, block: DataView, words: Uint32Array): void {
  const word = (i: number): number => words[i] ?? 0;
  for (let i = 0; i < 64; i += 1) {
    if (i < 16) {
      words[i] = block.getUint32(i * 4);
      continue;
    }
    const [before, near] = [word(i - 15), word(i - 2)];
    const s0 = turn(before, 7) ^ turn(before, 18) ^ (before >>> 3);
    const s1 = turn(near, 17) ^ turn(near, 19) ^ (near >>> 10);
    words[i] = word(i - 16) + s0 + word(i - 7) + s1;
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (let i = 0; i < 64; i += 1) {
    const t1 = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + (ROUNDS[i] ?? 0) + word(i);
    const t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) >>> 0, c, b, a, (t1 + t2) >>> 0];
  }
  [a, b, c, d, e, f, g, h].forEach((value, i) => {
    state[i] = (state[i] ?? 0) + value;
  });
}

function turn(value: number, bits: number): number {
  return (value >>> bits) | (value << (32 - bits));
}

/** First 32 bits of the fraction of a root of each of the first primes: square roots to start, cube roots for the rounds. */
const PRIMES = firstPrimes(64);
const START = PRIMES.slice(0, 8).map((prime) => fractionBits(prime, 2));
const ROUNDS = PRIMES.map((prime) => fractionBits(prime, 3));

function firstPrimes(count: number): readonly number[] {
  const found: number[] = [];
  for (let n = 2; found.length < count; n += 1) if (found.every((prime) => n % prime !== 0)) found.push(n);
  return found;
}

/** Exact: the integer root of prime * 2^(32 * power), whose low 32 bits are those of the fraction. */
function fractionBits(prime: number, power: number): number {
  const target = BigInt(prime) << BigInt(32 * power);
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(power) <= target) low = middle;
    else high = middle;
  }
  return Number(low & 0xffff_ffffn);
}
