import { closeSync, constants, fstatSync, fsyncSync, openSync, readSync, writeSync } from "node:fs";
import { crc32 } from "node:zlib";
import type { Head } from "./heads.ts";
import { toHex } from "./columns.ts";
import type { Digest } from "../../core/json.ts";
import { readRegularFile } from "../../system/regular-file.ts";

/**
 * How far each run had come, outside the database. Written in the turn that answers the caller, never synced: it is
 * never ahead of the database, and behind it only by what a power cut, or a kill within that turn, took. So a database
 * that is behind it was cut or replaced. A witness that cannot be written makes nothing less durable: no reason to fail.
 */
export interface Witness {
  note(heads: readonly NotedHead[]): void;
  close(): void;
}

type NotedHead = Pick<Head, "no" | "entry" | "hash">;

export interface Testimony {
  readonly entry: number;
  readonly hash: Digest;
}

export type WitnessFile =
  | { readonly kind: "absent" }
  /** Nothing in it, or nothing but zeros: emptied, not scribbled over. */
  | { readonly kind: "blank" }
  | { readonly kind: "unreadable"; readonly why: string }
  | {
      readonly kind: "read";
      readonly storeId: string;
      readonly runs: ReadonlyMap<number, Testimony>;
      readonly damaged: readonly number[];
    };

/** Slot 0 names the store, slot n speaks of run number n. One slot never crosses a sector. */
const SLOT = 64;
const MAGIC = 0x48465731;
const AT_ONCE = 64;
const MAX_BYTES = 256 << 20;
/** The file may be removed or replaced beside us, so it is opened anew now and then. */
const REOPEN_AFTER_MS = 1000;

export function createWitness(params: { readonly path: string; readonly storeId: string }): Witness {
  // Kept: after a sync the caches are cold, and fresh memory would cost more than the write.
  const buffer = Buffer.alloc(SLOT * AT_ONCE);
  let fd: number | undefined;
  let openedAt = Number.NEGATIVE_INFINITY;

  function letGo(): void {
    const old = fd;
    fd = undefined;
    if (old !== undefined) closeSync(old);
  }

  return {
    note(heads) {
      if (heads.length === 0) return;
      try {
        const now = performance.now();
        if (now - openedAt > REOPEN_AFTER_MS) {
          openedAt = now;
          letGo();
          fd = openWitness(params.path, params.storeId);
        }
        if (fd === undefined) return;
        writeSlots(fd, buffer, heads);
      } catch {
        // It lags; verify says so when it is gone altogether.
      }
    },
    close() {
      openedAt = Number.POSITIVE_INFINITY;
      try {
        letGo();
      } catch {
        // Nothing in it had to last.
      }
    },
  };
}

/** Slots that stand side by side, as those of runs that were created together do, cost one write. */
function writeSlots(fd: number, buffer: Buffer, heads: readonly NotedHead[]): void {
  let first = 0;
  let count = 0;
  for (const head of heads.length > 1 ? heads.toSorted((a, b) => a.no - b.no) : heads) {
    if (count === AT_ONCE || head.no !== first + count) {
      if (count > 0) writeSync(fd, buffer, 0, count * SLOT, first * SLOT);
      first = head.no;
      count = 0;
    }
    fillSlot(buffer, count * SLOT, head);
    count += 1;
  }
  if (count > 0) writeSync(fd, buffer, 0, count * SLOT, first * SLOT);
}

/** Open for writing and begun. undefined: something else is in its place, which is left alone for verify to tell. */
function openWitness(path: string, storeId: string): number | undefined {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const fd = openSync(path, flags, 0o600);
  try {
    const first = Buffer.alloc(SLOT);
    const isFile = fstatSync(fd).isFile();
    if (isFile) readSync(fd, first, 0, SLOT, 0);
    const own = Buffer.alloc(SLOT);
    fillSlot(own, 0, { no: 0, entry: 0, hash: storeId.padEnd(64, "0") });
    if (isFile && isZero(first)) writeSync(fd, own, 0, SLOT, 0);
    if (isFile && (isZero(first) || first.equals(own))) return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  closeSync(fd);
  return undefined;
}

/** Durable, but for its name in the directory: sync that too. From then on its absence is a loss. */
export function beginWitness(path: string, storeId: string): void {
  const fd = openWitness(path, storeId);
  if (fd === undefined) return;
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

export function readWitness(path: string): WitnessFile {
  const file = readRegularFile({ path, maxBytes: MAX_BYTES });
  if (file.kind === "absent") return { kind: "absent" };
  if (file.kind === "refused") return { kind: "unreadable", why: file.why };
  const { bytes } = file;
  if (isZero(bytes)) return { kind: "blank" };
  const first = bytes.length >= SLOT ? parseSlot(bytes.subarray(0, SLOT)) : undefined;
  if (first === undefined || first.no !== 0)
    return { kind: "unreadable", why: `${path} does not begin like a witness` };
  const runs = new Map<number, Testimony>();
  const damaged: number[] = [];
  for (let no = 1; (no + 1) * SLOT <= bytes.length; no++) {
    const slot = bytes.subarray(no * SLOT, (no + 1) * SLOT);
    if (isZero(slot)) continue;
    const parsed = parseSlot(slot);
    if (parsed === undefined || parsed.no !== no) damaged.push(no);
    else runs.set(no, { entry: parsed.entry, hash: parsed.hash });
  }
  return { kind: "read", storeId: first.hash.slice(0, 32), runs, damaged };
}

/** What lies between the hash and the checksum is zero, in a buffer that begins so. */
function fillSlot(buffer: Buffer, at: number, { no, entry, hash }: NotedHead): void {
  buffer.writeUInt32LE(MAGIC, at);
  buffer.writeUInt32LE(no, at + 4);
  buffer.writeDoubleLE(entry, at + 8);
  buffer.write(hash, at + 16, 32, "hex");
  buffer.writeUInt32LE(crc32(buffer.subarray(at, at + SLOT - 4)), at + SLOT - 4);
}

function isZero(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}

function parseSlot(slot: Buffer): { readonly no: number; readonly entry: number; readonly hash: Digest } | undefined {
  if (slot.readUInt32LE(0) !== MAGIC || slot.readUInt32LE(SLOT - 4) !== crc32(slot.subarray(0, SLOT - 4)))
    return undefined;
  return { no: slot.readUInt32LE(4), entry: slot.readDoubleLE(8), hash: toHex(slot.subarray(16, 48)) };
}
