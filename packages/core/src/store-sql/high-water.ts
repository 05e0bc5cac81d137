// The high-water mark: how far each run had come, in a file outside the database. It is written after each commit and not synced, so it is
// never ahead of the database; it is behind only by what a power cut or a kill between the two took. A database that is behind the mark was
// cut, rolled back or replaced. A mark that cannot be written makes nothing less durable, so it is no reason to fail.
//
// Each run has two records of 64 bytes, on different pages, written in turn: a record that a power cut tore leaves the one before it.
// Number 0 names the store.

import { closeSync, constants, fstatSync, fsyncSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { crc32 } from "node:zlib";
import { readRegularFile } from "@holdfast/platform/files";

export interface HeadRecord {
  /** The run's number in the database. */
  readonly run: number;
  readonly entry: number;
  readonly hash: string;
}

export type MarkContent =
  | { readonly kind: "absent" }
  /** Empty, or nothing but zeros. */
  | { readonly kind: "blank" }
  | { readonly kind: "unreadable"; readonly why: string }
  /** Shorter than it was from the beginning, so records may be gone with its end. */
  | { readonly kind: "cut"; readonly bytes: number }
  | {
      readonly kind: "read";
      readonly storeId: string;
      readonly heads: readonly HeadRecord[];
      /** Numbers of runs whose two records are both damaged. */
      readonly damaged: readonly number[];
    };

export interface HighWaterMark {
  /** For messages. */
  readonly path: string;
  /** Makes it durable and names the store in it. From then on its absence is a loss. */
  begin(storeId: string): void;
  note(storeId: string, heads: readonly HeadRecord[]): void;
  read(): MarkContent;
  close(): void;
}

const SLOT = 64;
const PER_PAGE = 64;
const PAGE = SLOT * PER_PAGE;
const BANKS = [0, 1] as const;
type Bank = (typeof BANKS)[number];
const MAGIC = 0x48465731;
const MAX_BYTES = 256 << 20;
/** The file may be removed or replaced meanwhile, so it is opened again now and then. */
const REOPEN_AFTER_MS = 1000;

type Slot =
  | { readonly kind: "blank" }
  | { readonly kind: "bad" }
  | { readonly kind: "good"; readonly head: HeadRecord };

/** Where a run's record stands in the file. */
export function slotOffset(run: number, bank: Bank): number {
  return (Math.floor(run / PER_PAGE) * BANKS.length + bank) * PAGE + (run % PER_PAGE) * SLOT;
}

/** A file holds at least this much from its beginning: the store's name, in both banks. */
const NAMED_BYTES = slotOffset(0, 1) + SLOT;

export function openHighWaterMark(path: string): HighWaterMark {
  const buffer = Buffer.alloc(SLOT);
  /** The bank of each run's newest record, as far as this process wrote it. */
  const banks = new Map<number, Bank>();
  let fd: number | undefined;
  let openedAt = Number.NEGATIVE_INFINITY;

  function release(): void {
    const old = fd;
    fd = undefined;
    banks.clear();
    if (old !== undefined) closeSync(old);
  }

  function write(file: number, head: HeadRecord): void {
    const last = banks.get(head.run);
    const bank = last === undefined ? bankToWrite(slotsOf(file, head.run)) : last === 0 ? 1 : 0;
    fillSlot(buffer, head);
    writeSync(file, buffer, 0, SLOT, slotOffset(head.run, bank));
    banks.set(head.run, bank);
  }

  return {
    path,
    begin(storeId) {
      const file = openNamed(path, storeId, "always");
      if (file !== undefined) closeSync(file);
    },
    note(storeId, heads) {
      if (heads.length === 0) return;
      try {
        const now = performance.now();
        if (now - openedAt > REOPEN_AFTER_MS) {
          openedAt = now;
          release();
          fd = openNamed(path, storeId, "if missing");
        }
        if (fd !== undefined) for (const head of heads) write(fd, head);
      } catch {
        // The mark lags behind; verify reports when it is gone altogether.
      }
    },
    read: () => readMark(path),
    close() {
      openedAt = Number.POSITIVE_INFINITY;
      try {
        release();
      } catch {
        // Nothing in it had to last.
      }
    },
  };
}

/**
 * Opens the file for writing, with the store's name in it. undefined: something else is in its place, which is left alone
 * for verify to report.
 */
function openNamed(path: string, storeId: string, write: "always" | "if missing"): number | undefined {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const fd = openSync(path, flags, 0o600);
  try {
    const found = fstatSync(fd);
    const name = found.isFile() ? findName(fd, storeId) : "foreign";
    if (name !== "foreign") {
      if (write === "always" || name === "missing") writeName(fd, storeId, found.size);
      return fd;
    }
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  closeSync(fd);
  return undefined;
}

/** "missing": the store's name is to be written, in one bank at least. "foreign": the file is not this store's. */
function findName(fd: number, storeId: string): "whole" | "missing" | "foreign" {
  const slots = slotsOf(fd, 0);
  const isOwn = (slot: Slot): boolean => slot.kind === "good" && storeOf(slot.head) === storeId;
  if (slots.every(isOwn)) return "whole";
  const isForeign = slots.some((slot) => slot.kind === "good" && !isOwn(slot));
  const isBlank = slots.every((slot) => slot.kind === "blank");
  return !isForeign && (slots.some(isOwn) || isBlank || holdsOnlyName(fd)) ? "missing" : "foreign";
}

/**
 * Writes and syncs the store's name. After a failed sync the kernel drops the bytes from the disk but still shows them,
 * so the file gets its old size again: otherwise the next opening would not write them.
 */
function writeName(fd: number, storeId: string, oldSize: number): void {
  const own = Buffer.alloc(SLOT);
  fillSlot(own, { run: 0, entry: 0, hash: storeId.padEnd(64, "0") });
  for (const bank of BANKS) writeSync(fd, own, 0, SLOT, slotOffset(0, bank));
  try {
    fsyncSync(fd);
  } catch (error) {
    ftruncateSync(fd, oldSize);
    throw error;
  }
}

/** No record of any run: what a power cut left of the first write. */
function holdsOnlyName(fd: number): boolean {
  const content = Buffer.alloc(NAMED_BYTES + 1);
  const size = readSync(fd, content, 0, content.length, 0);
  for (const bank of BANKS) content.fill(0, slotOffset(0, bank), slotOffset(0, bank) + SLOT);
  return size <= NAMED_BYTES && content.every((byte) => byte === 0);
}

function readMark(path: string): MarkContent {
  const file = readRegularFile({ path, maxBytes: MAX_BYTES });
  if (file.kind === "absent") return { kind: "absent" };
  if (file.kind === "refused") return { kind: "unreadable", why: file.why };
  const content = file.bytes;
  if (content.every((byte) => byte === 0)) return { kind: "blank" };
  const newest = (run: number): Slot => {
    const slot = (bank: Bank): Slot => {
      const at = slotOffset(run, bank);
      return parseSlot(content.subarray(at, at + SLOT), run);
    };
    return newestOf([slot(0), slot(1)]);
  };
  const store = newest(0);
  if (store.kind !== "good") return { kind: "unreadable", why: `${path} does not begin like a high-water mark` };
  if (content.length < NAMED_BYTES) return { kind: "cut", bytes: content.length };
  const heads: HeadRecord[] = [];
  const damaged: number[] = [];
  const end = Math.ceil(content.length / (PAGE * BANKS.length)) * PER_PAGE;
  for (let run = 1; run < end; run++) {
    const slot = newest(run);
    if (slot.kind === "bad") damaged.push(run);
    if (slot.kind === "good") heads.push(slot.head);
  }
  return { kind: "read", storeId: storeOf(store.head), heads, damaged };
}

function slotsOf(fd: number, run: number): readonly [Slot, Slot] {
  const read = (bank: Bank): Slot => {
    const content = Buffer.alloc(SLOT);
    readSync(fd, content, 0, SLOT, slotOffset(run, bank));
    return parseSlot(content, run);
  };
  return [read(0), read(1)];
}

function storeOf(head: HeadRecord): string {
  return head.hash.slice(0, 32);
}

function fillSlot(buffer: Buffer, { run, entry, hash }: HeadRecord): void {
  buffer.writeUInt32LE(MAGIC, 0);
  buffer.writeUInt32LE(run, 4);
  buffer.writeDoubleLE(entry, 8);
  buffer.write(hash, 16, 32, "hex");
  buffer.writeUInt32LE(crc32(buffer.subarray(0, SLOT - 4)), SLOT - 4);
}

/** `content` may be short: a file can end anywhere. */
function parseSlot(content: Buffer, run: number): Slot {
  if (content.every((byte) => byte === 0)) return { kind: "blank" };
  if (content.length < SLOT || content.readUInt32LE(0) !== MAGIC || content.readUInt32LE(4) !== run)
    return { kind: "bad" };
  if (content.readUInt32LE(SLOT - 4) !== crc32(content.subarray(0, SLOT - 4))) return { kind: "bad" };
  return { kind: "good", head: { run, entry: content.readDoubleLE(8), hash: content.toString("hex", 16, 48) } };
}

/** Never over the newer of two good records. */
function bankToWrite([first, second]: readonly [Slot, Slot]): Bank {
  if (first.kind !== "good") return 0;
  if (second.kind !== "good") return 1;
  return first.head.entry <= second.head.entry ? 0 : 1;
}

/** "bad": both were written and neither is good, which no single torn write explains. */
function newestOf(slots: readonly [Slot, Slot]): Slot {
  const [first, second] = slots;
  if (first.kind === "good" || second.kind === "good") return slots[bankToWrite(slots) === 0 ? 1 : 0];
  return first.kind === "bad" && second.kind === "bad" ? { kind: "bad" } : { kind: "blank" };
}
