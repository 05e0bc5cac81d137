import { crc32 } from "node:zlib";
import { toHex } from "../columns.ts";
import type { Head } from "./heads.ts";

/**
 * A run's record in the witness. Each run has two, in different banks, written in turn: a record that a power cut tore
 * leaves the one before it. The banks' pages alternate, since a disk tears at most the one sector that it was writing,
 * and no disk's sectors are longer than a page. Number 0 names the store.
 */
export type SlotRecord = Pick<Head, "no" | "entry" | "hash">;

export type Slot =
  | { readonly kind: "blank" }
  /** Torn, scribbled over, or of another number. */
  | { readonly kind: "bad" }
  | { readonly kind: "good"; readonly record: SlotRecord };

export type Bank = 0 | 1;
export const BANKS: readonly Bank[] = [0, 1];

export const SLOT = 64;
/** Slots that one page holds, hence the most that one write can cover. */
export const PER_PAGE = 64;
const PAGE = SLOT * PER_PAGE;
const MAGIC = 0x48465731;

export function slotOffset(no: number, bank: Bank): number {
  return (Math.floor(no / PER_PAGE) * BANKS.length + bank) * PAGE + (no % PER_PAGE) * SLOT;
}

/** A file holds at least this much from the moment it was begun: the store's name, in both banks. */
export const NAMED_BYTES = slotOffset(0, 1) + SLOT;

/** Numbers from 0 to below this can stand in a file of so many bytes. */
export function slotNumbers(bytes: number): number {
  return Math.ceil(bytes / (PAGE * BANKS.length)) * PER_PAGE;
}

/** What lies between the hash and the checksum is zero, in a buffer that begins so. */
export function fillSlot(buffer: Buffer, at: number, { no, entry, hash }: SlotRecord): void {
  buffer.writeUInt32LE(MAGIC, at);
  buffer.writeUInt32LE(no, at + 4);
  buffer.writeDoubleLE(entry, at + 8);
  buffer.write(hash, at + 16, 32, "hex");
  buffer.writeUInt32LE(crc32(buffer.subarray(at, at + SLOT - 4)), at + SLOT - 4);
}

/** `bytes` may be short: a file can end anywhere. */
export function parseSlot(bytes: Buffer, no: number): Slot {
  if (bytes.every((byte) => byte === 0)) return { kind: "blank" };
  if (bytes.length < SLOT || bytes.readUInt32LE(0) !== MAGIC || bytes.readUInt32LE(4) !== no) return { kind: "bad" };
  if (bytes.readUInt32LE(SLOT - 4) !== crc32(bytes.subarray(0, SLOT - 4))) return { kind: "bad" };
  return { kind: "good", record: { no, entry: bytes.readDoubleLE(8), hash: toHex(bytes.subarray(16, 48)) } };
}

/** Where the next record goes: never over the newer of two good ones. */
export function bankToWrite([first, second]: readonly [Slot, Slot]): Bank {
  if (first.kind !== "good") return 0;
  if (second.kind !== "good") return 1;
  return first.record.entry <= second.record.entry ? 0 : 1;
}

/** The newer good one. "bad": none is good, and both were written, which no single torn write explains. */
export function newestOf(slots: readonly [Slot, Slot]): Slot {
  const [first, second] = slots;
  if (first.kind === "good" || second.kind === "good") return slots[bankToWrite(slots) === 0 ? 1 : 0];
  return first.kind === "bad" && second.kind === "bad" ? { kind: "bad" } : { kind: "blank" };
}
