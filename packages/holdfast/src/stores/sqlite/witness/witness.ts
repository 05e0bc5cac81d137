import { closeSync, constants, fstatSync, fsyncSync, openSync, readSync, writeSync } from "node:fs";
import {
  BANKS,
  type Bank,
  NAMED_BYTES,
  PER_PAGE,
  SLOT,
  type Slot,
  type SlotRecord,
  bankToWrite,
  fillSlot,
  newestOf,
  parseSlot,
  slotNumbers,
  slotOffset,
} from "./witness-slot.ts";
import type { Digest } from "@holdfast/core/json";
import { readRegularFile } from "@holdfast/platform/files";

/**
 * How far each run had come, outside the database. Written in the turn that answers the caller, never synced: it is
 * never ahead of the database, and behind it only by what a power cut, or a kill within that turn, took. So a database
 * that is behind it was cut or replaced. A witness that cannot be written makes nothing less durable: no reason to fail.
 */
export interface Witness {
  note(heads: readonly SlotRecord[]): void;
  close(): void;
}

export interface Testimony {
  readonly entry: number;
  readonly hash: Digest;
}

export type WitnessFile =
  | { readonly kind: "absent" }
  /** Nothing in it, or nothing but zeros: emptied, not scribbled over. */
  | { readonly kind: "blank" }
  | { readonly kind: "unreadable"; readonly why: string }
  /** It is shorter than it was when it was begun, so records of runs may be gone with its end. */
  | { readonly kind: "cut"; readonly bytes: number }
  | {
      readonly kind: "read";
      readonly storeId: string;
      readonly runs: ReadonlyMap<number, Testimony>;
      readonly damaged: readonly number[];
    };

const MAX_BYTES = 256 << 20;
/** The file may be removed or replaced beside us, so it is opened anew now and then. */
const REOPEN_AFTER_MS = 1000;

export function createWitness(params: { readonly path: string; readonly storeId: string }): Witness {
  // Kept: after a sync the caches are cold, and fresh memory would cost more than the write.
  const buffer = Buffer.alloc(SLOT * PER_PAGE);
  /** The bank that each run's newest record is in, as far as this handle wrote it. */
  const banks = new Map<number, Bank>();
  let fd: number | undefined;
  let openedAt = Number.NEGATIVE_INFINITY;

  function letGo(): void {
    const old = fd;
    fd = undefined;
    banks.clear();
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
        writeSlots(fd, buffer, banks, heads);
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

/**
 * Slots that stand side by side, as those of runs that were created together do, cost one write: so all go to the bank
 * whose turn it is for the first. For another run that may be the same bank again, and its other record an older one.
 */
function writeSlots(fd: number, buffer: Buffer, banks: Map<number, Bank>, heads: readonly SlotRecord[]): void {
  const ordered = heads.length > 1 ? heads.toSorted((a, b) => a.no - b.no) : heads;
  const bank = nextBank(fd, banks, ordered[0]?.no ?? 0);
  let first = 0;
  let count = 0;
  for (const head of ordered) {
    if (count > 0 && (head.no !== first + count || head.no % PER_PAGE === 0)) {
      writeSync(fd, buffer, 0, count * SLOT, slotOffset(first, bank));
      count = 0;
    }
    if (count === 0) first = head.no;
    fillSlot(buffer, count * SLOT, head);
    banks.set(head.no, bank);
    count += 1;
  }
  writeSync(fd, buffer, 0, count * SLOT, slotOffset(first, bank));
}

/** Somebody else may have written since: then the record before the torn one is only older still. */
function nextBank(fd: number, banks: ReadonlyMap<number, Bank>, no: number): Bank {
  const last = banks.get(no);
  return last === undefined ? bankToWrite(readSlots(fd, no)) : last === 0 ? 1 : 0;
}

function readSlots(fd: number, no: number): readonly [Slot, Slot] {
  const read = (bank: Bank): Slot => {
    const bytes = Buffer.alloc(SLOT);
    readSync(fd, bytes, 0, SLOT, slotOffset(no, bank));
    return parseSlot(bytes, no);
  };
  return [read(0), read(1)];
}

/** Open for writing and begun. undefined: something else is in its place, which is left alone for verify to tell. */
function openWitness(path: string, storeId: string): number | undefined {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const fd = openSync(path, flags, 0o600);
  try {
    const found = fstatSync(fd);
    if (found.isFile() && nameStore(fd, storeId)) {
      // Once: from then on a file that is shorter was cut.
      if (found.size < NAMED_BYTES) fsyncSync(fd);
      return fd;
    }
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  closeSync(fd);
  return undefined;
}

/** Writes the store's name where it is not, or not any more; false when the file is not this store's. */
function nameStore(fd: number, storeId: string): boolean {
  const slots = readSlots(fd, 0);
  const isOwn = (slot: Slot): boolean => slot.kind === "good" && storeOf(slot.record) === storeId;
  const isForeign = slots.some((slot) => slot.kind === "good" && !isOwn(slot));
  const isBlank = slots.every((slot) => slot.kind === "blank");
  if (isForeign || !(slots.some(isOwn) || isBlank || isOnlyName(fd))) return false;
  const own = Buffer.alloc(SLOT);
  fillSlot(own, 0, { no: 0, entry: 0, hash: storeId.padEnd(64, "0") });
  for (const bank of BANKS) if (!isOwn(slots[bank])) writeSync(fd, own, 0, SLOT, slotOffset(0, bank));
  return true;
}

/** No record of any run: what a power cut left of the very first write. */
function isOnlyName(fd: number): boolean {
  const end = slotOffset(0, 1) + SLOT;
  const bytes = Buffer.alloc(end + 1);
  const size = readSync(fd, bytes, 0, bytes.length, 0);
  for (const bank of BANKS) bytes.fill(0, slotOffset(0, bank), slotOffset(0, bank) + SLOT);
  return size <= end && bytes.every((byte) => byte === 0);
}

function storeOf(record: SlotRecord): string {
  return record.hash.slice(0, 32);
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
  if (bytes.every((byte) => byte === 0)) return { kind: "blank" };
  const newest = (no: number): Slot => {
    const slot = (bank: Bank): Slot => {
      const at = slotOffset(no, bank);
      return parseSlot(bytes.subarray(at, at + SLOT), no);
    };
    return newestOf([slot(0), slot(1)]);
  };
  const store = newest(0);
  if (store.kind === "good" && bytes.length < NAMED_BYTES) return { kind: "cut", bytes: bytes.length };
  if (store.kind !== "good") return { kind: "unreadable", why: `${path} does not begin like a witness` };
  const runs = new Map<number, Testimony>();
  const damaged: number[] = [];
  for (let no = 1; no < slotNumbers(bytes.length); no++) {
    const slot = newest(no);
    if (slot.kind === "bad") damaged.push(no);
    if (slot.kind === "good") runs.set(no, { entry: slot.record.entry, hash: slot.record.hash });
  }
  return { kind: "read", storeId: storeOf(store.record), runs, damaged };
}
